"""Reads the tests of a programming task, in the forms LiveCodeBench data comes in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sapo_vl.types import Prompt, Verdict

_LONG_INTEGER = 4000  # digits; Python refuses to read longer ones


@dataclass(frozen=True, slots=True)
class CodeTests:
    """Inputs with their outputs; with ``function`` both are JSON, the arguments one a line."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: str | None = None


def read_tests(prompt: Prompt) -> CodeTests:
    """Return the tests of a prompt.

    Looked for in this order: ``prompt.meta["tests"]``, LiveCodeBench's own fields in
    ``prompt.meta`` (``public_test_cases``, ``private_test_cases``, ``metadata``),
    ``prompt.reference``. Tests are ``{"inputs": [...], "outputs": [...], "fn_name": name or
    null}``, as an object or as JSON text.

    Raises:
        ValueError: there are none, or they are damaged; says what to do.
    """
    if "tests" in prompt.meta:
        tests = _from_lists(_decoded(prompt.meta["tests"], "meta['tests']"))
    elif "public_test_cases" in prompt.meta or "private_test_cases" in prompt.meta:
        tests = _from_livecodebench(prompt.meta)
    else:
        tests = _from_lists(_decoded(prompt.reference, "the reference"))
    if not tests.inputs:
        raise ValueError("there are no tests")
    if tests.function is not None:
        for text in (*"\n".join(tests.inputs).split("\n"), *tests.outputs):
            read_json(text)
    return tests


def tests_or_verdict(prompt: Prompt) -> CodeTests | Verdict:
    """Return the tests of a prompt, or the verdict that says why there are none."""
    try:
        return read_tests(prompt)
    except ValueError as error:
        return Verdict(score=0.0, status="unparsable_reference", reason=str(error))


def unusable_tests(prompt: Prompt) -> str | None:
    """Say what makes the tests of a prompt unusable; None where they are fine."""
    tests = tests_or_verdict(prompt)
    return tests.reason if isinstance(tests, Verdict) else None


def read_json(text: str) -> Any:
    """Return JSON text parsed; integers too long for Python stay text.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(text, parse_int=lambda d: d if len(d) > _LONG_INTEGER else int(d))
    # RecursionError: thousands of nested brackets.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text[:100]!r} is no JSON") from error


def _decoded(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        hint = "a pickled field must be decoded when shards are built, never here"
        raise ValueError(f"{where} is no JSON; {hint}") from error


def _from_lists(value: Any) -> CodeTests:
    if not isinstance(value, Mapping):
        raise ValueError("tests must be an object with inputs, outputs and fn_name")
    inputs, outputs = _texts(value.get("inputs")), _texts(value.get("outputs"))
    if len(inputs) != len(outputs):
        raise ValueError(f"there are {len(inputs)} inputs but {len(outputs)} outputs")
    name = value.get("fn_name")
    if not isinstance(name, str | None):
        raise ValueError("fn_name must be a string or null")
    return CodeTests(inputs, outputs, name or None)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError("inputs and outputs must be lists of strings")
    return tuple(value)


def _from_livecodebench(meta: Mapping[str, Any]) -> CodeTests:
    cases: list[Any] = []
    for name in ("public_test_cases", "private_test_cases"):
        found = _decoded(meta.get(name) or [], f"meta[{name!r}]")
        cases += found if isinstance(found, list) else [found]
    if not all(isinstance(case, Mapping) and {"input", "output"} <= set(case) for case in cases):
        raise ValueError("a test case must be an object with input and output")
    extra = _decoded(meta.get("metadata") or {}, "meta['metadata']")
    return _from_lists(
        {
            "inputs": [case["input"] for case in cases],
            "outputs": [case["output"] for case in cases],
            "fn_name": extra.get("func_name") if isinstance(extra, Mapping) else None,
        }
    )
