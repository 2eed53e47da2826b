"""One row of the tables of accepted and refused answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import (
    TRAINING,
    LanguagePenalty,
    OverlongPenalty,
    RepetitionPenalty,
)

KINDS: dict[str, type] = TRAINING | {
    "language": LanguagePenalty,
    "repetition": RepetitionPenalty,
    "overlong": OverlongPenalty,
}


@dataclass(frozen=True)
class Row:
    """One answer, as it stands in the response, and what it scores."""

    answer: str
    reference: str
    score: float
    note: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def judge(self, name: str) -> Verdict:
        whole = (
            {} if name in ("format", "language", "repetition", "overlong") else {"form": "whole"}
        )
        verifier = KINDS[name](**{**whole, **self.arguments})
        prompt = Prompt(reference=self.reference, options=self.options, meta=self.meta)
        return verifier(prompt, self.answer)


def rows(reference: str, right: str, wrong: str, **more: Any) -> list[Row]:
    """Rows for one reference; answers are separated by " ; "."""
    return [Row(a, reference, 1, **more) for a in right.split(" ; ") if a] + [
        Row(a, reference, 0, **more) for a in wrong.split(" ; ") if a
    ]
