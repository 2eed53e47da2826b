"""The official fast mode of EMMA: a rule, no judge."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.latex_value import same_to_two_decimals
from sapo_vl.verifiers.official.plain_float import is_float
from sapo_vl.verifiers.official.verdicts import by_answer
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import empty_reference

_LETTERS = "ABCDEFGH"
_FLAGS = ("final answer is", "correct answer is", "answer should be", "answer is")
_BOX = r"\boxed{"
_BRACE = re.compile("[{}]")


@dataclass(frozen=True)
class EmmaFast:
    r"""Score a response as EMMA's fast mode does.

    The answer is a letter that opens the response ("B:"), the response itself where it is a number,
    the last ``\boxed{}`` (the last ``\text{}`` in it), else what follows "answer is" up to the line
    or sentence end, else the whole response. It is right where it is the same text as the reference
    or as the text of the right option, or the same number **at two decimals**.

    Known oddities, kept: the letter that opens wins over any box, so "A: ..." is decided at its
    first word; after "answer is" the answer ends at the first full stop, so 3.5 becomes 3.
    Left out: the original also asks sympy whether two formulas with unknowns are equal; here these
    are equal only as texts (none of the 400 stored verdicts needs it).

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        answer = find_answer(text)
        if not answer:
            return Verdict(score=0.0, status="no_answer", reason="the response is empty")
        texts = {label.casefold(): option for label, option in prompt.options.items()}
        wanted = [prompt.reference, texts.get(prompt.reference.casefold(), "")]
        right = any(_same(answer, reference) for reference in wanted if reference.strip())
        return by_answer(answer, right, prompt)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return empty_reference(prompt)


def find_answer(response: str) -> str:
    """Return the answer as EMMA's script would store it."""
    text = response.strip()
    for letter in _LETTERS:
        if text.upper() == letter or text.startswith(f"{letter}:"):
            return letter
    if is_float(text):
        return text
    box = _last_box(text)
    if box is not None:
        return _last_text(box).strip()
    lowered = text.lower()
    for flag in _FLAGS:
        _, found, after = lowered.rpartition(flag)
        if found:
            return after.strip().partition("\n")[0].partition(".")[0]
    return text


def _last_box(text: str) -> str | None:
    """Return the content of the last closed box that lies in no other; linear in the text."""
    found, position = None, text.find(_BOX)
    while position >= 0:
        start, depth = position + len(_BOX), 1
        end = -1
        for brace in _BRACE.finditer(text, start):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.start()
                break
        if end < 0:
            break
        found, position = text[start:end], text.find(_BOX, end)
    return found


def _last_text(box: str) -> str:
    _, opened, content = box.rpartition(r"\text{")
    return content.partition("}")[0] if opened and "}" in content else box


def _same(answer: str, reference: str) -> bool:
    answer, reference = answer.lower(), reference.lower()
    return answer.strip() == reference.strip() or same_to_two_decimals(reference, answer)
