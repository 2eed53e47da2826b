"""Verdicts that several official rules give in the same words."""

from __future__ import annotations

from sapo_vl.types import Prompt, Verdict

_MAX_SHOWN = 300


def by_letter(letter: str, prompt: Prompt) -> Verdict:
    """Score the label that a response names: 1.0 where it is the reference."""
    reason = f"names {letter}, the reference is {prompt.reference}"
    return Verdict(score=float(letter == prompt.reference), extracted=letter, reason=reason)


def by_answer(answer: str, right: bool, prompt: Prompt) -> Verdict:
    """Score an answer that a rule found ``right`` or not, shown cut to 300 characters."""
    shown = answer[:_MAX_SHOWN]
    reason = f"{shown!r} {'counts' if right else 'does not count'} as {prompt.reference!r}"
    return Verdict(score=float(right), extracted=shown, reason=reason)
