"""The official rule of MathVision (MATH-V), without its ``eval``."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.latex_value import latex_value, same_to_two_decimals
from sapo_vl.verifiers.official.mathvision_text import find_answer
from sapo_vl.verifiers.official.verdicts import by_answer
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import empty_reference

_MAX_CHARS = 300  # of a tuple, which is compared as text where it is longer
_MAX_PARTS = 50  # of a tuple


@dataclass(frozen=True)
class MathVisionOfficial:
    r"""Score a response as MathVision's own script does (rule only, no judge).

    The answer is a letter that ends the text, the number after the last "is ", what follows "the
    answer is", or the last box. It is right where it is the same text as the reference or as the
    text of the right option, the same tuple, or the same number **at two decimals**.

    Known oddities, kept: 3.14159 passes for pi and 1/2006! for 1/2004!; an option's text counts as
    its letter; the value after an equals sign is graded alone; without any of its marks the whole
    response is the answer.

    The original computes values with ``eval``; here `latex_value` parses them. A formula that its
    guard refuses (towers of powers, large factorials, 300 characters) counts as unequal.

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
            return Verdict(score=0.0, status="no_answer", reason="nothing is left of the response")
        wanted = [prompt.reference, prompt.options.get(prompt.reference, "")]
        right = any(same_answer(answer, reference) for reference in wanted)
        return by_answer(answer, right, prompt)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return empty_reference(prompt)


def same_answer(answer: str, reference: str) -> bool:
    """Return whether the official script calls two answers equal."""
    answer, reference = answer.lower(), reference.lower()
    if not answer.strip() or not reference.strip():
        return False
    if answer.strip() == reference.strip():
        return True
    answer, reference = _rounded_tuple(answer), _rounded_tuple(reference)
    return answer == reference or same_to_two_decimals(reference, answer)


def _rounded_tuple(text: str) -> str:
    """Return ``(1/2,3)`` as ``(0.5,3)``; anything but a tuple or list of numbers unchanged."""
    ends = text[0] + text[-1]
    parts = text[1:-1].split(",") if len(text) <= _MAX_CHARS else []
    if ends not in ("()", "[]") or not 1 < len(parts) <= _MAX_PARTS:
        return text
    values = [_part(part) for part in parts]
    return text if None in values else f"{ends[0]}{','.join(map(str, values))}{ends[1]}"


def _part(text: str) -> str | None:
    if "infty" in text or text in ("a", "-a"):
        return text
    value = latex_value(text)
    return None if value is None else str(round(value, 2))
