r"""Verifier for mathematical answers: strings first, then numbers, then algebra by math-verify."""

from __future__ import annotations

from dataclasses import dataclass

from math_verify.errors import TimeoutException

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.math_equal import alarm_seconds, is_literal, math_equal, parse_math
from sapo_vl.verifiers.math_normal import normalise_math, squeeze
from sapo_vl.verifiers.math_phrases import opposed
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS

_MAX_SHOWN = 300


@dataclass(frozen=True)
class MathVerifier:
    r"""Accept an answer that is mathematically equal to the reference.

    Units are not graded and not converted, the order of a list is free, interval ends count, and
    50\% is 0.5 as well as 50. A bare list may be answered in any plain brackets; a pair or an
    interval in its own alone, or as ``x=1, y=2``. Letters keep their case (n is not N), words do
    not; i is the imaginary unit, \log has the base 10. Integrals and sums are no references. A
    decimal reference of three digits or more accepts what rounds to it. Formulas that could be slow
    to evaluate are compared as strings only, see `math_guard`.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        rel_tol: largest relative error of a decimal that stands for an exact value; the default
            asks for seven significant digits.
        timeout_seconds: limit of one parse or comparison, by SIGALRM, so in the main thread alone;
            elsewhere, and where it is None, the refusal of slow formulas is the only guard.

    Raises:
        ValueError: an unknown form, or a number out of range.
    """

    form: Form = "boxed"
    thinking: bool = False
    rel_tol: float = 5e-7
    timeout_seconds: int | None = 5

    def __post_init__(self) -> None:
        check_form(self.form)
        if not 0 <= self.rel_tol < 1:
            raise ValueError(f"rel_tol is {self.rel_tol}; it must lie in [0, 1)")
        if self.timeout_seconds is not None and self.timeout_seconds < 1:
            raise ValueError(
                f"timeout_seconds is {self.timeout_seconds}; it must be 1 or more, or null for none"
            )

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        shown = answer[:_MAX_SHOWN]
        try:
            right = self._equal(answer, prompt.reference)
        except TimeoutException:
            reason = f"comparing took more than {self.timeout_seconds} s"
            return Verdict(score=0.0, extracted=shown, status="timeout", reason=reason)
        # The algebra may fail in any way on an odd answer; the status keeps that from being silent.
        except Exception as error:
            reason = f"comparing failed: {type(error).__name__}"
            return Verdict(score=0.0, extracted=shown, status="error", reason=reason)
        reason = f"{shown!r} {'equals' if right else 'is not'} the reference {prompt.reference!r}"
        return Verdict(score=float(right), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        reference = normalise_math(prompt.reference)
        if not squeeze(reference) or squeeze(reference).casefold() == "nan":
            return f"the reference {prompt.reference!r} is empty or not a number"
        if is_literal(reference):
            return None
        try:
            # The parser knows the percent sign after plain numbers only.
            value = reference.removesuffix(r"\%")
            parsed = parse_math(value, alarm_seconds(self.timeout_seconds))
        except TimeoutException:
            parsed = None
        if parsed is None:
            return f"the reference {prompt.reference!r} cannot be read as mathematics"
        return None

    def _equal(self, answer: str, reference: str) -> bool:
        if opposed(answer[:MAX_CHARS], reference):
            return False
        return math_equal(
            normalise_math(answer),
            normalise_math(reference),
            self.rel_tol,
            self.timeout_seconds,
        )
