r"""Compares parsed formulas by their values at a few points, which is quick for any formula.

A symbolic simplification would have to be trusted with whatever a model writes: one of
``n^{999} - \sin(x)`` factors a polynomial for minutes. Two formulas that agree to fifty digits at
several points are equal for every practical purpose, and most wrong answers differ at the first.
"""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
from sympy.core.function import AppliedUndef  # type: ignore[import-untyped]
from sympy.core.relational import Relational  # type: ignore[import-untyped]

DIGITS = 60
EXACT = sympy.Float("1e-50", DIGITS)  # relative error that rounding alone can make

# Both signs, because sqrt(x^2) is not x; no simple numbers, at which different formulas may meet.
_POINTS = [sympy.Rational(*pair) for pair in ((61, 97), (-237, 101), (383, 103), (-89, 211))]
_SPREAD = sympy.Rational(127, 1009)  # keeps the symbols of one point apart
_ENOUGH = 2  # points at which both must be defined


def same(answer: Any, reference: Any, rel_tol: Any = EXACT) -> bool | None:
    """Return whether two sympy objects are equal, None where their values do not tell.

    Told are expressions, matrices, tuples, finite sets and intervals of these, equations (the same
    up to a factor), and ``x = ...`` against a value; not told are inequalities, unions, and one
    kind against another.
    """
    answer, reference = _unwrap(answer, reference), _unwrap(reference, answer)
    answer, reference = _multiplied(answer), _multiplied(reference)
    if isinstance(answer, sympy.MatrixBase) and isinstance(reference, sympy.MatrixBase):
        if answer.shape != reference.shape:
            return False
        return _all_same(answer.flat(), reference.flat(), rel_tol)
    if holds_matrix(answer) or holds_matrix(reference):
        return bool(answer == reference)  # sympy's evaluation is lost in such mixtures
    if isinstance(answer, sympy.Expr) and isinstance(reference, sympy.Expr):
        return _same_expression(answer, reference, rel_tol)
    if isinstance(answer, sympy.Eq) and isinstance(reference, sympy.Eq):
        return _same_equation(answer, reference, rel_tol)
    if isinstance(answer, sympy.FiniteSet) and isinstance(reference, sympy.FiniteSet):
        return _same_set(list(answer.args), list(reference.args), rel_tol)
    if isinstance(answer, sympy.Tuple) and isinstance(reference, sympy.Tuple):
        return _all_same(answer.args, reference.args, rel_tol)
    if isinstance(answer, sympy.Interval) and isinstance(reference, sympy.Interval):
        ends = (answer.left_open, answer.right_open) == (reference.left_open, reference.right_open)
        if not ends:
            return False
        left, right = (answer.start, answer.end), (reference.start, reference.end)
        return _all_same(left, right, rel_tol)
    return None


def value_at(expression: Any, point: Any, symbols: list[Any]) -> Any | None:
    """Return the number an expression has at a point, None where it has none."""
    numbers = {symbol: point * (1 + i * _SPREAD) for i, symbol in enumerate(symbols)}
    # Chopping hides the rounding of x - x, but would hide a tiny constant as well.
    value = expression.evalf(DIGITS, subs=numbers, chop=bool(symbols))
    return value if value.is_number and value.is_finite else None


def _multiplied(value: Any) -> Any:
    """Return a product or sum of matrices, which the parser leaves as such, as one matrix."""
    whole = isinstance(value, sympy.MatrixBase)
    if whole or not isinstance(value, sympy.MatrixExpr) or value.has(sympy.MatPow):
        return value
    if value.has(sympy.oo, sympy.zoo, sympy.nan):
        return value
    return value.as_explicit()


def holds_matrix(value: Any) -> bool:
    """Return whether a sympy object is or holds a matrix."""
    matrices = (sympy.MatrixBase, sympy.MatrixExpr)
    return isinstance(value, matrices) or (isinstance(value, sympy.Basic) and value.has(*matrices))


