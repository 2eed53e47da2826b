"""FSDP2 on two gloo processes against one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import zero_case
from project import Project
from test_zero import LAYERS, apart, assert_equal, launch
from zero_case import Case

from sapo_vl.export import export_checkpoint
from sapo_vl.policy import Policy, PolicyConfig

pytestmark = pytest.mark.slow


def test_iterations_equal_one_process_and_resume_to_the_bit(
    project: Project, tmp_path: Path
) -> None:
    alone = Case("alone", project.model)
    wanted = zero_case.run(alone, tmp_path)
    adam = replace(alone, name="whole", fsdp2=True, optimizer="AdamW", lr=1e-3)
    broken = replace(adam, name="broken", stop=1, folder=str(tmp_path / "checkpoint"))
    first = replace(adam, name="first", iterations=1)
    got = launch([replace(alone, name="fsdp2", fsdp2=True), adam, broken, first], tmp_path)
    assert_equal(got["fsdp2"], wanted)
    assert apart(got["whole"], got["broken"]) == 0
    assert got["whole"]["rows"] == got["broken"]["rows"]
    assert [row["iteration"] for row in got["broken"]["rows"]] == [0, 0, 1, 1]

    # What is saved after the first iteration is exported as any other checkpoint.
    export_checkpoint(tmp_path / "checkpoint/checkpoints/iteration-000001.ckpt", tmp_path / "hf")
    exported = Policy(PolicyConfig(path=str(tmp_path / "hf"))).model.state_dict()
    assert apart({"weights": exported}, got["first"]) == 0


def test_adapters_fine_tuning_and_checkpointing_equal_one_process(
    project: Project, tmp_path: Path
) -> None:
    base = Case("base", project.model)
    cases = [
        replace(base, name="lora", lora=LAYERS, optimizer="AdamW", lr=1e-2),
        replace(base, name="fine-tuning", accumulate=3, clip=0.2),
        replace(base, name="fine-tuning whole", accumulate=3, clip=0),
        replace(base, name="checkpointing", checkpointing=True),
        replace(base, name="frozen", freeze=["vision", "merger"]),
    ]
    wanted = {case.name: zero_case.run(case, tmp_path) for case in cases}
    for name, result in launch([replace(c, fsdp2=True) for c in cases], tmp_path).items():
        assert_equal(result, wanted[name])


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl_moe", "qwen3_5"])
def test_other_families(model_folder: Callable[[str], Path], tmp_path: Path, family: str) -> None:
    alone = Case("alone", str(model_folder(family)))  # their heads are not tied
    wanted = zero_case.run(alone, tmp_path)
    got = launch([replace(alone, name="fsdp2", fsdp2=True)], tmp_path)
    assert_equal(got["fsdp2"], wanted)


def test_half_precision_stays_near_float32(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model, iterations=1)
    wanted = zero_case.run(alone, tmp_path)
    half = replace(alone, name="half", fsdp2=True, precision="bf16-mixed")
    result = launch([half], tmp_path)["half"]
    norm = result["rows"][0]["grad_norm"]
    assert norm == pytest.approx(wanted["rows"][0]["grad_norm"], rel=0.5)
    assert 0 < apart(result, wanted) < 0.05
    for key, frequencies in wanted["rotary"].items():
        assert torch.equal(result["rotary"][key], frequencies), key
