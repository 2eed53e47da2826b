"""Reads which options an answer names: by label, by label and text, or by text alone."""

from __future__ import annotations

import re
from fractions import Fraction

from math_verify.errors import TimeoutException

from sapo_vl.verifiers.math_equal import alarm_seconds, is_literal, math_equal, parse_math
from sapo_vl.verifiers.math_normal import normalise_math
from sapo_vl.verifiers.numerals import bare_number
from sapo_vl.verifiers.plain import MAX_CHARS, plain, strip_lead_in, strip_trailing
from sapo_vl.verifiers.text import text_key

Labels = frozenset[str]
_NONE: Labels = frozenset()
_SECONDS = 2  # of one comparison of formulas

_SEPARATOR = re.compile(r"\s*(?:[,;/&、]|\band\b)\s*|\s+")
_WRAPPERS = str.maketrans(
    dict.fromkeys("{}<>\u3010\u3011\u300c\u300d\u300e\u300f\"'\u201c\u201d\\")
)
_BRACKETED = re.compile(r"[(\[]\s*(\w+)\s*[)\]]")
_LABEL_FIRST = re.compile(
    r"(?:[(\[]\s*(\w+)\s*[)\]]|([^\W\d_])\s*[:)]|(\w+)\s*[.:)](?!\d)|([^\W\d_])\s*[-=,(]"
    r"|([^\W\d_])(?=\s))\s*(.*)",
    re.DOTALL,
)
# After a label that stands alone only these may follow, or the option's own text.
_BARE = 5  # the group of _LABEL_FIRST whose label has nothing behind it but a blank
_OPEN = (4, _BARE)
_SAID = re.compile(
    r"(?:is\s+(?:the\s+)?(?:(?:correct|right|best|final|only)\s*)*(?:answer|option|choice|one)?|"
    r"选项|项|because|since)(?:$|[\s.,;:!])",
    re.IGNORECASE,
)
_HEDGE = re.compile(r"(?:or|and)?\W*(\w+)\s*(?:[)\].:,;]|$)", re.IGNORECASE)
_RETRACTED = re.compile(
    r"(?:\b(?:or|no|wait|actually|rather|instead|correction|maybe|perhaps|alternatively|sorry|also"
    r"|(?:answer|choice|option)\s+is|could\s+be)\b|\?)[^\w]*(?:is\s+|it'?s\s+)?[(\[]?([A-Z])\b"
)
_LEAD = re.compile(
    r"(?:i|we)\s+(?:(?:will|would|'d|'ll)\s+)?(?:choose|pick|select|think|believe|say)\s+"
    r"(?:(?:that\s+)?(?:it\s+is|it's|the\s+answer\s+is)\s+)?(?:option\s+)?"
    r"|(?:the\s+)?(?:correct\s+|right\s+)?(?:answers|options|choices)\s*(?:are|is|:)?\s*"
    r"|both\s+|all\s+of\s+|answer\s+|[我本题因此所以,]*(?:应该?)?(?:选择?|答案是?)\s*",
    re.IGNORECASE,
)
_CHINESE = re.compile(r"(?:选项)?[(]?([A-Za-z])[)]?(?:选项|项)?(?:是)?(?:正确|对)?的?[。.]?")
_CONCLUDED = re.compile(
    r"(?:^|[\s,.;:])(?:so|thus|hence|therefore|conclusion)\W*"
    r"(?:the\s+(?:correct\s+)?(?:answer|option|choice)\s+is\s*:?\s*)?[(\[]?(\w+)[)\]]?[.!]?$",
    re.IGNORECASE,
)


def read_choice(answer: str, options: dict[str, str]) -> Labels:
    """Return the labels that ``answer`` names; empty where it names none or hedges."""
    if len(answer) > MAX_CHARS:
        return _NONE
    text = plain(answer)
    folded = {plain(label).casefold(): label for label in options}
    lead = _LEAD.match(text)
    named = _CHINESE.fullmatch(text)
    readings = [text, strip_lead_in(text), *([text[lead.end() :]] if lead else [])]
    readings += [named[1]] if named else []
    for reading in dict.fromkeys(readings):
        found = _read(reading, folded, options)
        if found:
            return found
    return _by_formula(answer, options) or _concluded(text, folded)


