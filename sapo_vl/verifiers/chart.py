"""Verifier for values read from charts: a tolerance for numbers, words and years exact."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.numerals import read_numbers
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS, plain, strip_lead_in
from sapo_vl.verifiers.text import text_key

_PERCENT = re.compile(r"%|\bper\s?cent\b", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d|2100")


@dataclass(frozen=True)
class ChartVerifier:
    """Accept a number near the reference, or exactly the reference's words.

    The strict form of ChartQA's relaxed accuracy (Masry et al., 2022), for training: years must
    match exactly, a reference of zero is compared as a number, thousands separators, units and a
    full stop do not count. A percent sign in the reference is graded (0.5 and 50% are 50%, 50 is
    not); where the reference has none, 50% may stand for 50 and for 0.5. An answer that states
    several numbers for one equals none. The benchmark's own rule is ``chartqa_official``.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        rel_tol: largest error as a share of the reference.

    Raises:
        ValueError: an unknown form, or a tolerance outside [0, 1).
    """

    form: Form = "boxed"
    thinking: bool = False
    rel_tol: float = 0.05

    def __post_init__(self) -> None:
        check_form(self.form)
        if not (math.isfinite(self.rel_tol) and 0 <= self.rel_tol < 1):
            raise ValueError(f"rel_tol is {self.rel_tol}; it must lie in [0, 1)")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        shown, reference = answer[:MAX_CHARS], prompt.reference
        right = len(answer) <= MAX_CHARS and self._equal(answer, reference)
        reason = f"{shown!r} {'is near' if right else 'is not'} the reference {reference!r}"
        return Verdict(score=float(right), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if not text_key(prompt.reference) or text_key(prompt.reference) == "nan":
            return f"the reference {prompt.reference!r} is empty or not a number"
        return None

    def _equal(self, answer: str, reference: str) -> bool:
        if text_key(reference) in (text_key(answer), text_key(strip_lead_in(plain(answer)))):
            return True
        wanted, stated = _values(reference), _stated(answer, reference)
        if wanted is None or stated is None or len(wanted) != len(stated):
            return False
        # A sign on the answer alone is a unit or a hundredth: charts print 50% for 50 and for 0.5.
        shares = tuple(value / 100 for value in stated) if _PERCENT.search(answer) else stated
        if _PERCENT.search(reference):
            return self._near(shares, wanted, reference)
        return self._near(stated, wanted, reference) or self._near(shares, wanted, reference)

    def _near(
        self, stated: tuple[Fraction, ...], wanted: tuple[Fraction, ...], reference: str
    ) -> bool:
        # As written, 0.05: the float is a little larger, and 105 is just within 5 % of 100.
        tolerance = Fraction(str(self.rel_tol))
        return all(
            abs(s - w) <= (0 if year else tolerance) * abs(w)
            for s, w, year in zip(stated, wanted, _years(reference, len(wanted)), strict=True)
        )


def _stated(answer: str, reference: str) -> tuple[Fraction, ...] | None:
    """Return the answer's numbers; a list may go without its brackets where one is asked for."""
    listed = reference.strip().startswith("[") and "," in answer
    bare = listed and not answer.strip().startswith("[")
    return read_numbers(f"[{answer}]" if bare else answer)


def _years(reference: str, count: int) -> list[bool]:
    """Say of each of ``count`` numbers whether it is written as a year."""
    parts = plain(reference).strip("[]").split(",")
    years = [_YEAR.fullmatch(part.strip()) is not None for part in parts]
    return years if len(years) == count else [False] * count  # 1,200 is one number


def _values(reference: str) -> tuple[Fraction, ...] | None:
    """Return the numbers of a reference that is nothing but numbers; None for words."""
    bare = plain(reference)
    if re.search(r"[^\W\d_]", _PERCENT.sub("", bare)) and not re.fullmatch(
        r"[-+$€£¥\s]*[\d.,]+\s*(?:thousand|million|billion|trillion|%)?", bare, re.IGNORECASE
    ):
        return None
    values = read_numbers(reference)
    if values is not None and _PERCENT.search(reference):
        return tuple(value / 100 for value in values)
    return values
