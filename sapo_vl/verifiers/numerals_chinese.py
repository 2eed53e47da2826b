"""Reads Chinese number words: 七, 二十一, 一百二十, 三万."""

from __future__ import annotations

import re

_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {
    "\u3007": 0,
    "两": 2,
}
_PLACES = {"十": 10, "百": 100, "千": 1000}
MYRIADS = {"万": 10**4, "亿": 10**8}
_SIGNS = "".join((*_DIGITS, *_PLACES, *MYRIADS))
# Words that only begin with a numeral: 一共 is "altogether", 一些 "some", 千万 "by all means".
_RUN = re.compile(rf"(?<!第)[{_SIGNS}]+(?![共起定样般些直切旦半点分])")
_WELL_FORMED = re.compile(
    r"[一二两三四五六七八九]?十[一二三四五六七八九]?"
    rf"|(?:[一二两三四五六七八九][{''.join(_PLACES)}]?零?)+|[零\u3007]"
)


def bare_chinese(text: str) -> int | None:
    """Return the value of a text that is one Chinese number, perhaps with its measure word."""
    match = _RUN.match(text)
    rest = text[match.end() :] if match else ""
    return _value(match[0]) if match and re.fullmatch(r"[个只条张名位本件]?", rest) else None


def chinese_numbers(text: str) -> list[int] | None:
    """Return the numbers written in Chinese signs, in order; None where one is not well formed."""
    found = []
    for match in _RUN.finditer(text):
        value = _value(match[0])
        if value is None:
            return None
        found.append(value)
    return found


def _value(run: str) -> int | None:
    total = 0
    for myriad, size in reversed(MYRIADS.items()):
        before, found, after = run.partition(myriad)
        if found:
            head = _under_myriad(before)
            if head is None:
                return None
            total, run = total + head * size, after.lstrip("零")
    if total and not run:
        return total
    rest = _under_myriad(run)
    return None if rest is None else total + rest


def _under_myriad(run: str) -> int | None:
    if not _WELL_FORMED.fullmatch(run):
        return None
    if len(run) > 1 and not set(run) & set(_PLACES):
        return None  # 三四 is "three or four"
    total, digit = 0, 0
    for sign in run:
        if sign in _PLACES:
            total, digit = total + (digit or 1) * _PLACES[sign], 0
        else:
            digit = _DIGITS[sign]
    return total + digit
