r"""Reads the one number a short answer states: digits or English words, exact as a fraction."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from sapo_vl.verifiers.numerals_chinese import MYRIADS, chinese_numbers
from sapo_vl.verifiers.plain import MAX_CHARS, plain

_UP_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENTHS = "twenty thirty forty fifty sixty seventy eighty ninety"
_LOW = {word: number for number, word in enumerate(_UP_TO_NINETEEN.split())}
_TENS = {word: 10 * number for number, word in enumerate(_TENTHS.split(), start=2)}
_SCALES = {"dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_LETTERS = {"k": 10**3, "M": 10**6, "bn": 10**9, "B": 10**9}  # glued to digits: 3.4M, 12k
_WORDS = {**_LOW, **_TENS}

_ONE = "|".join(word for word, number in _LOW.items() if number < 10)
_SMALL = rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{_ONE}))?|{'|'.join(_LOW)})"
_WORD_NUMBER = rf"(?:{_SMALL}\s+)?hundred(?:\s+(?:and\s+)?{_SMALL})?|{_SMALL}"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_QUANTITY = re.compile(
    # A sign counts only where nothing stands before it: 3-4 is a range, not 3 and -4.
    r"(?P<sign>(?<![\w.)])-\s*[$€£¥]?|\b(?:minus|negative)\s+)?"
    rf"(?:(?<![^\W\u3040-\u9fff])(?<!\.)(?P<digits>{_DIGITS})(?:e(?P<exponent>[+-]?\d{{1,3}})(?!\w)|/(?P<below>\d+))?"
    # No hyphen around words: one-third and six-year-old state no number.
    rf"|(?<![\w-])(?P<words>{_WORD_NUMBER})(?![\w-]))"
    rf"(?:\s*(?P<scale>{'|'.join(_SCALES)})\b|(?<=\d)(?P<letter>(?-i:{'|'.join(_LETTERS)}))\b"
    # No 千 or 百, which begin units: 5千克 is 5 kg.
    rf"|(?<=\d)\s*(?P<chinese>[{''.join(MYRIADS)}]))?",
    re.IGNORECASE,
)
_BARE = re.compile(rf"-?(?:{_DIGITS})(?:/\d+)?")
_POWER_OF_TEN = re.compile(
    r"\s*(?:\\times|\\cdot|\u00d7|\*|x)\s*10\s*\^\s*\{?\s*([+-]?\d{1,3})\s*\}?"
)
_TEN_TO_THE = re.compile(r"(?<![\w.^])10\s*\^\s*\{?\s*([+-]?\d{1,2})\s*\}?(?![\w^])")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}")
_UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s*\^\s*\{?[23]\}?|\b([cdkm]?m)[23]\b")
_DEGREE = re.compile(r"\^\s*\{?\s*(?:\\circ|°)\s*\}?|\\circ|\\degree|°")
_HEDGE = re.compile(r"\\(?:approx|sim)(?![A-Za-z])")
_FORMULA = re.compile(r"[\\√π^]")
_OPERATOR = re.compile(r"[-+*/=<>]")
_MIXED = re.compile(r"(?<![\w./])(\d{1,4})\s+(\d{1,3})/(\d{1,3})(?![\w./])")
_HALF = re.compile(
    r"\b(?:(?P<whole>\w+(?:-\w+)?)\s+and\s+)?(?:an?|one)[\s-]+half\b|^half$", re.IGNORECASE
)
_DOZEN = re.compile(r"\ba\s+(?=dozen\b|thousand\b|million\b|billion\b)", re.IGNORECASE)
# What says that the number is not the answer but a bound, an exception, or a part of a sum.
_INEXACT = re.compile(
    r"[<>\u2260\u2264\u2265\u00b1]"
    r"|\b(?:not|nor|never|neither|cannot|\w+n['\u2019]t|except|than|between|exceeds?|half|halves|"
    r"squared|cubed|at\s+(?:least|most)|(?:anything|everything|all)\s+but)\b"
    r"|\b(?:over|under|above|below|beyond|up\s+to|twice|thrice|double|triple)\s+(?=[\d$])"
    rf"|\b(?:over|under|up\s+to|twice|thrice|double|triple)\s+(?={_SMALL}\b)"
    r"|\d\s*以[上下]|不是|不到|不足|至少|至多|最多|最少|超过|大于|小于|多于|少于|一半|分之",
    re.IGNORECASE,
)
_OPEN_ENDED = re.compile(r"\d\s*(?:\+(?!\s*/)|[xyn]\b)|^[^A-Za-z]*\d\s*!(?!\s*[A-Za-z])")
_MAX_DIGITS = 100  # of one number


def read_number(text: str) -> Fraction | None:
    """Return the number that ``text`` states, or None where there is none or more than one.

    Units, percent and currency signs, and words around the number are passed over: "7 cats",
    "about 7", "50%" (which is 50), "$1,024.50". Numbers that repeat the same value are one, as in
    "7 (seven)"; an enumeration ("1 2 3"), a range, a formula, a time of day state none.
    """
    return _read_number(text) if len(text) <= MAX_CHARS else None


@lru_cache(maxsize=4096)  # one reference meets a group of answers, many of them the same
def _read_number(text: str) -> Fraction | None:
    cleaned = _clean(text)
    if _FORMULA.search(cleaned) or _INEXACT.search(cleaned) or _OPEN_ENDED.search(cleaned):
        return None
    values: set[Fraction] = set()
    end = 0
    for match in _QUANTITY.finditer(cleaned):
        between = cleaned[end : match.start()]
        # A digit outside every quantity, as in x7 or 12:30:00h5, would be a number not looked at.
        if _holds_digit(between) or (values and _OPERATOR.search(between)):
            return None
        value = _value(match)
        if value is None:
            return None
        values.add(value)
        end = match.end()
    if not _holds_digit(cleaned):  # 一 and its kin are parts of words, too
        signs = chinese_numbers(cleaned)
        if signs is None:
            return None
        values.update(map(Fraction, signs))
    if len(values) != 1 or _holds_digit(cleaned[end:]):
        return None
    return values.pop()


def read_numbers(text: str) -> tuple[Fraction, ...] | None:
    """Return the numbers of a list such as "[2007, 2008]", or the one number of another text."""
    stripped = text.strip()
    if not (len(stripped) <= MAX_CHARS and stripped.startswith("[") and stripped.endswith("]")):
        number = read_number(text)
        return None if number is None else (number,)
    numbers = [read_number(part) for part in stripped[1:-1].split(",")]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else None


def bare_number(text: str) -> Fraction | None:
    """Return the value of a text that is a number and nothing else; no units, no words."""
    text = plain(text) if len(text) <= MAX_CHARS else ""
    match = _BARE.fullmatch(text)
    return read_number(text) if match else None


def number_of_words(text: str) -> Fraction | None:
    """Return the value of a text that is English number words and nothing else."""
    match = _QUANTITY.fullmatch(text.strip()) if 0 < len(text) <= MAX_CHARS else None
    return _value(match) if match is not None and match["words"] else None


def _clean(text: str) -> str:
    text = _FRACTION.sub(r" \1/\2", plain(text))
    text = _TEN_TO_THE.sub(r"1e\1", _POWER_OF_TEN.sub(r"e\1", text))
    text = _HEDGE.sub(" ", _DEGREE.sub(" ", text))
    text = _HALF.sub(_with_half, _MIXED.sub(_mixed, _DOZEN.sub("one ", text)))
    return _UNIT_POWER.sub(r"\1", text)


def _mixed(match: re.Match[str]) -> str:
    whole, above, below = map(int, match.groups())
    return f"{whole * below + above}/{below}" if 0 < above < below else match[0]


def _with_half(match: re.Match[str]) -> str:
    whole = match["whole"]
    if whole is None:
        return "1/2"
    number = int(whole) if whole.isdecimal() and len(whole) < 5 else _low(whole)
    return match[0] if number is None else f"{2 * number + 1}/2"


def _low(words: str) -> int | None:
    parts = re.split(r"[-\s]+", words.casefold())
    return sum(_WORDS[p] for p in parts) if all(p in _WORDS for p in parts) else None


def _holds_digit(text: str) -> bool:
    return any(char.isdecimal() for char in text)


def _value(match: re.Match[str]) -> Fraction | None:
    value = _from_words(match["words"]) if match["words"] else _from_digits(match)
    if value is None:
        return None
    value *= _SCALES[match["scale"].lower()] if match["scale"] else 1
    value *= _LETTERS[match["letter"]] if match["letter"] else 1
    value *= MYRIADS[match["chinese"]] if match["chinese"] else 1
    return -value if match["sign"] else value


def _from_digits(match: re.Match[str]) -> Fraction | None:
    digits, below = match["digits"].replace(",", ""), match["below"]
    if len(digits) > _MAX_DIGITS or (below and (len(below) > _MAX_DIGITS or not int(below))):
        return None
    value = Fraction(digits)
    if match["exponent"]:
        value *= Fraction(10) ** int(match["exponent"])
    return value / int(below) if below else value


def _from_words(words: str) -> Fraction:
    before, hundred, after = words.lower().partition("hundred")
    if not hundred:
        return Fraction(_small(before))
    return Fraction((_small(before) or 1) * 100 + _small(after))


def _small(words: str) -> int:
    return sum(_WORDS[word] for word in re.split(r"[-\s]+", words.strip()) if word in _WORDS)
