"""A score with other rules' scores beside it, all of one answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sapo_vl.protocols import ChecksReference, Verifier
from sapo_vl.types import Prompt, Verdict


@dataclass(frozen=True)
class BesideVerifier:
    """Score with one rule and report what other rules say of the same answer.

    The verdict is that of ``verifier``; ``Verdict.parts`` holds the score of each of the others
    under its name, and their own parts as ``name/inner``. So a benchmark's official score and a
    stricter one come from one set of answers.

    Args:
        verifier: gives score, extracted answer and status, and says which references are usable.
        also: name -> rule whose score is reported only; a reference it can't use scores 0 there.

    Example: ``BesideVerifier(MathVisionOfficial(), also={"training_rule": MathVerifier()})``.
    """

    verifier: Verifier
    also: dict[str, Verifier] = field(default_factory=dict)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` as ``verifier`` does."""
        verdict = self.verifier(prompt, response)
        parts, reasons = dict(verdict.parts), [verdict.reason]
        for name, rule in self.also.items():
            other = rule(prompt, response)
            parts[name] = other.score
            parts |= {f"{name}/{inner}": value for inner, value in other.parts.items()}
            reasons.append(f"{name}: {other.reason}")
        return replace(verdict, parts=parts, reason="; ".join(reasons))

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable to ``verifier``; None where it is fine."""
        rule = self.verifier
        return rule.check_reference(prompt) if isinstance(rule, ChecksReference) else None
