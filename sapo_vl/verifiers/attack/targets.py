"""What is attacked: a verifier with a hidden set of prompts, and what honest guessing earns there.

Every visible prompt appears with every reference of its set, so whatever a response reads out of
the prompt tells nothing about the reference, and the best honest guess can be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt

Visible = Mapping[str, Any]  # question, options, meta: what the policy sees of a prompt


@dataclass(frozen=True)
class Target:
    """A verifier under attack.

    Args:
        name: what the report calls it.
        make: returns the verifier, a new one each time.
        prompts: the hidden set.
        honest: the mean score of the best honest guess on it.
        words: what an honest policy would write here, pieces of it included; never the references
            in their order.
        wrap: how the form asks for an answer, with ``%s``.
        margin: a mean above ``honest`` by more than this is an exploit.
        seconds: processor time that one verdict may cost.
        share: of all verdicts, before scaling.
        odd: why an exploit is expected: an official rule whose oddities are kept. Empty: none is.
        extra: pieces that suit this rule's syntax, tried beside ``words``.
    """

    name: str
    make: Callable[[], Verifier]
    prompts: tuple[Prompt, ...]
    honest: float
    words: tuple[str, ...]
    wrap: str = "%s"
    margin: float = 1e-6
    seconds: float = 2.0
    share: float = 1.0
    odd: str = ""
    extra: tuple[str, ...] = field(default=())


def hidden_set(references: Iterable[str], visible: Sequence[Visible] = ({},)) -> tuple[Prompt, ...]:
    """Return every visible prompt with every reference."""
    prompts = []
    for number, reference in enumerate(references):
        for seen in visible:
            question = str(seen.get("question", "What is the answer?"))
            prompts.append(
                Prompt(
                    key=f"{number}",
                    reference=reference,
                    messages=({"role": "user", "content": question},),
                    options=seen.get("options", {}),
                    meta=seen.get("meta", {}),
                )
            )
    return tuple(prompts)


def best_guess(truths: Mapping[str, Iterable[str]]) -> float:
    """Return the share of references that the best single answer is right for.

    Args:
        truths: reference -> the honest answers that the rule calls right for it.
    """
    counts = Counter(answer for answers in truths.values() for answer in set(answers))
    return max(counts.values()) / len(truths)


def widest_window(windows: Sequence[tuple[float, float]]) -> float:
    """Return the largest share of closed intervals that one number lies in."""
    return max(sum(low <= x <= high for low, high in windows) for x, _ in windows) / len(windows)
