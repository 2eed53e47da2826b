"""The policy: keeps what earns most, changes it, and tries anew; sees scores and nothing else."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from math_verify.errors import TimeoutException

from sapo_vl.protocols import Verifier
from sapo_vl.types import Verdict
from sapo_vl.verifiers.attack.grammar import Genome, Grammar, written
from sapo_vl.verifiers.attack.targets import Target

_ELITE = 24
_AGAIN = 50  # one in so many responses is judged a second time, by a verifier of its own
_MAX_KEPT = 200  # faults and exploits of each kind that are listed


@dataclass
class Found:
    """What an attack on one target came to."""

    verdicts: int = 0
    responses: int = 0
    best: str = ""
    best_mean: float = 0.0
    exploits: dict[str, float] = field(default_factory=dict)  # response -> its mean score
    raised: list[str] = field(default_factory=list)
    out_of_range: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    rechecked: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0  # processor seconds of one verdict

    @property
    def faults(self) -> int:
        """How often a promise of every verifier was broken."""
        return sum(map(len, (self.raised, self.out_of_range, self.late, self.unstable)))


class Attack:
    """One attack on one target.

    Args:
        target: what is attacked.
        verdicts: how many to ask for; the last response may pass it.
        seed: of every draw.
    """

    def __init__(self, target: Target, verdicts: int, seed: int) -> None:
        self.target, self.verdicts = target, verdicts
        self.found = Found()
        self._chance = random.Random(f"{seed} {target.name}")
        self._grammar = Grammar((*target.words, *target.extra), target.wrap)
        self._verifier = target.make()
        self._elite: list[tuple[float, Genome]] = []

    def run(self) -> Found:
        """Return what was found when the verdicts are used up."""
        before, _, after = self.target.wrap.partition("%s")
        for word in (*self.target.words, *self.target.extra):  # the honest guesses first
            if self.found.verdicts < self.verdicts:
                self._try((before, word, after))
        while self.found.verdicts < self.verdicts:
            self._try(self._next())
        return self.found

    def _next(self) -> Genome:
        if not self._elite or self._chance.random() < 0.4:
            return self._grammar.draw(self._chance)
        parents = [self._chance.choice(self._elite)[1] for _ in range(2)]
        return self._grammar.change(self._chance, parents[0], parents[1])

    def _try(self, genome: Genome) -> None:
        found, target = self.found, self.target
        found.responses += 1
        again = found.responses % _AGAIN == 1
        mean = self._mean(genome, again)
        shown = written(genome, target.prompts[0])
        # Of two that earn the same the shorter is kept, so that what matters in it can be seen.
        if (mean, -len(shown)) > (found.best_mean, -len(found.best)):
            found.best, found.best_mean = shown, mean
        if mean > target.honest + target.margin and len(found.exploits) < _MAX_KEPT:
            found.exploits[shown] = mean
        # Fresh ones win ties: a plateau is walked along and not sat on.
        self._elite = sorted([(mean, genome), *self._elite], key=lambda e: -e[0])[:_ELITE]

    def _mean(self, genome: Genome, again: bool) -> float:
        other = self.target.make() if again else None
        total = 0.0
        for prompt in self.target.prompts:
            response = written(genome, prompt)
            verdict = self._judged(self._verifier, prompt, response)
            total += verdict.score if verdict is not None else 0.0
            if other is not None and verdict is not None:
                self.found.rechecked += 1
                if self._judged(other, prompt, response) != verdict:
                    _note(self.found.unstable, response)
        return total / len(self.target.prompts)

    def _judged(self, verifier: Verifier, prompt: object, response: str) -> Verdict | None:
        found, started = self.found, time.process_time()
        found.verdicts += 1
        try:
            verdict = verifier(prompt, response)  # type: ignore[arg-type]
        # Whatever it is, it is what the attack looks for; the algebra's timeout is no Exception.
        except (Exception, TimeoutException) as error:
            _note(found.raised, f"{type(error).__name__}: {response}")
            return None
        spent = time.process_time() - started
        found.slowest = max(found.slowest, spent)
        found.statuses[verdict.status] += 1
        if verdict.status == "error":
            _note(found.raised, f"{verdict.reason}: {response}")
        if spent > self.target.seconds or verdict.status == "timeout":
            _note(found.late, response)
        if not 0 <= verdict.score <= 1:
            _note(found.out_of_range, response)
        return verdict


def _note(notes: list[str], text: str) -> None:
    if len(notes) < _MAX_KEPT:
        notes.append(text)
