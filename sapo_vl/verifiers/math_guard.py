r"""Says whether a formula is safe to hand to a computer algebra system.

Inside one call to it no time limit can be relied on: signals work in the main thread only and
cannot interrupt one long integer power. So what could be slow is refused before it is parsed:
towers of powers, large factorials, sums and integrals, huge polynomials, deep nesting. A refused
formula is still compared as a string.
"""

from __future__ import annotations

import math
import re

from sapo_vl.verifiers.extraction import balanced

MAX_CHARS = 300
_MAX_DEPTH = 12
_MAX_DIGITS = 60  # of one number
_MAX_INTEGER = 3000  # as an exponent or under a factorial
_MAX_TERMS = 10_000  # of a product written out
_MAX_DEGREE = 3  # of what may be solved; numbers may have larger powers
_MAX_UNKNOWNS = 3

_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi "
    "Omega ell hbar"
)
_NAMES = (
    "sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp lfloor rfloor "
    "lceil rceil"
)
_FUNCTIONS = frozenset(_NAMES.split())
_PLAIN = (
    "frac pi cdot times div pm mp infty cup cap setminus in le ge lt gt ne emptyset mathbb % { } | "
    "lvert rvert vert langle rangle begin end overline vec hat bar prime"
)
_VARIABLES = _FUNCTIONS | frozenset(_GREEK.split())
_ALLOWED = _VARIABLES | frozenset(_PLAIN.split()) | {"\\"}
_CONSTANT_ROOT = re.compile(r"\\sqrt\s*\{\d+\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}")
_MATRICES = frozenset(["matrix", "pmatrix", "bmatrix", "vmatrix", "Bmatrix"])
_TWO_FRACTIONS = re.compile(r"\\frac\{\d+\}\{\d+\}\s+\\frac\{\d+\}\{\d+\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_CHARACTERS = re.compile(r"[\w\s+\-*/^=<>(){}\[\]|.,:;!&'\\%]*", re.ASCII)
_EXPONENT = re.compile(r"\^\s*(\{|\(|\\[A-Za-z]+|\d+|.?)", re.DOTALL)
_SMALL_POWER = re.compile(r"[A-Za-z]\s*\^\s*(?:[0-9A-Za-z]|\{[0-9A-Za-z]\})(?!\w)")


def why_refused(text: str) -> str | None:
    """Say why a normalised formula must not be parsed; None where it may be."""
    if not text or len(text) >= MAX_CHARS:
        return f"it is empty or has {MAX_CHARS} characters or more"
    if not _CHARACTERS.fullmatch(text):
        return "it holds characters that are no mathematics"
    if re.search(r"[)\]]\s*\d|(?<![_\d])\d+\s+\d", text):
        return "a number follows a bracket or another number"  # which the parser would add up
    if _TWO_FRACTIONS.search(text):
        return "two fractions stand side by side"  # two answers, and not their product
    environments = set(_ENVIRONMENT.findall(text))
    unknown = set(_COMMAND.findall(_ENVIRONMENT.sub("", text))) - _ALLOWED
    if unknown or environments - _MATRICES:
        return f"it holds {', '.join(sorted(unknown | environments))}"
    if not balanced(text) or _depth(text) > _MAX_DEPTH:
        return "its brackets are unbalanced or too deep"
    if any(len(run) > _MAX_DIGITS for run in re.findall(r"\d+", text)):
        return f"it holds a number of more than {_MAX_DIGITS} digits"
    return _why_large(text)


def is_simple(text: str) -> bool:
    """Return whether solving is cheap: short, of low degree, few unknowns, no functions of them."""
    text = _CONSTANT_ROOT.sub("2", text)
    if len(text) >= MAX_CHARS // 2 or _variables(text) > _MAX_UNKNOWNS:
        return False
    if not _FUNCTIONS.isdisjoint(_COMMAND.findall(text)):
        return False
    return all(
        int(exponent) <= (_MAX_DEGREE**2 if base.isdigit() else _MAX_DEGREE)
        for base, exponent in re.findall(r"(.)\s*\^\s*\{?\s*(\d+)", text)
    )


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    return deepest


def _variables(text: str) -> int:
    # A root or a function is one more unknown to the polynomials behind a simplification.
    commands = _COMMAND.findall(text)
    letters = set(re.findall(r"[A-Za-z]", _COMMAND.sub(" ", _ENVIRONMENT.sub(" ", text))))
    return len(letters) + sum(command in _VARIABLES for command in commands)


def _why_large(text: str) -> str | None:
    # ")_" : math-verify reads (n)_{k} as a quotient of factorials.
    if re.search(r"\)\s*_", text):
        return "it holds a factorial that could be large"
    for argument in re.findall(r"(.?)\s*!", text):
        if not argument.isalnum():
            return "it holds a factorial that could be large"
    if any(int(n) > _MAX_INTEGER for n in re.findall(r"(\d+)\s*!", text)):
        return "it holds a large factorial"
    variables = _variables(text)
    degree = 1
    for match in _EXPONENT.finditer(text):
        base = text[: match.start()].rstrip()[-1:]
        exponent, after = _exponent(text, match)
        if base == "!" or after in ("^", "!"):
            return "it holds a tower of powers"
        size = _exponent_size(exponent)
        limit = _MAX_INTEGER if base.isdigit() or variables <= 1 else 100
        if size is None or size > limit:
            return "it holds a large or nested power"
        if not base.isalnum():
            degree *= max(size, 1)
    terms = math.comb(degree + text.count("(") + variables, variables)
    return "written out it has too many terms" if terms > _MAX_TERMS else None


def _exponent(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the exponent at ``match`` and the character that follows it."""
    token = match[1]
    if token not in ("{", "("):
        return token, text[match.end() :].lstrip()[:1]
    depth = 0
    for i in range(match.end() - 1, len(text)):
        depth += (text[i] in "({") - (text[i] in ")}")
        if depth == 0:
            return text[match.end() : i], text[i + 1 :].lstrip()[:1]
    return text[match.end() :], ""


def _exponent_size(exponent: str) -> int | None:
    """Return the largest integer of an exponent; None where it holds powers of its own."""
    flat = _SMALL_POWER.sub("x", exponent)
    numbers = re.findall(r"\d+", flat)
    if "^" in flat or "!" in flat or sum(map(len, numbers)) > len(str(_MAX_INTEGER)):
        return None
    return max(map(int, numbers), default=1)
