"""One score out of several verifiers, each with a name in the breakdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sapo_vl.protocols import ChecksMachine, ChecksReference, Verifier
from sapo_vl.types import Prompt, Verdict, VerdictStatus
from sapo_vl.verifiers.opening import LimitsItself

# What the whole reports where its parts disagree: what needs looking at comes first.
_BY_URGENCY: tuple[VerdictStatus, ...] = (
    "error",
    "timeout",
    "unparsable_reference",
    "no_answer",
    "ok",
)


@dataclass(frozen=True)
class CombinedVerifier:
    """Score with the weighted mean of some verifiers, multiplied by the scores of others.

    score = sum of weight * score / sum of weights, over the parts that are no gates, times the
    product of the gates' scores. A gate of 0 leaves nothing, a penalty (`LanguagePenalty`,
    `RepetitionPenalty`, `OverlongPenalty`) takes its share off, and neither can lift a wrong
    answer. ``Verdict.parts`` holds every part's score under its name, and the parts of parts as
    ``name/inner``. Status: the most urgent of the weighted parts; extracted: what the first of
    them found. A part whose reference is unusable makes the whole score 0.

    Args:
        parts: name -> verifier, at least one of them no gate.
        weights: name -> weight, positive; 1 where it is not named.
        gates: names of the parts that multiply.

    Example:
        ``CombinedVerifier({"answer": MathVerifier(), "language": LanguagePenalty(penalty=0.5)},
        gates=["language"])``.

    Raises:
        ValueError: a weight or gate of no part, a weight that is not positive, or gates alone.
    """

    parts: dict[str, Verifier]
    weights: Mapping[str, float] = field(default_factory=dict)
    gates: Sequence[str] = ()

    def __post_init__(self) -> None:
        unknown = {*self.weights, *self.gates} - set(self.parts)
        if unknown:
            raise ValueError(
                f"weights or gates name {', '.join(sorted(unknown))}; the parts are "
                f"{', '.join(self.parts) or 'none'}"
            )
        both = set(self.weights) & set(self.gates)
        if both:
            raise ValueError(f"{', '.join(sorted(both))} is a gate and has a weight; choose one")
        if not set(self.parts) - set(self.gates):
            raise ValueError("every part is a gate; one part at least must be weighed")
        for name, weight in self.weights.items():
            if not (math.isfinite(weight) and weight > 0):
                raise ValueError(f"weights.{name} is {weight}; it must be positive")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]."""
        verdicts = {name: verifier(prompt, response) for name, verifier in self.parts.items()}
        weighed = {name: v for name, v in verdicts.items() if name not in self.gates}
        total = sum(self.weights.get(name, 1.0) for name in weighed)
        score = sum(self.weights.get(name, 1.0) * v.score for name, v in weighed.items()) / total
        for name in self.gates:
            score *= verdicts[name].score
        status = min((v.status for v in weighed.values()), key=_BY_URGENCY.index)
        if status == "unparsable_reference":
            score = 0.0
        parts: dict[str, float] = {}
        for name, verdict in verdicts.items():
            parts[name] = verdict.score
            parts |= {f"{name}/{inner}": value for inner, value in verdict.parts.items()}
        return Verdict(
            score=min(score, 1.0),  # 0.1 + 0.2 and its kin
            extracted=next((v.extracted for v in weighed.values()), None),
            status=status,
            reason="; ".join(f"{name}: {v.reason}" for name, v in verdicts.items()),
            parts=parts,
        )

    def check_machine(self) -> None:
        """Check what each part needs of the machine; raises what the part raises."""
        for verifier in self.parts.values():
            if isinstance(verifier, ChecksMachine):
                verifier.check_machine()

    def seconds_for(self, prompt: Prompt) -> float:
        """Return how long one verdict of all parts may take, where parts limit themselves."""
        parts = [v for v in self.parts.values() if isinstance(v, LimitsItself)]
        return sum(verifier.seconds_for(prompt) for verifier in parts)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable to a part; None where it is fine to all."""
        for name, verifier in self.parts.items():
            problem = (
                verifier.check_reference(prompt) if isinstance(verifier, ChecksReference) else None
            )
            if problem is not None:
                return f"{name}: {problem}"
        return None
