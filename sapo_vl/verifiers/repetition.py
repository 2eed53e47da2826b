"""Penalty for responses that go round in circles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|[^\w\s]")
_MAX_WORDS = 50_000


@dataclass(frozen=True)
class RepetitionPenalty:
    """Score 1, less a penalty that grows with the share of repeated n-grams.

    A repeated n-gram is one that occurred before in the response, reasoning included; n-grams are
    of words, punctuation signs and single Chinese, Japanese or Korean signs. The share is 1 -
    different n-grams / n-grams. Up to ``allowed`` it costs nothing, from there the penalty grows
    linearly to its full size at a share of 1.

    Args:
        penalty: taken off the score of endless repetition, in [0, 1].
        ngram: words of an n-gram; a response that is shorter repeats nothing.
        allowed: share that goes unpunished, in [0, 1).

    Raises:
        ValueError: a number out of range.
    """

    penalty: float = 1.0
    ngram: int = 20
    allowed: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.penalty <= 1:
            raise ValueError(f"penalty is {self.penalty}; it must lie in [0, 1]")
        if self.ngram < 1:
            raise ValueError(f"ngram is {self.ngram}; it must be at least 1")
        if not 0 <= self.allowed < 1:
            raise ValueError(f"allowed is {self.allowed}; it must lie in [0, 1)")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` between 1 - ``penalty`` and 1."""
        share = repeated_share(response, self.ngram)
        excess = max(0.0, share - self.allowed) / (1 - self.allowed)
        reason = f"{share:.0%} of the {self.ngram}-grams are repeated"
        return Verdict(score=1 - self.penalty * excess, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Return None: the reference plays no part."""
        return None


def repeated_share(text: str, ngram: int) -> float:
    """Return the share of n-grams that occurred before, in [0, 1)."""
    words = []
    for match in _WORD.finditer(text):
        words.append(match[0])
        if len(words) == _MAX_WORDS:
            break
    count = len(words) - ngram + 1
    if count < 1:
        return 0.0
    return 1 - len({tuple(words[i : i + ngram]) for i in range(count)}) / count
