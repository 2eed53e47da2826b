"""Compares what a solution gave with what was expected; runs outside the sandbox, on text only."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

from sapo_vl.verifiers.code_tests import read_json

_MAX_NUMBER = 5000  # characters; longer tokens are compared as text
_MAX_EXPONENT = 300


def same_output(output: str, expected: str, rel_tol: float = 0.0) -> bool:
    """Return whether two outputs agree line by line, blanks around lines ignored.

    Lines agree as texts or token by token, numbers by value. With ``rel_tol`` a number that is
    written with a point or an exponent, on either side, may be off by that much, relative or (below
    1) absolute; integers must be exact. Without it a line of words and numbers must be the same
    text, as in LiveCodeBench.
    """
    left = [line.strip() for line in output.strip().split("\n")]
    right = [line.strip() for line in expected.strip().split("\n")]
    if len(left) != len(right):
        return False
    return all(_same_line(one, other, rel_tol) for one, other in zip(left, right, strict=True))


def same_result(output: str, expected: str, rel_tol: float = 0.0) -> bool:
    """Return whether two JSON texts hold equal values; with ``rel_tol``, floats nearly so."""
    try:
        return _same_value(read_json(output), read_json(expected), rel_tol)
    # OverflowError: an integer that no float holds.
    except (ValueError, OverflowError, RecursionError):
        return False


def _same_line(left: str, right: str, rel_tol: float) -> bool:
    if left == right:
        return True
    ones, others = left.split(), right.split()
    if len(ones) != len(others):
        return False
    pairs = list(zip(ones, others, strict=True))
    if not rel_tol and not all(
        _decimal(a) is not None and _decimal(b) is not None for a, b in pairs
    ):
        return False
    return all(_same_token(one, other, rel_tol) for one, other in pairs)


def _same_token(left: str, right: str, rel_tol: float) -> bool:
    if left == right:
        return True
    one, other = _decimal(left), _decimal(right)
    if one is None or other is None:
        return False
    exact = not rel_tol or (left.lstrip("+-").isdigit() and right.lstrip("+-").isdigit())
    return one == other or (not exact and _near(one, other, Decimal(rel_tol)))


def _decimal(token: str) -> Decimal | None:
    try:
        number = Decimal(token) if len(token) <= _MAX_NUMBER else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _near(one: Decimal, other: Decimal, tolerance: Decimal) -> bool:
    if max(one.adjusted(), other.adjusted()) > _MAX_EXPONENT:
        return False
    with localcontext() as context:
        context.prec = 60
        return abs(one - other) <= tolerance * max(abs(other), Decimal(1))


def _same_value(one: Any, other: Any, rel_tol: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _same_value(a, b, rel_tol) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same_value(one[key], other[key], rel_tol) for key in one
        )
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and rel_tol and (isinstance(one, float) or isinstance(other, float)):
        return one == other or abs(float(one) - float(other)) <= rel_tol * max(abs(float(other)), 1)
    return bool(one == other)
