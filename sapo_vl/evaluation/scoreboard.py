"""The scores of one validation or test: every metric of every task and sampling, over all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from sapo_vl.evaluation.headline import mean_of_tasks
from sapo_vl.evaluation.metrics import AvgAtN
from sapo_vl.evaluation.prompt_mean import PromptMean, is_valid
from sapo_vl.types import (
    SKIP_REASONS,
    Answers,
    PromptBatch,
    Sampling,
    Skip,
    VerdictStatus,
)

STATUSES: tuple[str, ...] = get_args(VerdictStatus)
COUNTED = ("prompts", "invalid", "responses", "truncated", "tokens", *STATUSES)
ALL = "all"  # every task together


class Counts(Metric):
    """Sums by name over all ranks."""

    sums: Tensor

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)
        zeros = torch.zeros(len(self.names), dtype=torch.int64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")

    def update(self, counts: Mapping[str, int]) -> None:
        """Add to some of the names."""
        for name, count in counts.items():
            self.sums[self.names.index(name)] += count

    def compute(self) -> dict[str, int]:
        """The sums."""
        return dict(zip(self.names, self.sums.tolist(), strict=True))


class Scoreboard:
    """Adds up answers and skipped samples; `compute` must be called on every rank.

    Args:
        samplings: how answers are drawn, by name.
        device: of the metrics' states.
        samples_per_task: task -> samples of each prompt, in place of the sampling's.
    """

    def __init__(
        self,
        samplings: Mapping[str, Sampling],
        device: torch.device,
        samples_per_task: Mapping[str, int] | None = None,
    ) -> None:
        self.samplings = dict(samplings)
        self.samples_per_task = dict(samples_per_task or {})
        self.device = device
        self.metrics: dict[tuple[str, str], list[PromptMean]] = {}
        self.counts: dict[tuple[str, str], Counts] = {}
        self.skips = Counts(SKIP_REASONS).to(device)
        self.headlines: dict[str, Sequence[str]] = {}

    def begin(self, batch: PromptBatch) -> bool:
        """Make the metrics of every task, the same on every rank; False: they are there already.

        Raises:
            ValueError: a metric needs more samples than any sampling draws.
        """
        if self.metrics:
            return False
        self.skips.update({})
        self.headlines = dict(batch.headlines)
        for task in (*batch.tasks, ALL):
            wanted: Sequence[Any] = batch.metrics.get(task) or (AvgAtN(),)
            samples = {name: self._samples(task, name) for name in self.samplings}
            most = max(samples.values())
            for metric in wanted:
                if metric.least_samples > most:
                    raise ValueError(
                        f"{metric.name} of task {task!r} needs {metric.least_samples} samples a"
                        f" prompt; the most that model.evaluation draws is {most}"
                    )
            for name in self.samplings:
                fitting = [m for m in wanted if m.least_samples <= samples[name]]
                self.metrics[task, name] = [
                    cast(PromptMean, metric.clone().to(self.device))
                    for metric in fitting or (AvgAtN(),)
                ]
                self.counts[task, name] = Counts(COUNTED).to(self.device)
                for added in self.metrics[task, name]:
                    added.update([])  # a rank may get no answer at all
                self.counts[task, name].update({})
        return True

    def _samples(self, task: str, sampling: str) -> int:
        return self.samples_per_task.get(task, self.samplings[sampling].group_size)

    def update(self, answers: Sequence[Answers]) -> None:
        """Add judged answers."""
        for task in {a.prompt.task for a in answers}:
            for name in self.samplings:
                part = [a for a in answers if a.prompt.task == task and a.sampling == name]
                for where in ((task, name), (ALL, name)) if part else ():
                    self.counts[where].update(_count(part))
                    for metric in self.metrics[where]:
                        metric.update(part)

    def skip(self, skipped: Iterable[Skip]) -> None:
        """Add samples that could not be used."""
        for skip in skipped:
            self.skips.update({skip.why: 1})

    def compute(self) -> dict[str, Any]:
        """Give ``tasks`` (task -> sampling -> scores), ``headlines``, ``all`` and ``skipped``.

        Scores are those of the first metric with its name, all ``metrics`` by name, ``categories``
        and ``counts``; every number is a float or an int. For headlines see `mean_of_tasks`; of
        ``all`` there are scores by sampling.
        """
        found: dict[str, dict[str, Any]] = {}
        for (task, name), metrics in self.metrics.items():
            results = {metric.name: _numbers(metric.compute()) for metric in metrics}
            categories: dict[str, Any] = {}
            for metric, result in results.items():
                for field, values in result.pop("categories").items():
                    for value, score in values.items():
                        by_value = categories.setdefault(field, {}).setdefault(value, {})
                        by_value[metric] = score
            found.setdefault(task, {})[name] = {
                "metric": metrics[0].name,
                **results[metrics[0].name],
                "metrics": results,
                "categories": categories,
                "counts": self.counts[task, name].compute(),
            }
        everything = found.pop(ALL, {})
        headlines = {
            name: {s: mean_of_tasks({t: found[t][s] for t in tasks}) for s in self.samplings}
            for name, tasks in self.headlines.items()
        }
        skipped = self.skips.compute()
        return {"tasks": found, "headlines": headlines, "all": everything, "skipped": skipped}


def _count(answers: Sequence[Answers]) -> dict[str, int]:
    verdicts = [verdict for a in answers for verdict in a.verdicts]
    counts = {
        "prompts": len(answers),
        "invalid": sum(not is_valid(a) for a in answers),
        "responses": len(verdicts),
        "truncated": sum(not finished for a in answers for finished in a.finished),
        "tokens": sum(length for a in answers for length in a.lengths),
    }
    return counts | {s: sum(v.status == s for v in verdicts) for s in STATUSES}


def _numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: int(entry) if key == "n" else _numbers(entry) for key, entry in value.items()}
    return float(value)
