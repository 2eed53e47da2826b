"""The base of every metric: a ratio of sums over prompts, on any number of ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat
from typing_extensions import override

from sapo_vl.evaluation.intervals import bootstrap_interval, cluster_sums, clustered_stderr
from sapo_vl.types import Answers, Prompt, Verdict

Row = tuple[str, Mapping[str, Sequence[str]], Sequence[float], float]


class PromptMean(Metric):
    """Mean over prompts of what `value` gives; a base class.

    ``compute`` gives ``{"mean", "stderr", "low", "high", "n"}`` as float64 scalars, and
    ``"categories"``: the same for every value of every category. ``update`` takes answers, or a
    [P, N] tensor of scores where that is all there is (each row then is a problem of its own).

    Attributes:
        name: what results call it.
        least_samples: samples a prompt must have; other samplings are not asked.
        broken_down: scores by category are given, too.
    """

    full_state_update = False
    name = "mean"
    least_samples = 1
    broken_down = True
    lines: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        # Rows as JSON lines in bytes: names of problems and categories travel between ranks, too.
        self.add_state("lines", [], dist_reduce_fx="cat")

    @property
    @override
    def dtype(self) -> torch.dtype:
        """Of the state: what a rank without any answer sends must have it, too."""
        return torch.uint8

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The values of one prompt's responses, summed into the mean."""
        raise NotImplementedError

    def weight(self, verdicts: Sequence[Verdict]) -> float:
        """What one prompt counts in the denominator."""
        return 1.0

    def combine(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Make rows of prompts into the rows to average."""
        return rows

    def update(self, answers: Sequence[Answers] | Tensor) -> None:
        """Add the judged answers to some prompts.

        Raises:
            ValueError: fewer samples than the metric needs.
        """
        if isinstance(answers, Tensor):
            answers = _bare(answers, sum(map(len, self.lines)))
        text = "".join(self._line(a) for a in answers if is_valid(a)).encode()
        # An empty buffer is refused; rows never begin with a blank line.
        part = torch.frombuffer(bytearray(text or b"\n"), dtype=torch.uint8)
        self.lines.append(part.to(self.device))

    def compute(self) -> dict[str, Any]:
        """Score everything that was added on any rank."""
        content = bytes(dim_zero_cat(self.lines).tolist()) if len(self.lines) else b""
        # The order of ranks must not change the last digits.
        lines = sorted(line for line in content.split(b"\n") if line)
        rows: list[Row] = [tuple(json.loads(line)) for line in lines]
        found: dict[str, dict[str, list[Row]]] = {}
        for row in rows if self.broken_down else ():
            for category, values in row[1].items():
                for value in values:
                    found.setdefault(category, {}).setdefault(value, []).append(row)
        categories = {
            category: {value: self._score(part) for value, part in sorted(values.items())}
            for category, values in found.items()
        }
        return {**self._score(rows), "categories": categories}

    def _line(self, answers: Answers) -> str:
        if len(answers.verdicts) < self.least_samples:
            raise ValueError(
                f"{self.name} needs {self.least_samples} samples a prompt; {answers.prompt.key!r}"
                f" has {len(answers.verdicts)}"
            )
        prompt = answers.prompt
        problem = f"{prompt.task}\n{prompt.problem or prompt.key}"
        categories = {name: list(values) for name, values in prompt.categories.items()}
        row = (problem, categories, self.value(answers.verdicts), self.weight(answers.verdicts))
        return json.dumps(row, separators=(",", ":")) + "\n"

    def _score(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        rows = self.combine(rows)
        sums = cluster_sums(
            [math.fsum(r[2]) for r in rows], [r[3] for r in rows], [r[0] for r in rows]
        )
        total = sums[1].sum()
        mean = sums[0].sum() / total if total else math.nan
        low, high = bootstrap_interval(*sums) if total else (math.nan, math.nan)
        stderr = clustered_stderr(*sums) if total else math.nan
        numbers = {"mean": mean, "stderr": stderr, "low": low, "high": high, "n": len(rows)}
        return {
            name: torch.tensor(float(number), dtype=torch.float64)
            for name, number in numbers.items()
        }


def is_valid(answers: Answers) -> bool:
    """False when the verifier could not read the reference: no answer can be right."""
    return all(v.status != "unparsable_reference" for v in answers.verdicts)


def _bare(score_PN: Tensor, start: int) -> list[Answers]:
    """Answers of which nothing but the score is known."""
    return [
        Answers(
            Prompt(reference="", key=f"{start}#{row}"),
            "",
            texts=[""] * len(scores),
            verdicts=[Verdict(score=score) for score in scores],
            lengths=[0] * len(scores),
            finished=[True] * len(scores),
        )
        for row, scores in enumerate(score_PN.tolist())
    ]
