"""Judges answers under an audit hook and prints what reached compile, exec or eval.

Run by test_safety.py in a process of its own: an audit hook cannot be taken off again.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import tokenize
from typing import Any

import hard_cases
from verifier_tables import TABLES

from sapo_vl.types import Prompt
from sapo_vl.verifiers import FORMS, TRAINING

CANARY = "zqcanary"
HOSTILE = (
    f"__import__('{CANARY}')",
    f"{CANARY}(1)",
    f"{CANARY}+1",
    f"x_{{{CANARY}}}",
    f'(lambda: "{CANARY}")()',
    rf"\frac{{{CANARY}}}{{2}}",
    rf"\text{{{CANARY}}}",
    f'{{"solution": {{"House 1": {{"Name": "__import__(\'{CANARY}\')"}}}}}}',
    f"[__import__('{CANARY}'), 1, 2, 3]",
    "31415926535.25",
    r"31415926535 + \sqrt{27182818284}",
)
# sympy writes the code of products of powers for a number of unknowns; only the number is ours.
_CODEGEN_NAMES = ("def return A B None if else for in range".split(), "abkr")

found: list[str] = []
listening = False


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    global listening
    if event not in ("compile", "exec") or not listening:
        return
    listening = False  # what the hook itself does is none of it
    source = arguments[0]
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else str(source)
    stack = _files()
    if not (_is_import(event, source, stack) or _is_codegen(event, text, stack)):
        found.append(f"{event}: {text[:200]} at {stack[:6]}")
    listening = True


def _files() -> list[str]:
    frame, files = sys._getframe(2), []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _is_import(event: str, source: Any, stack: list[str]) -> bool:
    """Whether a module's file is loaded: it comes from the disk and not from an answer."""
    loading = any("importlib" in file for file in stack)
    return loading and CANARY not in str(source)


def _is_codegen(event: str, text: str, stack: list[str]) -> bool:
    if not any(file.endswith("sympy/polys/monomials.py") for file in stack):
        return False
    if event == "exec":  # the code object of the source that was looked at before
        return True
    words, letters = _CODEGEN_NAMES
    names = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME
    ]
    return all(
        name in words or name.startswith("monomial_") or name.strip("0123456789") in letters
        for name in names
    )


def judge_all() -> int:
    count = 0
    for case in hard_cases.load():
        prompt = hard_cases.prompt_of(case)
        assert prompt.verifier is not None
        prompt.verifier(prompt, hard_cases.response_of(case))
        count += 1
    for name, table in TABLES.items():
        for row in table:
            row.judge(name)
            count += 1
    for name, kind in TRAINING.items():
        for reference in {row.reference for row in TABLES[name]}:
            for answer in HOSTILE:
                for form in FORMS:
                    text = {"boxed": rf"\boxed{{{answer}}}", "answer_line": f"Answer: {answer}"}
                    prompt = Prompt(reference=reference, options={"A": answer, "B": "x"})
                    kind(form=form)(prompt, text.get(form, f"<answer>{answer}</answer>"))
                    count += 1
    return count


def main() -> None:
    global listening
    importlib.import_module("sympy.physics.units")  # evaluates its own names while it is imported
    sys.addaudithook(hook)
    listening = True
    count = judge_all()
    clean = list(found)
    # The control: the hook sees each way in.
    import sympy

    for use in (
        lambda: eval(f"'{CANARY}'"),
        lambda: exec(f"x = '{CANARY}'"),
        lambda: sympy.sympify(CANARY),
        lambda: sympy.parse_expr(CANARY),
        lambda: sympy.Number("17.5"),
    ):
        found.clear()
        use()
        assert found, "the hook is blind"
    print(json.dumps({"judged": count, "found": clean}))


if __name__ == "__main__":
    main()
