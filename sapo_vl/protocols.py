"""What the values of ``types.py`` are handed to: verifiers and metrics, by what they can do.

Any class with these methods is one; nothing is to be inherited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sapo_vl.types import Answers, Prompt, Verdict

if TYPE_CHECKING:
    from torch import Tensor


@runtime_checkable
class Verifier(Protocol):
    """A rule that scores one response: training reward and benchmark scorer alike."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` (the decoded text, without the end-of-turn token)."""


@runtime_checkable
class ChecksReference(Protocol):
    """A verifier that can say beforehand that a prompt's reference is of no use to it."""

    def check_reference(self, prompt: Prompt) -> str | None:
        """Return what is wrong with the reference, in a sentence; None: nothing."""


@runtime_checkable
class ChecksMachine(Protocol):
    """A verifier that needs something of the machine and can tell before a run whether it is there.

    Raises an error that says what is missing; returns nothing where all is well.
    """

    def check_machine(self) -> None:
        """Raise where the machine lacks what the verifier needs."""
        ...


@runtime_checkable
class AnswerMetric(Protocol):
    """What a task is scored by in evaluation: a torchmetrics Metric over answers."""

    def update(self, answers: Sequence[Answers] | Tensor) -> None:
        """Add the judged answers to some prompts, or a [P, N] tensor of scores."""

    def compute(self) -> dict[str, Any]:
        """Score everything that was added on any rank."""
