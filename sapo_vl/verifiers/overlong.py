"""Soft penalty for long responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sapo_vl.types import Prompt, Verdict

Unit = Literal["characters", "words"]


@dataclass(frozen=True)
class OverlongPenalty:
    """Score 1, less a penalty that grows linearly over the last stretch before a limit.

    The soft overlong punishment of DAPO (Yu et al., 2025), in characters or words: a verifier sees
    text, not tokens. An English token has about 4 characters, 0.75 words; a Chinese one about 1.5
    characters, and Chinese text is one word. What was cut at ``max_new_tokens`` is the business of
    `SAPOModule`'s ``truncated``.

    Args:
        limit: length from which the whole penalty is taken, reasoning included.
        buffer: stretch before it over which the penalty grows; 0: all or nothing.
        unit: "characters" or "words" (between blanks).
        penalty: taken off the score, in [0, 1].

    Raises:
        ValueError: a number out of range or an unknown unit.
    """

    limit: int
    buffer: int
    unit: Unit = "characters"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.buffer <= self.limit or self.limit < 1:
            raise ValueError(
                f"limit is {self.limit} and buffer {self.buffer}; the limit must be at least 1 and "
                "the buffer lie between 0 and the limit"
            )
        if self.unit not in get_args(Unit):
            raise ValueError(
                f"unit is {self.unit!r}; it must be one of {', '.join(get_args(Unit))}"
            )
        if not 0 <= self.penalty <= 1:
            raise ValueError(f"penalty is {self.penalty}; it must lie in [0, 1]")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` between 1 - ``penalty`` and 1."""
        length = len(response) if self.unit == "characters" else len(response.split())
        over = length - (self.limit - self.buffer)
        share = min(max(over / self.buffer, 0.0), 1.0) if self.buffer else float(over > 0)
        reason = f"{length} {self.unit}, the limit is {self.limit}"
        return Verdict(score=1 - self.penalty * share, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Return None: the reference plays no part."""
        return None
