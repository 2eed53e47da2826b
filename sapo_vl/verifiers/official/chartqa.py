"""The official rule of ChartQA: relaxed accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.official.plain_float import is_float
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.references import empty_reference

_TOLERANCE = 0.05
_MAX_SHOWN = 300


@dataclass(frozen=True)
class ChartQAOfficial:
    """Score an answer by ChartQA's relaxed accuracy, as pix2struct and lmms-eval compute it.

    Numbers may be 5 % off the reference (``p%`` is p/100 on both sides); everything else must be
    the same text but for case and blanks around it.

    Known oddities, kept: years are numbers, so 2008 passes for 2010; a reference of zero is
    compared as text, so "0.0" is not "0"; thousands commas, units and a trailing full stop make an
    answer wrong; 50 is not 50%.

    Args:
        form: where the response holds its answer; the benchmark asks for a single word: "whole".
        thinking: the model reasons before ``</think>``.

    Raises:
        ValueError: an unknown form.
    """

    form: Form = "whole"
    thinking: bool = False

    def __post_init__(self) -> None:
        check_form(self.form)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        right = relaxed_equal(answer, prompt.reference.strip())
        shown = answer[:_MAX_SHOWN]
        reason = f"{shown!r} {'passes' if right else 'fails'} for {prompt.reference!r}"
        return Verdict(score=float(right), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return empty_reference(prompt)


def relaxed_equal(answer: str, reference: str) -> bool:
    """Return whether an answer is within 5 % of a number, or the same text in any case."""
    value, wanted = _number(answer), _number(reference)
    if value is not None and wanted:
        return abs(value - wanted) / abs(wanted) <= _TOLERANCE
    return answer.lower() == reference.lower()


def _number(text: str) -> float | None:
    digits = text.rstrip("%") if text.endswith("%") else text
    if not is_float(digits):
        return None
    return float(digits) / 100 if text.endswith("%") else float(digits)
