"""The official rule of DynaMath: the "short answer" of a JSON object."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.plain_float import is_float
from sapo_vl.verifiers.official.verdicts import by_answer
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import empty_reference

_CHOICES = "ABCDE"
_TOLERANCE = 0.001
_MAX_CHARS = 200_000
_PI = "\u03c0"


@dataclass(frozen=True)
class DynaMathOfficial:
    """Score a response as DynaMath does: by the "short answer" of its JSON object.

    ``prompt.meta["answer_type"]`` says how: a float may be 0.001 off (its first word counts, a
    number before pi is multiplied); a multiple choice answer is one letter, or a text that holds
    exactly one of A to E; anything else is right where the reference is a part of it.

    Known oddities, kept: backslashes vanish before the JSON is read, so LaTeX loses them; a choice
    answered in words seldom names one letter ("A" stands in "And"); any long answer that mentions
    the reference passes. Not kept: VLMEvalKit asks a language model where the JSON can't be read
    (here: wrong, status "no_answer") and looks for the answer in the reference, so that an empty
    answer passes.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        answer = _short_answer(text) if len(text) <= _MAX_CHARS else None
        if answer is None or not answer.strip():
            reason = 'no JSON object with a "short answer"'
            return Verdict(score=0.0, status="no_answer", reason=reason)
        return by_answer(answer, _right(answer, prompt), prompt)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if prompt.meta.get("answer_type") == "float" and _number(prompt.reference) is None:
            return f"the reference {prompt.reference!r} is no number, but meta['answer_type'] float"
        return empty_reference(prompt)


def _short_answer(text: str) -> str | None:
    start, end = text.find("{"), text.rfind("}")
    try:
        found: Any = json.loads(text[start : end + 1].replace("\\", ""), strict=False)
    # RecursionError: thousands of nested brackets.
    except (ValueError, RecursionError):
        return None
    answer = found.get("short answer") if isinstance(found, dict) else None
    return str(answer) if isinstance(answer, str | int | float) else None


def _right(answer: str, prompt: Prompt) -> bool:
    kind, reference = prompt.meta.get("answer_type"), prompt.reference
    if kind == "float":
        value, wanted = _number(answer), _number(reference)
        return value is not None and wanted is not None and abs(value - wanted) <= _TOLERANCE
    if kind == "multiple choice":
        return _letter(answer) == reference.strip().upper()
    return reference.lower() in answer.lower()


def _number(text: str) -> float | None:
    first, pi, _ = (text.split(" ")[0] if text.strip() else "").partition(_PI)
    if not is_float(first):
        return None
    value = float(first) * (math.pi if pi else 1.0)
    return value if math.isfinite(value) else None


def _letter(answer: str) -> str | None:
    if len(answer) == 1:
        return answer.upper()
    named = [letter for letter in _CHOICES if letter in answer.upper()]
    return named[0] if len(named) == 1 else None
