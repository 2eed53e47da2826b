r"""Tells lists by their brackets, and compares ratios and pairs that the parser would flatten.

To the parser ``1,2`` and ``\{1,2\}`` are one, ``(1,2)`` is an interval, and ``3:4:5`` a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PAIRS = {"(": ")", "[": "]", r"\{": r"\}", "{": "}"}
_TOKEN = re.compile(r"\\[{}]|\\[A-Za-z]+|[()\[\]{},;:]|.", re.DOTALL)
_BRACES = ("{}", r"\{\}")
_ASSIGNED = re.compile(r"([A-Za-z])\s*=\s*([^=]+)")
_NAMED_PAIR = re.compile(r"^\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])+\s*\)\s*=\s*(?=\()")
_NAMED = re.compile(
    r"^(?:\\(?:angle|triangle|overline|widehat)\s*)?\{?[A-Z]{2,4}\}?\s*=\s*(?=[^=]+$)"
)


def aligned(answer: str, reference: str) -> tuple[str, str] | None:
    r"""Return two formulas in comparable dress, or None where their brackets make them differ.

    The reference decides: a bare list may be answered in any plain brackets; braces (a set) by
    braces or none; an interval or a pair in its own brackets alone, or by ``x=1, y=2`` for a pair.
    """
    answer, reference = _NAMED_PAIR.sub("", answer), _NAMED_PAIR.sub("", reference)
    if ("=" in answer) != ("=" in reference):
        answer, reference = _NAMED.sub("", answer), _NAMED.sub("", reference)
    given, wanted = brackets(answer), brackets(reference)
    if wanted is None or given is None or given == wanted:
        return answer, reference
    if wanted == "":
        if given in ("()", "[]"):
            return answer[1:-1].strip(), reference
        return (answer, reference) if given in _BRACES else None
    if wanted in _BRACES:
        return (answer, reference) if given in ("", *_BRACES) else None
    pair = _as_pair(answer) if wanted == "()" and given == "" else None
    return (pair, reference) if pair is not None else None


def brackets(text: str) -> str | None:
    r"""Return the brackets around a list, such as ``()``, ``\{\}`` or nothing; None: no list."""
    if len(split(text, ",;")) > 1:
        return ""
    opening = r"\{" if text.startswith(r"\{") else text[:1]
    closing = next((c for c in (r"\}", ")", "]", "}") if text.endswith(c)), "")
    if opening not in _PAIRS or not closing:
        return None
    inner = text[len(opening) : len(text) - len(closing)]
    return opening + closing if len(split(inner, ",;")) > 1 else None


def split(text: str, separators: str) -> list[str]:
    r"""Return the parts of a text between separators that stand outside all brackets."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in ("(", "[", "{", r"\{")) - (token in (")", "]", "}", r"\}"))
        if depth < 0:
            return [text]  # as in [0, 1) \cup (2, 3]: no list
        if depth == 0 and token in separators:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts] if depth == 0 else [text]


def ratios_equal(answer: str, reference: str, product: Callable[[str, str], bool]) -> bool | None:
    r"""Return whether two ratios of three or more are proportional; None where neither is one.

    Args:
        answer: the model's.
        reference: the right one.
        product: says whether two products, such as ``(3) \cdot (8)``, are equal.
    """
    left, right = split(answer, ":"), split(reference, ":")
    if max(len(left), len(right)) < 3:
        return None
    if len(left) != len(right) or not all((*left, *right)):
        return False
    return all(
        product(rf"({left[0]}) \cdot ({b})", rf"({a}) \cdot ({right[0]})")
        for a, b in zip(left[1:], right[1:], strict=True)
    )


def _as_pair(text: str) -> str | None:
    """Return ``(1,2)`` for ``x=1, y=2``: the names must come in alphabetical order."""
    found = [_ASSIGNED.fullmatch(part) for part in split(text, ",;")]
    matches = [match for match in found if match is not None]
    names = [match[1] for match in matches]
    if len(matches) < len(found) or names != sorted(set(names)):
        return None
    return f"({','.join(match[2] for match in matches)})"
