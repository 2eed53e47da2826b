r"""The rule of MathArena's parser for answers that are numbers, or several of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import after_thinking
from sapo_vl.verifiers.official.latex_value import latex_value

_BOX = re.compile(r"(?:boxed|fbox)\{")
_INNER = re.compile(r"\\(?:boxed|fbox)\{([^{}]*)\}")
_INTEGER = re.compile(r"\b\d+\b")
_LEADING = re.compile(r"[^\w\\]*?(-?\d+(?:\.\d+)?)(?![\w.])")
_SIGNS = str.maketrans(
    {"\u221a": r"\sqrt", "\u00d7": r"\cdot", "\u202f": " ", "\u2212": "-", "\u03c0": r"\pi"}
)
_SPACES = re.compile(r"\\[;:,!]|\\displaystyle|\\[hv]line")
_SIZES = re.compile(r"\\(?:left|right|[Bb]ig[lr]?|[Ll]arge)")
_DEGREE = re.compile(r"\^\\circ|\^\{\\circ\}|\\quad|\\ ")
_TEXT = re.compile(r"\\text\{.*?\}")
_ROMAN = re.compile(r"\\math(?:rm|bf)\{(.*?)\}|\\textbf\{(.*?)\}")
_FRACTION = re.compile(r"\\[dt]frac")
_ONE_DIGIT = re.compile(r"\\frac\s*(\d)")
_JOINED = re.compile(r"(?<=\d),(?=\d)")
_WORDS = re.compile(r"\s*,?\s*(?:\\text\s*\{\s*)?\b(?:and|or)\b(?:\s*\})?\s*,?\s*", re.IGNORECASE)
_BRACKETS = str.maketrans("[]", "()")
_TOLERANCE = 1e-10
_MAX_CHARS = 1000

Number = int | float


@dataclass(frozen=True)
class MathArenaOfficial:
    r"""Score a response as MathArena does on AIME and HMMT, where the reference is numeric.

    The answer is the last ``\boxed{...}`` or ``\fbox{...}`` with balanced braces; without one it is
    the last integer of the response. It is read as Python reads an integer, else rewritten: what
    stands after the last "=" and before ``\approx``, without units in ``\text``, degrees, sizes and
    dollars, brackets and braces of a set as parentheses. Numbers are equal within 1e-10. A
    reference with a comma is several numbers, which may come in any order.

    Known oddities, kept: a box need not begin with a backslash; "70 or 71" and "70 cm" are 70, for
    the original's parser reads as far as it can; "70,71" is 7071; nothing is read out of
    ``\text{70}``. Not kept: a reference of 0 is equal to nothing there.

    The original hands the text to sympy's ``sympify``, which evaluates it as Python. Here
    latex2sympy reads it behind a guard, so a few forms have a value there and none here.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        wanted = read_numbers(prompt.reference, "," in prompt.reference)
        if wanted is None:
            reason = f"the reference {prompt.reference[:_MAX_CHARS]!r} is no number"
            return Verdict(score=0.0, status="unparsable_reference", reason=reason)
        text = after_thinking(response, self.thinking)
        if text is None:
            return Verdict(score=0.0, status="no_answer", reason="the reasoning never ends")
        answer = find_answer(text.translate(_SIGNS))
        if answer is None:
            return Verdict(score=0.0, status="no_answer", reason="neither a box nor an integer")
        found = read_numbers(answer, "," in prompt.reference)
        reason = f"read as {found}, the reference is {wanted}"
        right = found is not None and _same(found, wanted)
        return Verdict(score=float(right), extracted=answer[:_MAX_CHARS], reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if read_numbers(prompt.reference, "," in prompt.reference) is None:
            return f"the reference {prompt.reference[:_MAX_CHARS]!r} is no number"
        return None


def find_answer(text: str) -> str | None:
    """Return the content of the last box, else the last integer, else None."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for place, char in enumerate(text):
        if char == "{":
            opened.append(place)
        elif char == "}" and opened:
            ends[opened.pop()] = place
    box, past = None, 0
    for start in _BOX.finditer(text):
        if start.start() >= past and start.end() - 1 in ends:
            past = ends[start.end() - 1]
            box = text[start.end() : past]
    if box is not None:
        return _INNER.sub(r"\1", box).strip()
    numbers = _INTEGER.findall(text)
    return numbers[-1] if numbers else None


def read_numbers(text: str, several: bool) -> list[Number] | None:
    """Return the number or numbers that an answer is, None where it is none."""
    if len(text) > _MAX_CHARS:
        return None
    try:
        return [int(text)]
    except ValueError:
        pass
    parts = [_value(part) for part in _plain(text, several).split(",") if part.strip()]
    numbers = [part for part in parts if part is not None]
    return numbers if numbers and len(numbers) == len(parts) else None


def _plain(text: str, several: bool) -> str:
    text = " ".join(text.split())  # keeps the patterns below linear
    text = _DEGREE.sub(" ", _SIZES.sub("", _SPACES.sub("", text))).translate(_BRACKETS)
    for old, new in (("\\{", "("), ("\\}", ")"), ("$", ""), ("\u2013", "-"), ("\u00b7", r"\cdot ")):
        text = text.replace(old, new)
    text = text.replace("{,}", "," if several else "").strip().removesuffix(".")
    text = _WORDS.sub(",", text).replace(";", ",") if several else _JOINED.sub("", text)
    text = _ROMAN.sub(lambda found: f" {found[1] or found[2]} ", _TEXT.sub("", text))
    text = _ONE_DIGIT.sub(r"\\frac{\1}", _FRACTION.sub(r"\\frac", text))
    text = text.rpartition("=")[2].partition(r"\approx")[0].strip()
    while len(text) > 1 and _enclosed(text):
        text = text[1:-1].strip()
    return text


def _enclosed(text: str) -> bool:
    """Whether the first parenthesis closes at the end of the text."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth <= 0:
            return char == ")" and place == len(text) - 1
    return False


def _value(text: str) -> Number | None:
    try:
        number = float(text)
    except ValueError:
        found = latex_value(text.replace("**", "").strip())
        if found is not None:
            return found
        leading = _LEADING.match(text)
        return float(leading[1]) if leading else None
    return number if abs(number) < float("inf") else None


def _same(found: list[Number], wanted: list[Number]) -> bool:
    left = list(wanted)
    for number in found:
        equal = next((other for other in left if _close(number, other)), None)
        if equal is None:
            return False
        left.remove(equal)
    return not left


def _close(one: Number, other: Number) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    try:
        error = abs(one - other)
    except OverflowError:  # an integer beyond any float
        return False
    return error < _TOLERANCE * min(1.0, max(abs(one), abs(other)) or 1.0)
