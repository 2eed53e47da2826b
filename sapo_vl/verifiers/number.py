"""Verifier for answers that are one number, counts above all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.numerals import read_numbers
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS


@dataclass(frozen=True)
class NumberVerifier:
    """Accept an answer that states exactly the number of the reference.

    The answer may carry a unit, words around the number or a hedge ("about 7" is 7), but no second
    number that differs: an enumeration never passes, and neither does a bound or a denial ("at
    least 7", "not 7"). A percent sign is a unit (50% is 50), "1.4 billion" and "1.4bn" are
    1,400,000,000; English and Chinese number words are read. What is compared is exact, not a
    rounded float.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        abs_tol: largest difference from the reference that is accepted.
        rel_tol: the same as a share of the reference's size; the larger of both counts.

    Raises:
        ValueError: an unknown form, or a tolerance that is negative or not finite.
    """

    form: Form = "boxed"
    thinking: bool = False
    abs_tol: float = 0.0
    rel_tol: float = 0.0

    def __post_init__(self) -> None:
        check_form(self.form)
        for name, value in (("abs_tol", self.abs_tol), ("rel_tol", self.rel_tol)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; it must be a finite number of 0 or more")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        shown = answer[:MAX_CHARS]
        stated, wanted = read_numbers(answer), read_numbers(prompt.reference)
        if stated is None:
            reason = "the answer states no number, or several"
            return Verdict(score=0.0, extracted=shown, status="no_answer", reason=reason)
        right = wanted is not None and self._equal(stated, wanted)
        reason = f"{shown!r} {'equals' if right else 'is not'} the reference {prompt.reference!r}"
        return Verdict(score=float(right), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if read_numbers(prompt.reference) is None:
            return f"the reference {prompt.reference!r} is not one finite number"
        return None

    def _equal(self, stated: tuple[Fraction, ...], wanted: tuple[Fraction, ...]) -> bool:
        return len(stated) == len(wanted) and all(
            abs(s - w) <= max(Fraction(self.abs_tol), Fraction(self.rel_tol) * abs(w))
            for s, w in zip(stated, wanted, strict=True)
        )
