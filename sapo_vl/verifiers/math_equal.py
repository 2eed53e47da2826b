r"""Decides whether two normalised formulas are equal; math-verify does the algebra.

Its ready-made extraction and rounding are not used: it joins neighbouring boxes into a set and
accepts 1/2006! for 1/2004! because it rounds to six absolute decimals. Here numbers are compared by
relative error, and a decimal reference is compared at its own precision.
"""

from __future__ import annotations

import re
import threading
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from sapo_vl.verifiers.math_guard import is_relation, is_solvable, why_refused
from sapo_vl.verifiers.math_normal import squeeze

_DIGITS = 30  # of a numerical value
_EXACT = sympy.Float("1e-20", _DIGITS)  # relative; two exact values that differ differ by more
_SIGNIFICANT = 3  # digits a decimal reference needs before an answer may be rounded to it

_NUMBER = re.compile(r"([-+]?)(\d*)(?:\.(\d*))?(?:e([-+]?\d{1,3}))?(?:/(\d+))?(\\%)?", re.I)
_BASE = re.compile(r"\d_\{?(\d+)\}?$")
_WORD = re.compile(r"[^\W\d_]{4,}|[^\W\d_ -ɏ]")
_FORMULA = re.compile(r"[\\^_{}=<>+*/|()\[\]\d]")
_CLOCK = re.compile(r"\d{1,2}:0\d")
_LITERAL = re.compile(r"\\(?:[lc]?dots|forall|exists)(?![A-Za-z])|\.\.\.")

# boxed="last" with one box: the box is ours, so nothing is searched for. Units and malformed
# operators are off: math_normal has cleaned what is safe to clean, the rest would be guessed.
_READER = LatexExtractionConfig(
    boxed_match_priority=0,
    try_extract_without_anchor=False,
    normalization_config=NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=False, nits=True, boxed="last"
    ),
)


class _Decimal:
    """A number as written: its value and how precisely it was given."""

    def __init__(self, match: re.Match[str]) -> None:
        sign, whole, fraction, exponent, below, percent = match.groups()
        shift = int(exponent or 0)
        value = Fraction(int(whole + (fraction or "") or "0"), 10 ** len(fraction or ""))
        value = value * Fraction(10) ** shift / int(below or 1)
        self.value = -value if sign == "-" else value
        self.percent = bool(percent)
        self.is_decimal = fraction is not None or exponent is not None
        self.is_ratio = below is not None
        self.places = len(fraction or "") - shift
        self.significant = len((whole + (fraction or "")).lstrip("0"))


def is_literal(text: str) -> bool:
    """Return whether a normalised text is compared letter by letter: words, dots, quantifiers.

    As a product of letters "Sunday" would equal "yadnuS".
    """
    words = _WORD.search(text) is not None and _FORMULA.search(text) is None
    return words or bool(_CLOCK.fullmatch(text) or _LITERAL.search(text))


@lru_cache(maxsize=4096)
def parse_math(text: str, timeout_seconds: int | None) -> Any | None:
    """Return the sympy object of a normalised formula, or None where it is none.

    Args:
        text: what `normalise_math` returned.
        timeout_seconds: see `alarm_seconds`.

    Raises:
        math_verify.errors.TimeoutException: it took longer.
    """
    if why_refused(text) is not None:
        return None
    found = parse(
        rf"\boxed{{{text}}}",
        extraction_config=[_READER],
        fallback_mode="no_fallback",
        parsing_timeout=timeout_seconds,  # type: ignore[arg-type]  # None switches it off
        raise_on_error=False,
    )
    if not found or found[0] in (sympy.nan, sympy.zoo):
        return None
    return found[0]


def alarm_seconds(timeout_seconds: int | None) -> int | None:
    """Return the time limit where one can be set, None elsewhere.

    math-verify's limit is SIGALRM: in any other thread it raises ValueError instead.
    """
    return timeout_seconds if threading.current_thread() is threading.main_thread() else None


