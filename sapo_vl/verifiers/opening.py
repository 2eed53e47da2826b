"""What every verifier does first: check the reference, then find the answer."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import extract_answer


@runtime_checkable
class LimitsItself(Protocol):
    """A verifier with a time limit of its own, longer than most verdicts take."""

    def seconds_for(self, prompt: Prompt) -> float:
        """Return how long one verdict may take."""
        ...


class _Answered(Protocol):
    @property
    def form(self) -> str: ...

    @property
    def thinking(self) -> bool: ...

    def check_reference(self, prompt: Prompt) -> str | None: ...


def answer_or_verdict(verifier: _Answered, prompt: Prompt, response: str) -> str | Verdict:
    """Return the answer in ``response``, or the verdict where there is nothing to compare."""
    problem = verifier.check_reference(prompt)
    if problem is not None:
        return Verdict(score=0.0, status="unparsable_reference", reason=problem)
    answer = extract_answer(response, verifier.form, verifier.thinking)
    if answer is None:
        return Verdict(score=0.0, status="no_answer", reason=f"no answer of form {verifier.form}")
    return answer
