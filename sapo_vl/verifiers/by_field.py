"""One rule for each kind of question, told apart by a field of the sample."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.protocols import ChecksReference, Verifier
from sapo_vl.types import Prompt, Verdict


@dataclass(frozen=True)
class ByFieldVerifier:
    """Score a question by the rule for its kind, which a field of the sample names.

    Args:
        field: name in ``prompt.meta``, e.g. ``question_type``.
        rules: value of that field -> rule.

    Example: ``ByFieldVerifier("question_type", {"multi-choice": ChoiceVerifier(), "free-form":
    MathVerifier()})``.
    """

    field: str
    rules: dict[str, Verifier]

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]."""
        rule = self._rule(prompt)
        if rule is None:
            return Verdict(score=0.0, status="unparsable_reference", reason=self._unknown(prompt))
        return rule(prompt, response)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        rule = self._rule(prompt)
        if rule is None:
            return self._unknown(prompt)
        return rule.check_reference(prompt) if isinstance(rule, ChecksReference) else None

    def _rule(self, prompt: Prompt) -> Verifier | None:
        return self.rules.get(str(prompt.meta.get(self.field)))

    def _unknown(self, prompt: Prompt) -> str:
        value = prompt.meta.get(self.field)
        return f"the field {self.field!r} is {value!r}; there are rules for {', '.join(self.rules)}"
