"""The breakdown of combined verdicts in the log: the same names on every rank."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from sapo_vl.callbacks.means import gathered
from sapo_vl.callbacks.rewards import _parts
from sapo_vl.types import IterationOutput, Prompt, PromptBatch, Rollout, Verdict


def output(tasks: list[str], parts: list[dict[str, float]]) -> IterationOutput:
    """An iteration of one prompt a task with two responses each."""
    prompts = [Prompt(reference="", task=task) for task in tasks]
    zeros = torch.zeros(len(parts), 1)
    rollout = Rollout(
        group_size=2,
        response_ids_BT=zeros.long(),
        mask_BT=zeros.bool(),
        logp_BT=zeros,
        entropy_BT=zeros,
        finished_B=zeros[:, 0].bool(),
        texts=("",) * len(parts),
    )
    return IterationOutput(
        iteration=0,
        batch=PromptBatch(prompts, [], ["one", "two"]),
        rollout=rollout,
        verdicts=tuple(Verdict(score=0.0, parts=p) for p in parts),
        reward_PG=torch.zeros(len(tasks), 2),
        advantage_PG=torch.zeros(len(tasks), 2),
        old_logp_BT=zeros,
        scored_BT=zeros.bool(),
        weight_BT=None,
        updates=(),
        replaced=0,
        extra=0,
        seconds={},
    )


def test_parts_are_means_over_the_verdicts_that_have_them() -> None:
    found = _parts(output(["one", "two"], [{"a": 1.0}, {"a": 0.5, "b": 1.0}, {"c/d": 0.25}, {}]))
    assert found == {
        "reward/one/a": (1.5, 2),
        "reward/one/b": (1.0, 1),
        "reward/two/c/d": (0.25, 1),
    }
    assert _parts(output(["one"], [{}, {}])) == {}
    assert gathered(["x"]) == [["x"]]


def _rank(rank: int, port: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    own: list[Any] = [output(["one"], [{"a": 1.0}, {}]), output(["two"], [{"b": 0.5}, {"b": 0.0}])]
    names = {name: list(map(float, mean)) for name, mean in _parts(own[rank]).items()}
    torch.save(names, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_every_rank_has_every_name(tmp_path: Path) -> None:
    if not dist.is_gloo_available():
        pytest.skip("no gloo here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_rank, args=(port, str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert list(first) == list(second) == ["reward/one/a", "reward/two/b"]
    assert first == {"reward/one/a": [1, 1], "reward/two/b": [0, 0]}
    assert second == {"reward/one/a": [0, 0], "reward/two/b": [0.5, 2]}
