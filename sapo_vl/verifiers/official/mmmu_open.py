"""MMMU's rule for open questions: numbers and phrases of a response against the references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sapo_vl.verifiers.official.plain_float import is_float

_KEYS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_NO_ANSWER = frozenset(":,.!?;'")
_NUMBERS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"-?\b\d{1,3}(?:,\d{3})+\b",
        r"-?\d{1,40}(?:\.\d{1,40})?e[+-]?\d{1,40}",
        r"-?(?:\d{1,40}\.\d{1,40}|\.\d{1,40}|\d{1,40}\b)(?!e[+-]?\d)(?![,\d])",
    )
)


def is_right(response: str, references: Iterable[str]) -> bool:
    """Return whether the official code finds one of the references in an open answer."""
    wanted = {value for reference in references for value in _values(reference)}
    texts = [value for value in wanted if isinstance(value, str)]
    for phrase in phrases(response):
        for found in [phrase, *numbers(phrase)]:
            for value in _values(found):
                if value in wanted or (
                    isinstance(value, str) and any(text in value for text in texts)
                ):
                    return True
    return False


def phrases(response: str) -> list[str]:
    """Return the tails of the lines that announce an answer, or the whole text without any."""
    text = response.strip().strip(".").lower()
    # The original means to split at full stops too, but looks for capitals in lower-cased text.
    lines = text.split("\n")
    found = []
    for i, line in enumerate(lines):
        keys = (*_KEYS, "=") if i == len(lines) - 1 else _KEYS
        tails = [line.rpartition(key)[2].strip() for key in keys if key in line]
        # An empty tail is passed over by the original until a later one replaces it.
        shortest = _shortest(tails)
        if shortest and shortest not in _NO_ANSWER:
            found.append(shortest)
    return found or [text]


def numbers(text: str) -> Iterator[str]:
    """Yield every number in a text: with thousands commas, with an exponent, or plain."""
    for pattern in _NUMBERS:
        for match in pattern.finditer(text):
            yield match[0]


def _shortest(tails: list[str]) -> str:
    best = ""
    for tail in tails:
        if not best or len(tail) < len(best):
            best = tail
    return best


def _values(text: str) -> list[str | float]:
    text = text.strip()
    number = text.replace(",", "")
    if is_float(number):
        return [round(float(number), 2)]
    text = text.lower()
    # One letter is in every text: it has to stand at the beginning or end of a word.
    return [f" {text}", f"{text} "] if len(text) == 1 else [text]
