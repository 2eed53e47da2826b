r"""Brings a formula into one spelling, cheaply, so that most right answers are equal as strings.

Only spelling changes: nothing is computed. Both sides of a comparison go through it, since data
sets hold references such as ``69{degrees}``, ``$\boxed{\frac{16}{7}}$`` or ``\frac{360}7``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sapo_vl.verifiers.extraction import unwrap_box
from sapo_vl.verifiers.math_phrases import as_formula, without_lead_in
from sapo_vl.verifiers.plain import MAX_CHARS, unify_signs, unwrap_text

# \f and \b of an unescaped JSON string: "\frac" arrives as form feed + "rac".
_DAMAGED = str.maketrans({"\x0c": r"\f", "\x08": r"\b"})
_LOWERED = str.maketrans({chr(0x2080 + digit): f"_{digit}" for digit in range(10)})
_SIGNS = str.maketrans(
    {
        "π": r"\pi ",
        "∞": r"\infty ",
        "\u00d7": r"\times ",
        "÷": r"\div ",
        "·": r"\cdot ",
        "±": r"\pm ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "\u222a": r"\cup ",
        "∩": r"\cap ",
        "∅": r"\emptyset ",
        "∈": r"\in ",
        "°": r"^{\circ}",
        "。": ".",
    }
)
_SPELLINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^\*\*(.*)\*\*$", r"\1"),
        (r"\*\*", "^"),
        (r"\\?\$|(?<!\\)\\[()\[\]]", ""),
        (r"\\(?:left|right|displaystyle|[bB]igg?[lr]?)(?![A-Za-z])", ""),
        (r"\\!\s*|(?<=\d)\\,(?=\d{3}(?!\d))", ""),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\(?:underline|color\s*\{[a-z]+\}|textcolor\s*\{[a-z]+\})(?![A-Za-z])\s*", ""),
        (r"\\begin\s*\{array\}\s*\{[lcr|\s]*\}", r"\\begin{matrix}"),
        (r"\\end\s*\{array\}", r"\\end{matrix}"),
        (r"^[\[(]\s*(\\begin\{matrix\}.*\\end\{matrix\})\s*[\])]$", r"\1"),
        (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
        (r"√\s*(\d+)", r"\\sqrt{\1}"),
        (r"√\s*(?=[({])", r"\\sqrt"),
        (r"(?i)^([-+]?)\s*infinity$", r"\1\\infty"),
        (r"(?<!\\)\\[,;: ]|\\q?quad(?![A-Za-z])|~|[\t\n\r]", " "),
        (r"\{,\}", ","),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:varnothing|empty)(?![A-Za-z])", r"\\emptyset"),
        (r"\\leq?(?:slant)?(?![A-Za-z])", r"\\le"),
        (r"\\geq?(?:slant)?(?![A-Za-z])", r"\\ge"),
        (r"\\neq(?![A-Za-z])", r"\\ne"),
        # A command takes one token where it has no braces: \frac12, \frac{360}7, \sqrt3.
        (r"\\frac\s*([0-9A-Za-z])\s*([0-9A-Za-z])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\{[^{}]*\})\s*([0-9A-Za-z])", r"\\frac\1{\2}"),
        (r"\\frac\s*([0-9A-Za-z])\s*\{", r"\\frac{\1}{"),
        (r"\\sqrt\s*([0-9])", r"\\sqrt{\1}"),
        # Degrees are a unit here, never a factor of pi/180.
        (r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\(?:circ|degree)(?![A-Za-z])", ""),
        (r"(?<=[\d}])\s*(?:percent|per cent)\b", "%"),
        (r"\\?%", r"\\%"),
        (r"\s*\\times\s*10\s*\^\s*\{?\s*([+-]?\d+)\s*\}?$", r"e\1"),
    )
]
_LEAD_IN = re.compile(r"\\text\s*\{[^{}]*(?:\bis|\bare|:|=)\s*\}\s*(?=\S)")
_JOINED = re.compile(r",?\s*(?:\\text\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}|\b(?:and|or)\b)\s*")
_POWER = r"(?:\s*\^\s*\{?-?[1-9]\}?)?"
_TEXT_UNIT = re.compile(
    r"(?<=[\d}\s])\s*\\(?:text|mathrm|rm|mbox|textrm)\s*"
    rf"\{{((?:[^{{}}\d^]|\^\s*\{{?-?[1-9]\}}?)*)\}}{_POWER}(?:\s*/\s*\\(?:text|mathrm)\s*\{{[A-Za-z]+\}}{_POWER})?$"
)
# Not units: they say how large, or which of two, and are compared.
_NO_UNIT = re.compile(
    r"\s*(?:hundred|thousand|million|billion|trillion|dozen|(?:or|and)(?: .*)?|"
    r".*\b(?:not|no|never|wrong|incorrect|false)\b.*)\s*",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?<=\d) \\Omega$|(?<=\d)\s*[€£¥]$|(?<=:\d\d)\s*[ap]\.?\s?m\.?$", re.IGNORECASE
)
_CHINESE = re.compile(
    r"^(?:一共|总共|大约|等于|共有|共|约|为|是)\s*(?=[-\d\\一二三四五六七八九十百千万两])"
)
_GLUED_UNIT = re.compile(r"(?<=[\d}])\s*\{[A-Za-z ]{3,}\}$")
_CJK_UNIT = re.compile(r"(?<=[\d}])\s*[\u4e00-\u9fff]+$")
_NOUN = re.compile(
    r"([-+]?[\d.,/]+)\s+(?!(?:hundred|thousand|million|billion|trillion|dozen)\b)"
    r"[A-Za-z]{2,}(?:[ -][A-Za-z]+)*\s*(?:\^\s*\{?[23]\}?)?"
)
_UNITS = "mm|cm|dm|km|mg|kg|ml|in|ft|lb|oz|hr|min|sec|deg|mph|inch|inches|feet|meters?|metres?"
_UNITS += "|degrees?|hours?|minutes?|seconds?|days?|units?|miles?|yards?|dollars?|cents?"
_BARE_UNIT = re.compile(
    rf"(?<=[\d}}])(?:\s*(?:(?:square|cubic|sq)\s+)?(?:{_UNITS})|\s+[mgshL])"
    rf"{_POWER}(?:\s*/\s*(?:{_UNITS}|[mgshL]){_POWER})?\.?$"
)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:\\%)?")
_CURRENCY = re.compile(r"^([-+]?)\s*[€£¥]\s*(?=\d)")


def normalise_math(text: str) -> str:
    r"""Return ``text`` in the spelling that is compared; units and outer dress are gone.

    Example: ``\dfrac38`` gives ``\frac{3}{8}``, ``35\text{ cm}^2`` gives ``35``.
    """
    if len(text) > MAX_CHARS:
        return text.strip()  # no formula; only an identical text could equal it
    return _normalised(text)


@lru_cache(maxsize=4096)  # one reference meets a group of answers, many of them the same
def _normalised(text: str) -> str:
    text = unwrap_box(unify_signs(text.translate(_DAMAGED).translate(_LOWERED)).translate(_SIGNS))
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text.strip())
    text = without_lead_in(_LEAD_IN.sub("", unwrap_box(text), count=1))
    text = as_formula(_CHINESE.sub("", text.strip()).rstrip(".,;: "))
    text = _join_lists(_strip_units(text))
    text = unwrap_text(text).strip().strip("\"'`").removesuffix(r"\\").rstrip(".,;: ")
    text = as_formula(_strip_units(_CURRENCY.sub(r"\1", text)))
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    return " ".join(text.split())


def squeeze(text: str) -> str:
    """Return a normalised formula without its blanks: the form for comparing strings."""
    return text.replace(" ", "")


def _join_lists(text: str) -> str:
    # In prose "and" is a word; between numbers or formulas it is a comma.
    return _JOINED.sub(", ", text) if re.search(r"\d|\\(?!text)", text) else text


def _strip_units(text: str) -> str:
    unit = _TEXT_UNIT.search(text)
    if unit and not _NO_UNIT.fullmatch(unit[1]):
        text = text[: unit.start()]
    for pattern in (_GLUED_UNIT, _CJK_UNIT, _BARE_UNIT, _AFTER):
        text = pattern.sub("", text)
    noun = _NOUN.fullmatch(text.strip())
    if noun and not re.search(r"\b(?:and|or|not|no|never|wrong|incorrect|false)\b", text):
        return noun[1]
    return text.strip()
