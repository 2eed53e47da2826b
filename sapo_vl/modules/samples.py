"""How many samples a task's prompts get in evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sapo_vl.modules.collect import select
from sapo_vl.types import PromptBatch, Sampling


def check_samples(samples_per_task: Mapping[str, int]) -> dict[str, int]:
    """Give the numbers of samples if each is at least 1.

    Raises:
        ValueError: one is smaller.
    """
    for task, number in samples_per_task.items():
        if number < 1:
            raise ValueError(f"model.samples_per_task: {task} has {number}; it must be at least 1")
    return dict(samples_per_task)


def by_samples(
    batch: PromptBatch, sampling: Sampling, samples_per_task: Mapping[str, int]
) -> list[tuple[PromptBatch, Sampling]]:
    """Part a batch into prompts that get the same number of samples, each part with its sampling.

    Args:
        batch: prompts of any tasks.
        sampling: how to draw; its ``group_size`` is for tasks that are not named.
        samples_per_task: task -> samples of each of its prompts.
    """
    wanted = [samples_per_task.get(p.task, sampling.group_size) for p in batch.prompts]
    return [
        (
            select(batch, [i for i, number in enumerate(wanted) if number == samples]),
            replace(sampling, group_size=samples),
        )
        for samples in sorted(set(wanted))
    ]
