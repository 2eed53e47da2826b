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
from sapo_vl.plan import load_architecture, meta_model, states
from sapo_vl.plan.counts import Adapters, count
from sapo_vl.plan.sharding import Sharding
from sapo_vl.plan.states import Numbers
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


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_ranks_hold_what_the_first_has_loaded(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    families = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5")
    still = {"lr": 0.0, "iterations": 1}  # what is loaded is what is there at the end
    cases = [Case(family, str(model_folder(family)), **still) for family in families]
    tied = str(model_folder("qwen3_vl"))
    cases += [
        Case("random", tied, weights="random", **still),
        Case("lora", tied, lora=LAYERS, **still),
        Case("frozen", tied, freeze=["vision"], **still),
    ]
    wanted = {case.name: zero_case.run(case, tmp_path) for case in cases}
    launch([replace(c, fsdp2=True) for c in cases], tmp_path)
    for name, rank in ((case.name, rank) for case in cases for rank in (0, 1)):
        result = torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True)
        for kind in ("weights", "published", "rotary"):
            assert result[kind].keys() == wanted[name][kind].keys(), name
            for key, value in wanted[name][kind].items():
                assert torch.equal(result[kind][key], value), (name, rank, kind, key)


def test_each_rank_holds_what_the_plan_says(project: Project, tmp_path: Path) -> None:
    base = Case("full", project.model, fsdp2=True, optimizer="AdamW", lr=1e-3, iterations=1)
    cases = [
        base,
        replace(base, name="frozen", freeze=["vision", "merger"]),
        replace(base, name="lora", lora=LAYERS),
        replace(base, name="half", precision="bf16-mixed"),
    ]
    launch(cases, tmp_path)
    for case in cases:
        counts = count(
            meta_model(load_architecture(project.model)),
            case.freeze,  # type: ignore[arg-type]
            Adapters(rank=4, targets=tuple(LAYERS)) if case.lora else None,
        )
        gathered = 2 if case.name == "half" else 4
        numbers = Numbers(weight=4, gathered=gathered, trained=4, moments=2)
        given = (counts, numbers, Sharding(ranks=2, fsdp2=True))
        wanted = {
            "weights": states.weights(*given),
            "gradients": states.gradients(*given),
            "optimizer": states.optimizer_states(*given),
            "unreduced": states.unreduced(counts, given[-1]),
            "whole": states.gathered_whole(*given),
        }
        for rank in (0, 1):
            held = torch.load(tmp_path / f"{case.name}-{rank}.pt", weights_only=True)["held"]
            assert held.keys() == wanted.keys()
            for name, number in wanted.items():
                # Rows that do not divide by two are one rank's.
                assert held[name] == pytest.approx(number, rel=5e-3), (case.name, rank, name)


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
