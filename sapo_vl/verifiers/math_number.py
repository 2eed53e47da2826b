r"""Compares two written numbers: exact where both are, by relative error where one is a decimal."""

from __future__ import annotations

import re
from fractions import Fraction

from sapo_vl.verifiers.math_normal import squeeze

_SIGNIFICANT = 3  # digits a decimal reference needs before an answer may be rounded to it
_MAX_CHARS = 100

_NUMBER = re.compile(r"([-+]?)(\d*)(?:\.(\d*))?(?:e([-+]?\d{1,3}))?(?:/(\d+))?(\\%)?", re.I)


class WrittenNumber:
    r"""A number as it was written: its value and how precisely it was given.

    Example: ``33.30\%`` has value 33.3, percent, places 2, four significant digits.
    """

    def __init__(self, match: re.Match[str]) -> None:
        sign, whole, fraction, exponent, below, percent = match.groups()
        digits, shift = whole + (fraction or ""), int(exponent or 0)
        value = Fraction(int(digits), 10 ** len(fraction or "")) * Fraction(10) ** shift
        self.value = (-value if sign == "-" else value) / int(below or 1)
        self.percent = percent is not None
        self.is_decimal = fraction is not None or exponent is not None
        self.is_ratio = below is not None
        self.places = len(fraction or "") - shift
        self.significant = len(digits.lstrip("0"))


def read_written(text: str) -> WrittenNumber | None:
    r"""Return the number that a normalised text is, or None: digits, a/b, 6.02e23, with \%."""
    match = _NUMBER.fullmatch(squeeze(text)) if len(text) <= _MAX_CHARS else None
    if match is None or not (match[2] or match[3]) or (match[5] and not int(match[5])):
        return None
    return WrittenNumber(match)


def numbers_equal(answer: WrittenNumber, reference: WrittenNumber, rel_tol: float) -> bool:
    """Return whether two written numbers are equal.

    A percent sign on one side alone may be dropped or divided out: data sets do both. Two decimals
    may differ by ``rel_tol`` of the reference, and a more precise answer may round to it.
    """
    values = {answer.value}
    if answer.percent != reference.percent:
        values.add(answer.value / 100 if answer.percent else answer.value * 100)
    if reference.value in values:
        return True
    if not (answer.is_decimal or reference.is_decimal):
        return False
    allowed = Fraction(rel_tol) * abs(reference.value)
    if may_round(answer, reference):
        allowed = max(allowed, half_unit(reference))
    return any(abs(value - reference.value) <= allowed for value in values)


def may_round(answer: WrittenNumber | None, reference: WrittenNumber) -> bool:
    """Return whether the answer is known more precisely than a decimal reference.

    So 33.33 or 100/3 may stand for 33.3, but neither 33 nor 33.4; ``answer`` is None for a formula.
    """
    if not reference.is_decimal or reference.significant < _SIGNIFICANT:
        return False
    return answer is None or answer.is_ratio or answer.places > reference.places


def half_unit(reference: WrittenNumber) -> Fraction:
    """Return half a unit of the last written decimal of ``reference``."""
    return Fraction(1, 2) / Fraction(10) ** reference.places
