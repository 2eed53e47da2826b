r"""Values of numeric LaTeX, for official rules that compare answers rounded to two decimals.

The originals hand the parsed formula to Python's ``eval`` or to sympy; here latex2sympy parses it
behind `math_guard.why_refused` and sympy computes the number. Nothing is evaluated as code.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sympy  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy

from sapo_vl.verifiers import math_no_eval
from sapo_vl.verifiers.math_guard import MAX_CHARS, why_refused

math_no_eval.install()

_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"[^\W\d_]")
_DRESS = re.compile(r"\\?\$|\\(?:displaystyle|left|right)(?![A-Za-z])")
_PLAIN = re.compile(r"\s*([+-]?\d{1,15})(\.\d{0,15})?\s*")
_DIGITS = 30
_MAX_SHOWN_INTEGER = 10**300  # beyond it a float overflows, as it does in the originals


@lru_cache(maxsize=8192)
def latex_value(text: str) -> int | float | None:
    r"""Return the number that a formula without unknowns has, None for everything else.

    Example: ``\frac{7}{2}`` gives 3.5, ``c`` and ``5cm`` give None.
    """
    text = _DRESS.sub(" ", _complete(text))
    plain = _PLAIN.fullmatch(text)
    if plain:
        return float(plain[0]) if plain[2] else int(plain[1])
    # What the guard would refuse anyway is not searched.
    if len(text) >= MAX_CHARS:
        return None
    # A letter that belongs to no command is an unknown or a word: it has no value.
    if _LETTER.search(_COMMAND.sub(" ", text)) or why_refused(text) is not None:
        return None
    try:
        return _number(latex2sympy(text))
    # The parser raises all kinds on what is no formula; so did the originals, which say "unequal".
    except Exception:
        return None


def same_to_two_decimals(left: str, right: str) -> bool:
    """Return whether both texts have values and these agree once rounded to two decimals."""
    one = latex_value(left)
    other = latex_value(right) if one is not None else None
    return one is not None and other is not None and round(one, 2) == round(other, 2)


def _complete(text: str) -> str:
    """Return the text up to a brace that closes nothing; latex2sympy reads no further either."""
    depth = 0
    for i, char in enumerate(text[:MAX_CHARS]):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return text[:i]
    return text


def _number(parsed: object) -> int | float | None:
    if not isinstance(parsed, sympy.Expr) or parsed.free_symbols or not parsed.is_number:
        return None
    if parsed.is_Integer:
        value = int(parsed)
        return value if abs(value) < _MAX_SHOWN_INTEGER else None
    number = parsed.evalf(_DIGITS)
    if not (number.is_Number and number.is_finite):
        return None
    return float(number)
