from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from project import CoinVerifier, Project, trainer
from test_sapo_module import Keep

from sapo_vl.advantage import informative_groups
from sapo_vl.modules.collect import Judged, collect, hold_back
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Rollout, Sampling, Verdict

TASKS = ["a", "b", "a", "b", "a", "b", "a", "b"]


def batch(tasks: list[str]) -> PromptBatch:
    inputs = PromptInputs(
        input_ids_S=torch.zeros(1).long(), mm_token_type_ids_S=torch.zeros(1).long()
    )
    prompts = [Prompt(reference="1", task=t, key=str(i)) for i, t in enumerate(tasks)]
    return PromptBatch(prompts, [inputs] * len(tasks), ["a", "b"])


def drawer(uniform: set[str], calls: list[list[str]]) -> Callable[[PromptBatch], Judged]:
    """Draws groups of two that name their prompt; those of ``uniform`` keys get one reward."""

    def draw(part: PromptBatch) -> Judged:
        calls.append([p.key for p in part.prompts])
        keys = [int(p.key) for p in part.prompts for _ in range(2)]
        t = max(keys) + 1
        mask = torch.arange(t) <= torch.tensor(keys)[:, None]
        values = torch.tensor(keys)[:, None] * mask
        rollout = Rollout(
            group_size=2,
            response_ids_BT=values,
            mask_BT=mask,
            logp_BT=values.float(),
            entropy_BT=values.float(),
            finished_B=torch.ones(len(keys)).bool(),
            texts=tuple(f"{k}.{i % 2}" for i, k in enumerate(keys)),
        )
        reward = torch.tensor([[1.0, float(p.key in uniform)] for p in part.prompts])
        verdicts = tuple(
            Verdict(score=float(x), extracted=str(k))
            for x, k in zip(reward.flatten().tolist(), keys, strict=True)
        )
        return rollout, verdicts, reward

    return draw


def test_spares_are_held_back_task_by_task() -> None:
    main, spares = hold_back(TASKS, 4)
    assert (main, spares) == ([0, 1, 2, 3], [4, 5, 6, 7])
    tasks = ["a"] * 6 + ["b"] * 2
    main, spares = hold_back(tasks, 4)
    assert Counter(tasks[i] for i in spares) == {"a": 3, "b": 1}
    with pytest.raises(ValueError, match="spare_prompts is 8"):
        hold_back(TASKS, 8)


def test_a_group_without_signal_gives_its_place_to_one_of_its_task() -> None:
    calls: list[list[str]] = []
    got = collect(batch(TASKS), drawer({"0", "3"}, calls), spare_prompts=4)
    assert calls == [["0", "1", "2", "3"], ["4", "5"]]  # no more spares than are needed
    assert [p.key for p in got.batch.prompts] == ["4", "1", "2", "5"]
    assert (got.replaced, got.extra) == (2, 2)
    # Everything of a row moved with it.
    for row, text in enumerate(got.rollout.texts):
        key = got.batch.prompts[row // 2].key
        assert text.split(".")[0] == key == got.verdicts[row].extracted
        mask = got.rollout.mask_BT[row]
        assert int(mask.sum()) == int(key) + 1
        assert set(got.rollout.logp_BT[row][mask].tolist()) == {float(key)}
    assert informative_groups(got.reward_PG).all()


def test_a_spare_without_signal_is_dropped_and_the_cost_is_bounded() -> None:
    calls: list[list[str]] = []
    got = collect(batch(TASKS), drawer({"0", "2", "4", "1"}, calls), spare_prompts=4)
    assert calls[1:] == [["4", "5", "6"]]
    assert [p.key for p in got.batch.prompts] == ["6", "5", "2", "3"]
    assert (got.replaced, got.extra) == (2, 3)


def test_nothing_is_drawn_again_when_every_group_carries_signal() -> None:
    calls: list[list[str]] = []
    got = collect(batch(TASKS), drawer(set(), calls), spare_prompts=4)
    assert len(calls) == 1
    assert (len(got.batch), got.replaced, got.extra) == (4, 0, 0)
    calls.clear()
    assert len(collect(batch(TASKS), drawer({"0"}, calls), spare_prompts=0).batch) == 8


def test_training_with_spares(project: Project, tmp_path: Path) -> None:
    def run(**changes: Any) -> Keep:
        keep = Keep()
        module = project.sapo(sampling=Sampling(group_size=2, max_new_tokens=2), **changes)
        data = project.data(tasks=project.tasks(verifier=CoinVerifier()), prompts_per_iteration=16)
        trainer(tmp_path, max_steps=6, callbacks=[keep]).fit(module, data)
        return keep

    plain, spared = run(), run(spare_prompts=8)
    for output in spared.outputs:
        assert len(output.batch) == 8
        assert output.replaced <= output.extra <= 8
        assert Counter(p.task for p in output.batch.prompts) == {
            "leftmost_colour": 4,
            "count_colour": 4,
        }
    assert sum(o.replaced for o in spared.outputs) > 0
    assert sum(o.extra for o in plain.outputs) == 0

    def informative(keep: Keep) -> float:
        return float(
            torch.cat([informative_groups(o.reward_PG) for o in keep.outputs]).float().mean()
        )

    assert informative(spared) > informative(plain)
