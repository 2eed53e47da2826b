r"""Finds the final answer in a response: one fixed form per verifier, never a second chance.

Rules (facts gathered from public verifiers, each of which breaks one of them): the reasoning before
the last ``</think>`` is never graded, the last complete answer counts, and nothing is read out of a
``\boxed{`` or ``<answer>`` that the length limit cut before its end.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

Form = Literal["boxed", "answer_tag", "answer_line", "whole"]

FORMS: tuple[str, ...] = get_args(Form)

# One pass over the braces; the second alternative swallows \{ and \}, which do not nest.
# The first of them is TeX's box of one token, "\boxed 9".
_BRACE = re.compile(
    r"\\(?:boxed|fbox)(?:\s+([0-9A-Za-z])(?![0-9A-Za-z]|[.,]\d)|\s*\{)|\\.|[{}]", re.DOTALL
)
_OPENING = re.compile(r"\\(?:boxed|fbox)\s*\{")
_ANSWER_MARK = re.compile(r"\banswer[*_ ]*[:\uff1a][*_\s]*", re.IGNORECASE)
_MAX_NESTED = 8  # unwrapping is a scan a level; real answers nest once


def check_form(form: str) -> None:
    """Refuse a form that does not exist.

    Raises:
        ValueError: ``form`` is none of `FORMS`.
    """
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")


def extract_answer(response: str, form: str, thinking: bool = False) -> str | None:
    r"""Return the final answer of a response, or None where it has none.

    Args:
        response: the decoded text.
        form: where the prompt asked for the answer: ``boxed`` the last complete ``\boxed{...}``
            (or ``\fbox{...}``, or ``\boxed 9`` of one character), ``answer_tag`` the last
            complete ``<answer>...</answer>``, ``answer_line`` the text after the last ``Answer:``,
            ``whole`` everything.
        thinking: the model reasons before ``</think>``; without that tag there is no answer yet.

    Raises:
        ValueError: ``form`` is none of `FORMS`.
    """
    check_form(form)
    text = after_thinking(response, thinking)
    if text is None:
        return None
    if form == "boxed":
        found = last_box(text)
    elif form == "answer_tag":
        found = _last_tag(text)
    elif form == "answer_line":
        found = _last_answer_line(text)
    else:
        found = text
    return (found or "").strip() or None


def after_thinking(response: str, thinking: bool) -> str | None:
    """Return what follows the last ``</think>``, or None where the reasoning never ended."""
    _, closed, answer = response.rpartition("</think>")
    if thinking and not closed:
        return None
    # An opened block was cut by the length limit, whether or not we knew that the model thinks.
    return None if "<think>" in answer else answer


def last_box(text: str) -> str | None:
    r"""Return the content of the last complete outermost box, unwrapped where boxes nest.

    Linear in the length of the text. A box inside one that never closes does not count.
    """
    found = boxes_of(text)
    return unwrap_box(found[-1]) if found else None


def boxes_of(text: str) -> list[str]:
    r"""Return the contents of all complete outermost boxes, in their order."""
    found: list[str] = []
    stack: list[int] = []  # starts of contents; -1 for a brace that opens no box
    boxes = 0
    for match in _BRACE.finditer(text):
        token = match[0]
        if match[1]:
            found += [match[1]] if boxes == 0 else []
        elif token[-1] == "{" and token != r"\{":
            is_box = len(token) > 1
            stack.append(match.end() if is_box else -1)
            boxes += is_box
        elif token == "}" and stack:
            start = stack.pop()
            if start >= 0:
                boxes -= 1
                if boxes == 0:
                    found.append(text[start : match.start()])
    return found


def unwrap_box(text: str) -> str:
    r"""Return ``x`` for ``\boxed{\boxed{x}}``; any other text comes back stripped."""
    text = text.strip()
    for _ in range(_MAX_NESTED):
        opening = _OPENING.match(text)
        if opening is None or not text.endswith("}"):
            break
        inner = text[opening.end() : -1]
        if not balanced(inner):
            break
        text = inner.strip()
    return text


def balanced(text: str) -> bool:
    r"""Return whether every brace has its partner; the literal ``\{`` and ``\}`` do not count."""
    depth = 0
    for match in _BRACE.finditer(text):
        token = match[0]
        if token == "}":
            depth -= 1
            if depth < 0:
                return False
        elif token[-1] == "{" and token != r"\{":
            depth += 1
    return depth == 0


def _last_tag(text: str) -> str | None:
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    return text[start + len("<answer>") : end] if start >= 0 else None


def _last_answer_line(text: str) -> str | None:
    marks = list(_ANSWER_MARK.finditer(text))
    if not marks:
        return None
    line, _, _ = text[marks[-1].end() :].partition("\n")
    return line.strip(" \t\r*_`")
