"""What makes a reference unusable, where several rules ask the same of it."""

from __future__ import annotations

from sapo_vl.types import Prompt


def all_references(prompt: Prompt) -> list[str]:
    """Return the reference and the others that are accepted, from ``meta["answers"]``."""
    return [prompt.reference, *prompt.meta.get("answers", [])]


def unusable_answers(prompt: Prompt) -> str | None:
    """Say that ``meta["answers"]`` is no list of strings; None where it is one, or missing."""
    answers = prompt.meta.get("answers", [])
    if isinstance(answers, list | tuple) and all(isinstance(a, str) for a in answers):
        return None
    return "meta['answers'] must be a list of strings"


def empty_reference(prompt: Prompt) -> str | None:
    """Say that the reference is empty; None where it is not."""
    return None if prompt.reference.strip() else "the reference is empty"


def no_letter(prompt: Prompt, letters: str) -> str | None:
    """Say that the reference is none of some letters in a row; None where it is one."""
    if len(prompt.reference) == 1 and prompt.reference in letters:
        return None
    return f"the reference {prompt.reference!r} is none of {letters[0]} to {letters[-1]}"
