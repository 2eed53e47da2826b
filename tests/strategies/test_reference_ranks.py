"""A KL penalty under DDP, ZeRO and FSDP2 on two gloo processes against one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import zero_case
from project import ARCHITECTURE, Project
from test_zero import LAYERS, apart, assert_equal, launch
from zero_case import Case

from sapo_vl.policy.build import build_model
from sapo_vl.processor import load_processor

pytest.importorskip("deepspeed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def other(project: Project, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with other weights than the policy's, of the same architecture and tokenizer."""
    folder = tmp_path_factory.mktemp("other")
    tokenizer = load_processor(project.model).tokenizer
    build_model(ARCHITECTURE, tokenizer, folder, min_pixels=256, max_pixels=65536, seed=1)
    return str(folder)


def under_every_strategy(alone: Case) -> list[Case]:
    """The same under each; ZeRO-1 holds a second model as ZeRO-2 does."""
    cases = [replace(alone, name="ddp")]
    cases += [replace(alone, name=f"zero{stage}", stage=stage) for stage in (2, 3)]
    return [*cases, replace(alone, name="fsdp2", fsdp2=True)]


def assert_alike(result: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert_equal(result, wanted)
    for row, whole in zip(result["rows"], wanted["rows"], strict=True):
        assert row["kl"] <= whole["kl"] * (1 + 1e-3) + 1e-8  # rank 0 has half of the tokens


def test_a_second_model_equals_one_process_and_resumes_to_the_bit(
    project: Project, other: str, tmp_path: Path
) -> None:
    alone = Case("alone", project.model, kl=0.3, reference=other)
    wanted = zero_case.run(alone, tmp_path)
    without = zero_case.run(replace(alone, kl=0.0), tmp_path)
    assert apart(wanted, without) > 1e-3
    alike = under_every_strategy(alone)
    whole = replace(alone, name="whole", stage=2, optimizer="AdamW", lr=1e-3)
    broken = replace(whole, name="broken", stop=1, folder=str(tmp_path / "checkpoint"))
    got = launch([*alike, whole, broken], tmp_path)
    for case in alike:
        assert_alike(got[case.name], wanted)
    assert apart(got["whole"], got["broken"]) == 0
    assert got["whole"]["rows"] == got["broken"]["rows"]

    saved = tmp_path / "checkpoint/checkpoints/iteration-000001.ckpt/checkpoint"
    state = torch.load(saved / "mp_rank_00_model_states.pt", weights_only=False)["module"]
    assert {name.removeprefix("policy.model.") for name in state} == wanted["weights"].keys()


def test_adapters_off_equal_one_process(project: Project, tmp_path: Path) -> None:
    # SGD: the penalty's first gradients are rounding alone, which Adam would divide by its size.
    alone = Case("alone", project.model, lora=LAYERS, kl=3.0)
    wanted = zero_case.run(alone, tmp_path)
    without = zero_case.run(replace(alone, kl=0.0), tmp_path)
    assert apart(wanted, without) > 1e-4
    cases = under_every_strategy(alone)
    for result in launch(cases, tmp_path).values():
        assert_alike(result, wanted)


def test_the_second_model_computes_as_the_policy_does(project: Project, tmp_path: Path) -> None:
    """In half precision, offloaded, with gradient checkpointing; it starts as the same model."""
    half = Case("half", project.model, kl=0.3, iterations=1, precision="bf16-mixed")
    cases = [replace(case, name=f"half-{case.name}") for case in under_every_strategy(half)]
    whole = replace(half, name="offload", precision="32-true", stage=3, offload=True)
    cases += [whole, replace(whole, name="checkpointing", offload=False, checkpointing=True)]
    for name, result in launch(cases, tmp_path).items():
        first, second = result["rows"]
        assert first["kl"] < 1e-9, name
        assert second["kl"] > 1e-4, name
