"""Draw and judge the responses of an iteration, with spare prompts for groups that carry no signal.

Shape letters: P prompts, G group size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sapo_vl.advantage import informative_groups
from sapo_vl.rollout.merge import join, take
from sapo_vl.types import PromptBatch, Rollout, Verdict

Judged = tuple[Rollout, tuple[Verdict, ...], Tensor]  # rollout, verdicts, reward_PG


@dataclass(frozen=True, slots=True)
class Collected:
    """What an iteration trains on."""

    batch: PromptBatch
    rollout: Rollout
    verdicts: tuple[Verdict, ...]
    reward_PG: Tensor
    replaced: int = 0  # groups without signal whose place a spare's group took
    extra: int = 0  # spare prompts that were rolled out


def collect(
    batch: PromptBatch, draw: Callable[[PromptBatch], Judged], spare_prompts: int
) -> Collected:
    """Roll a batch out; a group without signal gives its place to a spare prompt of its task.

    ``spare_prompts`` of the batch are held back, each task's share of them. They are rolled out
    once, as many as are needed and there are, so that the extra cost is bounded; a spare whose
    group carries no signal either is dropped.
    """
    if not spare_prompts:
        return Collected(batch, *draw(batch))
    main, spares = hold_back([p.task for p in batch.prompts], spare_prompts)
    first = select(batch, main)
    rollout, verdicts, reward_PG = draw(first)
    uniform = (~informative_groups(reward_PG)).nonzero().squeeze(-1).tolist()
    wanted = [first.prompts[p].task for p in uniform]
    chosen = [i for i in spares if _still_wanted(batch.prompts[i].task, wanted)]
    if not chosen:
        return Collected(first, rollout, verdicts, reward_PG)
    second = select(batch, chosen)
    other, more_verdicts, more_reward_PG = draw(second)
    places = list(range(len(main)))  # position in both together, per place of the first batch
    for k in informative_groups(more_reward_PG).nonzero().squeeze(-1).tolist():
        task = second.prompts[k].task
        p = next(p for p in uniform if places[p] == p and first.prompts[p].task == task)
        places[p] = len(main) + k
    both = PromptBatch(
        first.prompts + second.prompts, first.inputs + second.inputs, batch.tasks, batch.skipped
    )
    g, all_verdicts = rollout.group_size, verdicts + more_verdicts
    return Collected(
        select(both, places),
        take(join(rollout, other), places),
        tuple(v for p in places for v in all_verdicts[p * g : (p + 1) * g]),
        torch.cat([reward_PG, more_reward_PG])[places],
        replaced=sum(p >= len(main) for p in places),
        extra=len(chosen),
    )


def hold_back(tasks: Sequence[str], spare_prompts: int) -> tuple[list[int], list[int]]:
    """Part a batch's prompts (by index) into those to train on and spares, task by task.

    Example: ``hold_back(["a", "b", "a", "b"], 2) == ([0, 1], [2, 3])``.

    Raises:
        ValueError: nothing would be left to train on.
    """
    if spare_prompts >= len(tasks):
        raise ValueError(
            f"model.spare_prompts is {spare_prompts}, a batch has {len(tasks)} prompts on this "
            "rank; raise data.prompts_per_iteration or lower model.spare_prompts"
        )
    seen: dict[str, int] = {}
    rank = []  # share of its task's prompts that come before it
    for task in tasks:
        rank.append((seen.get(task, 0) + 0.5) / tasks.count(task))
        seen[task] = seen.get(task, 0) + 1
    late = set(sorted(range(len(tasks)), key=lambda i: (rank[i], i))[len(tasks) - spare_prompts :])
    return [i for i in range(len(tasks)) if i not in late], sorted(late)


def select(batch: PromptBatch, prompts: Sequence[int]) -> PromptBatch:
    """These prompts of a batch, in this order."""
    return PromptBatch(
        [batch.prompts[i] for i in prompts],
        [batch.inputs[i] for i in prompts],
        batch.tasks,
        batch.skipped,
    )


def _still_wanted(task: str, wanted: list[str]) -> bool:
    if task not in wanted:
        return False
    wanted.remove(task)
    return True
