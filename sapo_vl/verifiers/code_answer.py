"""Finds the code in a response."""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]*(`{3,})[ \t]*([^\s`]*)[^`\n]*")
_PYTHON = frozenset(["python", "python3", "py"])


def last_block(text: str) -> str | None:
    """Return the last complete fenced block marked as Python, or else the last complete block.

    A block that the length limit cut before its closing fence is none.
    """
    marked = plain = None
    language: str | None = None
    fence, lines = "", []
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line.rstrip("\r"))
        if match is None:
            lines.append(line)
        elif language is None:
            fence, language, lines = match[1], match[2].casefold(), []
        elif match[2] or len(match[1]) < len(fence):
            lines.append(line)
        else:
            if language in _PYTHON:
                marked = "\n".join(lines)
            plain, language = "\n".join(lines), None
    return plain if marked is None else marked


def last_fenced_lines(text: str) -> str | None:
    """Return what stands between the last two lines with a fence, as LiveCodeBench does."""
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if "```" in line]
    return "\n".join(lines[fences[-2] + 1 : fences[-1]]) if len(fences) > 1 else None
