"""One rule for questions with options, another for those without."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.protocols import ChecksReference, Verifier
from sapo_vl.types import Prompt, Verdict


@dataclass(frozen=True)
class ByOptionsVerifier:
    """Score a multiple choice question by one rule and any other question by a second one.

    Args:
        choice: for prompts with options.
        free: for prompts without.

    Example: ``ByOptionsVerifier(choice=ChoiceVerifier(), free=MathVerifier())``.
    """

    choice: Verifier
    free: Verifier

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]."""
        return self._rule(prompt)(prompt, response)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        rule = self._rule(prompt)
        return rule.check_reference(prompt) if isinstance(rule, ChecksReference) else None

    def _rule(self, prompt: Prompt) -> Verifier:
        return self.choice if prompt.options else self.free