def math_equal(
    answer: str, reference: str, rel_tol: float, timeout_seconds: int | None = None
) -> bool:
    """Return whether two formulas from `normalise_math` are equal.

    Args:
        answer: the model's.
        reference: the right one; its form decides (a set, an interval, a decimal).
        rel_tol: largest relative error of a decimal answer to an exact reference.
        timeout_seconds: see `alarm_seconds`.

    Raises:
        math_verify.errors.TimeoutException: it took longer.
    """
    if squeeze(answer) == squeeze(reference):
        return True
    if is_literal(reference) or is_literal(answer):
        return squeeze(answer).casefold() == squeeze(reference).casefold()
    left, right = _decimal(answer), _decimal(reference)
    if left is not None and right is not None:
        return _numbers_equal(left, right, rel_tol)
    return _formulas_equal(answer, reference, rel_tol, alarm_seconds(timeout_seconds))


def _decimal(text: str) -> _Decimal | None:
    match = _NUMBER.fullmatch(squeeze(text))
    if match is None or not (match[2] or match[3]) or len(text) > 100:
        return None
    return None if match[5] and not int(match[5]) else _Decimal(match)


def _numbers_equal(answer: _Decimal, reference: _Decimal, rel_tol: float) -> bool:
    """Compare two written numbers; a percent sign on one side may be dropped or divided out."""
    values = {answer.value}
    if answer.percent != reference.percent:
        values.add(answer.value / 100 if answer.percent else answer.value * 100)
    exact = not (answer.is_decimal or reference.is_decimal)
    return any(
        value == reference.value
        if exact
        else abs(value - reference.value) <= Fraction(rel_tol) * abs(reference.value)
        or (_may_round(answer, reference) and _rounds_to(value, reference))
        for value in values
    )


def _may_round(answer: _Decimal | None, reference: _Decimal) -> bool:
    # Only a value known more precisely than the reference: 33.33 or 100/3 for 33.3, but not 33.
    if not reference.is_decimal or reference.significant < _SIGNIFICANT:
        return False
    return answer is None or answer.is_ratio or answer.places > reference.places


def _rounds_to(value: Fraction, reference: _Decimal) -> bool:
    return abs(value - reference.value) <= Fraction(1, 2) / Fraction(10) ** reference.places


def _formulas_equal(answer: str, reference: str, rel_tol: float, seconds: int | None) -> bool:
    if _bases_differ(answer, reference) or (is_relation(answer) and not is_solvable(answer)):
        return False
    left, right = parse_math(answer, seconds), parse_math(reference, seconds)
    if left is None or right is None:
        return False
    numbers = _value(left), _value(right)
    if "%" not in answer + reference and None not in numbers:
        return _values_equal(numbers, answer, reference, rel_tol)
    return verify(
        right,
        left,
        allow_set_relation_comp=True,  # the question fixes the variable of x < 3
        timeout_seconds=seconds,
        raise_on_error=True,
    )


def _bases_differ(answer: str, reference: str) -> bool:
    # The parser drops the base; a missing one may be what the question says, another one may not.
    one, other = _BASE.search(answer), _BASE.search(reference)
    return bool(one and other and one[1] != other[1])


def _value(parsed: Any) -> Any | None:
    """Return the real value of a constant to `_DIGITS` digits, None of anything else."""
    if not isinstance(parsed, sympy.Expr) or parsed.free_symbols:
        return None
    value = parsed.evalf(_DIGITS)
    return value if value.is_Number and value.is_finite else None


def _values_equal(
    numbers: tuple[Any, Any], answer: str, reference: str, rel_tol: float
) -> bool:
    left, right = numbers
    written = _decimal(reference)
    error = abs(left - right)
    if written is not None and written.is_decimal and _may_round(_decimal(answer), written):
        half = sympy.Float(10, _DIGITS) ** -written.places / 2
        if error <= half:
            return True
    as_decimals = "." in answer or "." in reference
    return bool(error <= (rel_tol if as_decimals else _EXACT) * max(abs(left), abs(right)))