def _read(text: str, folded: dict[str, str], options: dict[str, str]) -> Labels:
    return (
        _only_labels(text, folded)
        or _label_first(text, folded, options)
        or _option_text(text, options)
    )


def _only_labels(text: str, folded: dict[str, str]) -> Labels:
    bare = text.translate(_WRAPPERS).strip()
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    tokens = [token for token in _SEPARATOR.split(strip_trailing(bare)) if token]
    if len(tokens) == 1 and len(tokens[0]) > 1 and tokens[0].isupper():
        run = [folded.get(char.casefold()) for char in tokens[0]]
        if tokens[0].casefold() not in folded and len(set(run)) == len(run):
            tokens = list(tokens[0])
    found = [folded.get(token.strip("()[].:").casefold()) for token in tokens]
    return frozenset(label for label in found if label is not None) if all(found) else _NONE


def _label_first(text: str, folded: dict[str, str], options: dict[str, str]) -> Labels:
    match = _LABEL_FIRST.match(text)
    which = next((i for i in range(1, 6) if match[i]), 0) if match else 0
    label = folded.get(match[which].casefold()) if match else None
    if match is None or label is None:
        return _NONE
    rest = match[6].strip().rstrip(")") if which in _OPEN else match[6].strip()
    key = _text_key(rest)
    same_text = {other for other, option in options.items() if option and _text_key(option) == key}
    if same_text:
        return frozenset({label}) if label in same_text else _NONE
    said = _SAID.match(rest) is not None
    if which in _OPEN and not said:
        return _NONE
    # Not where its own text goes on: "(D) B, D and F are turning" for the option "B, D and F".
    own = text_key(options[label])
    goes_on = bool(own) and text_key(rest).startswith(f"{own} ")
    hedge = None if goes_on or said else _HEDGE.match(rest)
    others = {folded.get(word.casefold()) for word in _BRACKETED.findall(rest)}
    others |= {folded.get(hedge[1].casefold())} if hedge else set()
    others |= set() if goes_on else {folded.get(w.casefold()) for w in _RETRACTED.findall(rest)}
    return _NONE if others - {label, None} else frozenset({label})


def _option_text(text: str, options: dict[str, str]) -> Labels:
    key = _text_key(text)
    same = [label for label, option in options.items() if option and _text_key(option) == key]
    return frozenset(same) if len(same) == 1 else _NONE


def _by_formula(answer: str, options: dict[str, str]) -> Labels:
    r"""Return the one option whose formula equals the answer's, as \frac12 equals 1/2."""
    # The algebra may fail in any way on an odd answer, or take too long; then no option is named.
    try:
        given = normalise_math(answer)
        if not _is_formula(given):
            return _NONE
        formulas = {label: normalise_math(text) for label, text in options.items() if text}
        same = [k for k, text in formulas.items() if _is_formula(text) and _equal(given, text)]
    except (Exception, TimeoutException):
        return _NONE
    return frozenset(same) if len(same) == 1 else _NONE


def _is_formula(text: str) -> bool:
    # A lone letter is a label that the question lacks, a word no mathematics.
    if len(text) < 2 or is_literal(text):
        return False
    return parse_math(text, alarm_seconds(_SECONDS)) is not None


def _equal(answer: str, option: str) -> bool:
    return math_equal(answer, option, 0.0, _SECONDS)


def _concluded(text: str, folded: dict[str, str]) -> Labels:
    """Return the label that a discussion ends in: "... too large, so (C)."."""
    match = _CONCLUDED.search(text)
    label = folded.get(match[1].casefold()) if match else None
    return _NONE if label is None else frozenset({label})


def _text_key(text: str) -> Fraction | str:
    number = bare_number(strip_trailing(text))
    return text_key(text) if number is None else number
