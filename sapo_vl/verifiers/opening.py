"""What every verifier does first: check the reference, then find the answer."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import after_thinking, extract_answer


@runtime_checkable
class LimitsItself(Protocol):
    """A verifier with a time limit of its own, longer than most verdicts take."""

    def seconds_for(self, prompt: Prompt) -> float:
        """Return how long one verdict may take."""
        ...


class _Rule(Protocol):
    def check_reference(self, prompt: Prompt) -> str | None: ...


class _Reader(_Rule, Protocol):
    @property
    def thinking(self) -> bool: ...


class _FormReader(_Reader, Protocol):
    @property
    def form(self) -> str: ...


def reference_verdict(rule: _Rule, prompt: Prompt) -> Verdict | None:
    """Return the verdict where ``rule`` cannot use the reference; None where it can."""
    problem = rule.check_reference(prompt)
    if problem is None:
        return None
    return Verdict(score=0.0, status="unparsable_reference", reason=problem)


def answer_or_verdict(rule: _FormReader, prompt: Prompt, response: str) -> str | Verdict:
    """Return the answer in ``response``, or the verdict where there is nothing to compare."""
    unusable = reference_verdict(rule, prompt)
    if unusable is not None:
        return unusable
    answer = extract_answer(response, rule.form, rule.thinking)
    if answer is None:
        return Verdict(score=0.0, status="no_answer", reason=f"no answer of form {rule.form}")
    return answer


def text_or_verdict(rule: _Reader, prompt: Prompt, response: str) -> str | Verdict:
    """Return what follows the reasoning, or the verdict where there is nothing to compare.

    For rules that look for the answer in a way of their own.
    """
    unusable = reference_verdict(rule, prompt)
    if unusable is not None:
        return unusable
    text = after_thinking(response, rule.thinking)
    if text is None:
        return Verdict(score=0.0, status="no_answer", reason="the reasoning never ends")
    return text
