r"""Decides whether two normalised formulas are equal; math-verify does the algebra.

Its ready-made extraction and rounding are not used: it joins neighbouring boxes into a set and
accepts 1/2006! for 1/2004! because it rounds to six absolute decimals. Here numbers are compared by
relative error, a decimal reference at its own precision, expressions by their values. What is left
to math-verify's comparison are inequalities and unions of intervals, and only small ones.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Any

import sympy  # type: ignore[import-untyped]
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy, normalize_latex
from math_verify import verify
from math_verify.parser import NormalizationConfig, get_last_eq
from math_verify.utils import timeout

from sapo_vl.verifiers import math_no_eval
from sapo_vl.verifiers.math_guard import MAX_CHARS, is_simple, why_refused
from sapo_vl.verifiers.math_lists import aligned, ratios_equal
from sapo_vl.verifiers.math_normal import squeeze
from sapo_vl.verifiers.math_number import half_unit, may_round, numbers_equal, read_written
from sapo_vl.verifiers.math_values import DIGITS, EXACT, holds_matrix, same

_BASE = re.compile(r"\d_\{?(\d+)\}?$")
_WORD = re.compile(r"[^\W\d_]{4,}|[\u0370-\uffff]")  # a Latin word, or any sign of another script
_FORMULA = re.compile(r"[\\^_{}=<>+*/|()\[\]\d]")
_CLOCK = re.compile(r"\d{1,2}:0\d")
# Of plain numbers side by side the parser makes a mixed number: 3(4) would be 7.
_PRODUCT = re.compile(r"((?<![_^\d.A-Za-z])\d+\s*(?=\\frac)|((?<![_^\d.A-Za-z])\d+|\))\s*(?=\())")
_UNREADABLE = re.compile(r"\\(?:[lc]?dots|forall|exists)(?![A-Za-z])|\.\.\.")

math_no_eval.install()

# Units and malformed operators are off: math_normal has cleaned what is safe to clean, the rest
# would be guessed. Letters keep their case: n is not N. Mixed numbers are math_normal's.
_CLEANING = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=False, nits=True, boxed="none"
)
_READING = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
_IMAGINARY = {sympy.Symbol("i"): sympy.I, sympy.Symbol("i", real=True): sympy.I}


def is_literal(text: str) -> bool:
    """Return whether a normalised text is compared letter by letter: words, dots, quantifiers.

    The parser reads words as products of letters, so that "Sunday" would equal "yadnuS".
    """
    words = _WORD.search(text) is not None and _FORMULA.search(text) is None
    return words or bool(_CLOCK.fullmatch(text) or _UNREADABLE.search(text))


def same_word(answer: str, reference: str) -> bool:
    """Return whether two short words differ in their first letter's case alone, as Yes and yes.

    Single letters are variables or points, and so are AB and ab: their case counts.
    """
    if not (answer.isascii() and answer.isalpha() and reference.isascii() and reference.isalpha()):
        return False
    folded = answer.casefold()
    if folded != reference.casefold() or len(folded) < 2:
        return False
    shapes = (folded, folded.capitalize())
    return folded in ("yes", "no") or (answer in shapes and reference in shapes)


def alarm_seconds(timeout_seconds: int | None) -> int | None:
    """Return the time limit where one can be set, None elsewhere.

    math-verify's limit is SIGALRM: in any thread but the main one it raises ValueError instead.
    """
    return timeout_seconds if threading.current_thread() is threading.main_thread() else None


@lru_cache(maxsize=4096)
def parse_math(text: str, seconds: int | None) -> Any | None:
    """Return the sympy object of a normalised formula, or None where it is none.

    Args:
        text: what `normalise_math` returned.
        seconds: what `alarm_seconds` returned.

    Raises:
        TimeoutException: math-verify's, a BaseException; it took longer.
    """
    if why_refused(text) is not None:
        return None
    try:
        found = timeout(timeout_seconds=seconds)(_read)(text) if seconds else _read(text)
    # Not mathematics; the parser raises all kinds. Running out of time is no Exception.
    except Exception:
        return None
    return None if found in (sympy.nan, sympy.zoo) else found


def _read(text: str) -> Any:
    text = text if "," in text else _PRODUCT.sub(r"\1 \\cdot ", text)
    cleaned = get_last_eq(normalize_latex(text, _CLEANING))  # of a = b = c the last
    found = latex2sympy(
        cleaned, is_real=True, normalization_config=None, conversion_config=_READING
    )
    try:
        return found.xreplace(_IMAGINARY)
    # i is an index or a name here, as in i < 3.
    except (AttributeError, TypeError):
        return found


def math_equal(
    answer: str, reference: str, rel_tol: float, timeout_seconds: int | None = None
) -> bool:
    """Return whether two formulas from `normalise_math` are equal.

    Args:
        answer: the model's.
        reference: the right one; its form decides (a set, an interval, a decimal).
        rel_tol: largest relative error of a decimal that stands for an exact value.
        timeout_seconds: limit of one parse or comparison, see `alarm_seconds`.

    Raises:
        TimeoutException: math-verify's, a BaseException; it took longer.
    """
    if squeeze(answer) == squeeze(reference):
        return True
    if is_literal(reference) or is_literal(answer) or same_word(answer, reference):
        return squeeze(answer).casefold() == squeeze(reference).casefold()
    left, right = read_written(answer), read_written(reference)
    if left is not None and right is not None:
        return numbers_equal(left, right, rel_tol)
    return _formulas_equal(answer, reference, rel_tol, alarm_seconds(timeout_seconds))


def _formulas_equal(answer: str, reference: str, rel_tol: float, seconds: int | None) -> bool:
    if max(len(answer), len(reference)) >= MAX_CHARS or _bases_differ(answer, reference):
        return False  # what is that long is not parsed
    dressed = aligned(answer, reference)
    if dressed is None:
        return False
    answer, reference = dressed
    tolerance = rel_tol if "." in answer or "." in reference else EXACT
    ratio = ratios_equal(answer, reference, lambda a, b: _same_text(a, b, tolerance, seconds))
    if ratio is not None:
        return ratio
    percents = answer.endswith(r"\%"), reference.endswith(r"\%")
    answer, reference = answer.removesuffix(r"\%"), reference.removesuffix(r"\%")
    left, right = parse_math(answer, seconds), parse_math(reference, seconds)
    if left is None or right is None:
        return False
    # As in `numbers_equal`, a percent sign on one side alone is dropped or divided out.
    if percents[0] != percents[1] and isinstance(left, sympy.Expr):
        scaled = left / 100 if percents[0] else left * 100
        if same(scaled, right, tolerance):
            return True
    decided = same(left, right, tolerance)
    if decided is not None:
        return decided or _rounds_to(left, answer, reference)
    # Solving a wrong equation can take minutes; those that can be told have been.
    if "=" in answer or not is_simple(answer):
        return False
    # The question fixes the variable, so x < 3 may stand for an interval.
    equal = verify(
        right, left, allow_set_relation_comp=True, timeout_seconds=seconds, raise_on_error=True
    )
    return bool(equal)


def _same_text(one: str, other: str, tolerance: Any, seconds: int | None) -> bool:
    left, right = parse_math(one, seconds), parse_math(other, seconds)
    return left is not None and right is not None and same(left, right, tolerance) is True


def _bases_differ(answer: str, reference: str) -> bool:
    # The parser drops the base; a missing one may be what the question says, another one may not.
    one, other = _BASE.search(answer), _BASE.search(reference)
    return bool(one and other and one[1] != other[1])


def _rounds_to(parsed: Any, answer: str, reference: str) -> bool:
    """Return whether the answer is a real constant that rounds to a decimal reference."""
    written = read_written(reference)
    if written is None or not may_round(read_written(answer), written):
        return False
    if not isinstance(parsed, sympy.Expr) or parsed.free_symbols or holds_matrix(parsed):
        return False
    value = parsed.evalf(DIGITS)
    if not (value.is_Number and value.is_finite):
        return False
    error = abs(value - sympy.Rational(written.value.numerator, written.value.denominator))
    half = half_unit(written)
    return bool(error <= sympy.Rational(half.numerator, half.denominator))