def _unwrap(one: Any, other: Any) -> Any:
    if not isinstance(one, sympy.Eq) or isinstance(other, Relational):
        return one
    sides = ((one.lhs, one.rhs), (one.rhs, one.lhs))
    named = (sympy.Symbol, AppliedUndef)
    return next((value for name, value in sides if isinstance(name, named)), one)


def _same_expression(answer: Any, reference: Any, rel_tol: Any) -> bool:
    answer, reference = _name_functions(answer), _name_functions(reference)
    symbols = sorted(answer.free_symbols | reference.free_symbols, key=str)
    if not symbols and rel_tol == EXACT:
        # Fifty digits hide the last one of 2^{1000} + 1.
        integers = answer.doit(), reference.doit()
        if all(isinstance(value, sympy.Integer) for value in integers):
            return bool(integers[0] == integers[1])
    points = _POINTS if symbols else _POINTS[:1]
    pairs = [(value_at(answer, p, symbols), value_at(reference, p, symbols)) for p in points]
    known = [(left, right) for left, right in pairs if left is not None and right is not None]
    # sqrt(1/n) is 1/sqrt(n) where they are real; elsewhere the sign is a convention.
    real = [pair for pair in known if all(value.is_real for value in pair)]
    both_complex = [pair for pair in known if not any(value.is_real for value in pair)]
    if len(real) >= _ENOUGH and len(real) + len(both_complex) == len(known):
        known = real
    if not all(bool(abs(a - b) <= rel_tol * max(abs(a), abs(b))) for a, b in known):
        return False
    # Infinity and the like have no value: only the very same expression will do.
    enough = _ENOUGH if symbols else 1
    return len(known) >= enough or bool(answer == reference)


def _same_equation(answer: Any, reference: Any, rel_tol: Any) -> bool:
    """Return whether one equation is a multiple of the other, denominators cleared."""
    if _same_name(answer.lhs, reference.lhs):
        return same(answer.rhs, reference.rhs, rel_tol) is True
    left, right = _zero_side(answer), _zero_side(reference)
    if left is None or right is None:
        return bool(answer == reference)
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    pairs = [(value_at(left, p, symbols), value_at(right, p, symbols)) for p in _POINTS]
    known = [(a, b) for a, b in pairs if a and b]
    if len(known) <= _ENOUGH:
        return bool(answer == reference)
    first, factor = known[0]
    return all(bool(abs(a * factor - b * first) <= rel_tol * abs(b * first)) for a, b in known[1:])


def _same_name(one: Any, other: Any) -> bool:
    # X = 2 is x = 2: what is named there is the question's.
    symbols = isinstance(one, sympy.Symbol) and isinstance(other, sympy.Symbol)
    return symbols and one != other and str(one).casefold() == str(other).casefold()


def _zero_side(equation: Any) -> Any | None:
    if not (isinstance(equation.lhs, sympy.Expr) and isinstance(equation.rhs, sympy.Expr)):
        return None
    return sympy.numer(sympy.together(_name_functions(equation.lhs - equation.rhs)))


def _name_functions(expression: Any) -> Any:
    # f(x) of an unknown f has no value; as a symbol it gets one.
    unknown = expression.atoms(AppliedUndef)
    return expression.xreplace({call: sympy.Symbol(str(call)) for call in unknown})


def _all_same(answers: Any, references: Any, rel_tol: Any) -> bool | None:
    if len(answers) != len(references):
        return False
    found = [same(a, r, rel_tol) for a, r in zip(answers, references, strict=True)]
    if False in found:
        return False
    return None if None in found else True


def _same_set(answers: list[Any], references: list[Any], rel_tol: Any) -> bool | None:
    if len(answers) != len(references):
        return False
    for reference in references:
        found = [same(answer, reference, rel_tol) for answer in answers]
        if True in found:
            answers.pop(found.index(True))
        else:
            return None if None in found else False
    return True
