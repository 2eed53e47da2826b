"""Keeps the LaTeX parser behind math-verify from evaluating text.

latex2sympy reads a number with ``sympy.Number(text)``, which hands the text to sympify, which calls
eval. Its grammar lets digits alone get there, but nothing a model wrote is to reach eval at all, so
the one method is replaced; the numbers stay the same, and come faster.
"""

from __future__ import annotations

import sympy  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy2


def install() -> None:
    """Replace the parser's reading of numbers, in this process.

    Raises:
        RuntimeError: the parser has no such method any more, so it may evaluate text elsewhere.
    """
    parser = getattr(latex2sympy2, "_Latex2Sympy", None)
    if parser is None or not hasattr(parser, "parse_number"):
        raise RuntimeError(
            "latex2sympy2_extended has no _Latex2Sympy.parse_number; install the version that "
            "math-verify 0.9 needs (1.11)"
        )
    parser.parse_number = _parse_number


def _parse_number(parser: object, text: str) -> sympy.Number:
    digits = text.replace(",", "")
    return sympy.Integer(int(digits)) if digits.isdigit() else sympy.Float(digits)
