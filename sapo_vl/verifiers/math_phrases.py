r"""Turns answers that are half prose into formulas: "The answer is 5", "x < 1 or x > 2".

Each rule rewrites a whole text of one shape and leaves every other text alone.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from sapo_vl.verifiers.numerals import number_of_words
from sapo_vl.verifiers.numerals_chinese import bare_chinese

_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore)[,\s]+)?"
    r"(?:(?:the|my)\s+)?(?:(?:final|correct|right)\s+)?answers?\s*(?:is|are|:|=)\s*:?\s*(?=\S)"
    r"|(?:正确)?答案\s*(?:是|为|:)+\s*(?=\S)"
    r"|(?:\\approx|\\sim|\\simeq|=|~|(?:about|approximately|approx\.?|roughly)\s)\s*(?=[-+\d\\.(])",
    re.IGNORECASE,
)
_APPROXIMATE = re.compile(r"([A-Za-z])\s*\\approx\s*")
_SCALED = re.compile(
    r"([-+]?\d[\d.,]*)\s*(?:\\text\s*\{\s*)?"
    r"(?:(thousand|million|billion|trillion)\b\s*\}?\s*(?:[A-Za-z]+)?|([万亿])[\u4e00-\u9fff]*)",
    re.IGNORECASE,
)
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8}
_MIXED = re.compile(r"([-+]?)(\d{1,6})\s+(\d{1,6})\s*/\s*(\d{1,6})")
# A whole number before an improper fraction is a factor.
_MIXED_LATEX = re.compile(r"(?<![\w}.)^])(\d{1,6})\s*\\frac\{(\d{1,6})\}\{(\d{1,6})\}(?![\^!])")
_REPEATING = re.compile(
    r"([-+]?)(\d{0,20})\.(\d{0,20})(?:\\overline|\\bar|\\dot)\s*\{?(\d{1,20})\}?"
)
_TWO_DOTS = re.compile(r"\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?")
_BINOMIAL = re.compile(r"\\[dt]?binom\s*\{\s*(\d{1,3})\s*\}\s*\{\s*(\d{1,3})\s*\}")
_BUILDER = re.compile(
    r"\\?\{\s*([A-Za-z])\s*(?:\\in\s*(?:\\mathbb\s*\{?R\}?|R)\s*)?(?:\\mid|\\vert|\||:)\s*(.+?)\\?\}"
)
_FRENCH = re.compile(r"([\[\]])([^\[\](){}]+,[^\[\](){}]+)([\[\]])")
_ABSOLUTE = re.compile(r"\|\s*([A-Za-z])\s*\|\s*(<|\\le)\s*([\d.]+|\\frac\{\d+\}\{\d+\})")
_OR = re.compile(r",?\s*(?:\\text\s*\{\s*(?:or|或)\s*\}|\bor\b|\\lor(?![A-Za-z])|或)\s*")
_SIDE = r"([-+]?(?:\d[\d.]*|\\?[A-Za-z]*\{?[\d\\A-Za-z{}]*\}?))"
_BELOW = re.compile(rf"([A-Za-z])\s*(<|>|\\le|\\ge)(?![A-Za-z])\s*{_SIDE}")
_BETWEEN = re.compile(
    rf"{_SIDE}\s*(<|\\le)(?![A-Za-z])\s*([A-Za-z])\s*(<|\\le)(?![A-Za-z])\s*{_SIDE}"
)
_OPPOSITES = [
    re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)
    for words in (
        r"[ap]\.?m(?=\.|$|\W)",
        "left|right",
        "north|south|east|west",
        "up|down",
        "(?:counter|anti)?clockwise",
        "increase|decrease",
        "profit|loss",
    )
]
_CASES = re.compile(r"(?:\\\{\s*)?\\begin\s*\{(?:cases|aligned)\}(.*)\\end\s*\{(?:cases|aligned)\}")


def opposed(answer: str, reference: str) -> bool:
    """Return whether words beside the number contradict: 3 to the left, 3 to the right."""
    for words in _OPPOSITES:
        said, wanted = ({m.casefold() for m in words.findall(t)} for t in (answer, reference))
        if said and wanted and said != wanted:
            return True
    return False


def without_lead_in(text: str) -> str:
    r"""Return ``text`` without "The answer is", ``\approx`` and their kin before it."""
    lead_in = _LEAD_IN.match(text)
    text = text[lead_in.end() :] if lead_in else text
    named = _APPROXIMATE.match(text)
    return f"{named[1]}={text[named.end() :]}" if named else text


def as_formula(text: str) -> str:
    r"""Return the formula that a text of one of these shapes stands for; others are left alone.

    Number words, ``3 million``, ``2 1/2``, ``0.\overline{3}``, ``\binom{5}{2}``, ``]0,1[``,
    ``\{x \mid x>3\}``, ``|x|<1``, ``x<1 or x>2``, a system of equations.
    """
    words = number_of_words(text)
    if words is None:
        chinese = bare_chinese(text)
        words = None if chinese is None else Fraction(chinese)
    if words is not None:
        return str(words)
    scaled = _SCALED.fullmatch(text)
    if scaled:
        return f"{scaled[1].replace(',', '')}e{_SCALES[(scaled[2] or scaled[3]).lower()]}"
    text = _MIXED.sub(_mixed, text) if _MIXED.fullmatch(text) else text
    text = _MIXED_LATEX.sub(_mixed_latex, text)
    text = _TWO_DOTS.sub(r"\\overline{\1\2\3}", text)
    text = _REPEATING.sub(_repeating, text)
    text = _BINOMIAL.sub(lambda m: str(math.comb(int(m[1]), int(m[2]))), text)
    system = _CASES.fullmatch(text)
    if system:
        return ", ".join(p.strip(" ,&") for p in system[1].split(r"\\") if p.strip(" ,&"))
    french = _FRENCH.fullmatch(text)
    if french and (french[1], french[3]) != ("[", "]"):
        text = {"[": "[", "]": "("}[french[1]] + french[2] + {"]": "]", "[": ")"}[french[3]]
    builder = _BUILDER.fullmatch(text)
    return _union(builder[2].strip() if builder else text)


def _union(text: str) -> str:
    r"""Write inequalities joined by "or" as a union of intervals, ``|x|<a`` as one."""
    absolute = _ABSOLUTE.fullmatch(text)
    if absolute:
        return f"-{absolute[3]}{absolute[2]} {absolute[1]}{absolute[2]} {absolute[3]}"
    parts = _OR.split(text)
    intervals = [_interval(part.strip()) for part in parts]
    found = [interval for interval in intervals if interval is not None]
    if len(parts) < 2 or len(found) < len(parts) or len({name for name, _ in found}) > 1:
        return text
    return r" \cup ".join(interval for _, interval in found)


def _interval(text: str) -> tuple[str, str] | None:
    one, two = _BELOW.fullmatch(text), _BETWEEN.fullmatch(text)
    if two and two[1] and two[5]:
        ends = "(" if two[2] == "<" else "[", ")" if two[4] == "<" else "]"
        return two[3], f"{ends[0]}{two[1]}, {two[5]}{ends[1]}"
    if one is None or not one[3]:
        return None
    if one[2] in ("<", r"\le"):
        return one[1], rf"(-\infty, {one[3]}{')' if one[2] == '<' else ']'}"
    return one[1], rf"{'(' if one[2] == '>' else '['}{one[3]}, \infty)"


def _mixed(match: re.Match[str]) -> str:
    sign, whole, above, below = match.groups()
    proper = int(above) < int(below)
    return f"{sign}{int(whole) * int(below) + int(above)}/{below}" if proper else match[0]


def _mixed_latex(match: re.Match[str]) -> str:
    whole, above, below = map(int, match.groups())
    return rf"\frac{{{whole * below + above}}}{{{below}}}" if above < below else match[0]


def _repeating(match: re.Match[str]) -> str:
    sign, whole, start, period = match.groups()
    nines, zeros = 10 ** len(period) - 1, 10 ** len(start)
    above = int((whole or "0") + start + period) - int((whole or "0") + start)
    return rf"{sign}\frac{{{above}}}{{{nines * zeros}}}"
