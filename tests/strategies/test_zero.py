"""ZeRO 1, 2 and 3 on two gloo processes against one process without DeepSpeed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import zero_case
from project import Project
from zero_case import Case

pytest.importorskip("deepspeed")
TESTS = Path(__file__).resolve().parents[1]
LAYERS = ["q_proj", "v_proj", "down_proj"]


def launch(cases: list[Case], out: Path, hosts: int = 1) -> dict[str, dict[str, Any]]:
    """Run the cases one after the other on two ranks; results of rank 0 by name.

    With two ``hosts`` each rank has a torchrun of its own; they meet on the loopback device.
    """
    zero_case.dump(cases, out)
    environment = os.environ | {
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(hosts)]
    command += ["--nproc-per-node", str(2 // hosts), "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test"]
    command += [str(TESTS / "strategies/zero_case.py"), str(out)]
    log = out / "log.txt"
    with log.open("w") as file:
        groups = [
            subprocess.Popen(
                command, env=environment, stdout=file, stderr=file, start_new_session=True
            )
            for _ in range(hosts)
        ]
        try:  # ranks that hang would do so for ever
            codes = [group.wait(timeout=240 + 60 * len(cases)) for group in groups]
        finally:
            for group in groups:
                if group.poll() is None:
                    os.killpg(group.pid, signal.SIGKILL)
    assert codes == [0] * hosts, log.read_text()[-5000:]
    found = {}
    for case in cases:
        ranks = [torch.load(out / f"{case.name}-{rank}.pt", weights_only=True) for rank in (0, 1)]
        assert apart(*ranks) == 0
        found[case.name] = ranks[0]
    return found


def apart(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Largest difference of any weight, also as a vLLM server would get them."""
    found = 0.0
    for kind in ("weights", "published") if "published" in a and "published" in b else ("weights",):
        assert a[kind].keys() == b[kind].keys()
        found = max(found, *(float((a[kind][k] - b[kind][k]).abs().max()) for k in a[kind]))
    return found


def assert_equal(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert apart(got, wanted) < 2e-6
    for row, other in zip(got["rows"], wanted["rows"], strict=True):
        assert row["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
        assert row["lr"] == pytest.approx(other["lr"])


def test_iterations_under_zero_equal_one_process(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model)
    wanted = zero_case.run(alone, tmp_path)
    start = project.policy().model.state_dict()
    # The comparison below would be blind to lost gradients and to clipping if these failed.
    assert max(float((wanted["weights"][k] - start[k]).abs().max()) for k in start) > 1e-2
    assert min(row["grad_norm"] for row in wanted["rows"]) > 2 * alone.clip
    got = launch([replace(alone, name=f"zero{s}", stage=s) for s in (1, 2, 3)], tmp_path)
    for result in got.values():
        assert_equal(result, wanted)


@pytest.mark.slow
def test_fine_tuning_accumulates_over_batches_as_one_process_does(
    project: Project, tmp_path: Path
) -> None:
    # A gradient that is clipped hides a wrong scale, one that is not hides a clip that is left out.
    clipped = Case("clipped", project.model, accumulate=3, clip=0.2)
    whole = replace(clipped, name="whole", clip=0)
    wanted = {case.name: zero_case.run(case, tmp_path) for case in (clipped, whole)}
    assert apart(wanted["clipped"], wanted["whole"]) > 1e-2
    cases = {
        f"{case.name}-{stage}": replace(case, name=f"{case.name}-{stage}", stage=stage)
        for case in (clipped, whole)
        for stage in (0, 1, 2, 3)  # 0: DDP
    }
    for name, result in launch(list(cases.values()), tmp_path).items():
        assert apart(result, wanted[name.split("-")[0]]) < 2e-6, name


@pytest.mark.slow
def test_a_resumed_run_ends_as_the_unbroken_one(project: Project, tmp_path: Path) -> None:
    cases = []
    for stage in (1, 2, 3):
        whole = Case(f"whole{stage}", project.model, stage=stage, optimizer="AdamW", lr=1e-3)
        folder = str(tmp_path / f"checkpoint{stage}")
        cases += [whole, replace(whole, name=f"broken{stage}", stop=1, folder=folder)]
    got = launch(cases, tmp_path)
    for stage in (1, 2, 3):
        whole, broken = got[f"whole{stage}"], got[f"broken{stage}"]
        assert apart(whole, broken) == 0
        assert [row["iteration"] for row in broken["rows"]] == [0, 0, 1, 1]
        assert whole["rows"] == broken["rows"]


@pytest.mark.slow
def test_adapters_under_zero_equal_one_process_and_resume_to_the_bit(
    project: Project, tmp_path: Path
) -> None:
    alone = Case("alone", project.model, lora=LAYERS, optimizer="AdamW", lr=1e-2)
    wanted = zero_case.run(alone, tmp_path)
    start = project.policy().model.state_dict()
    cases = []
    for stage in (2, 3):
        whole = replace(alone, name=f"whole{stage}", stage=stage)
        folder = str(tmp_path / f"checkpoint{stage}")
        cases += [whole, replace(whole, name=f"broken{stage}", stop=1, folder=folder)]
    got = launch(cases, tmp_path)
    for stage in (2, 3):
        whole, broken = got[f"whole{stage}"], got[f"broken{stage}"]
        assert apart(whole, wanted) < 2e-6
        for name, value in whole["weights"].items():
            if ".lora_B." in name:
                assert value.abs().max() > 1e-3, name  # it starts at 0
            elif ".lora_A." not in name:
                assert torch.equal(value, start[name.replace(".base_layer", "")]), name
        assert apart(whole, broken) == 0
        assert [row["iteration"] for row in broken["rows"]] == [0, 0, 1, 1]
        assert whole["rows"] == broken["rows"]


@pytest.mark.slow
def test_adapters_in_half_precision_resume_to_the_bit(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model, lora=LAYERS, optimizer="AdamW", lr=1e-2)
    names = [(stage, precision) for stage in (2, 3) for precision in ("bf16-mixed", "bf16-true")]
    cases = []
    for stage, precision in names:
        whole = replace(alone, name=f"whole{stage}-{precision}", stage=stage, precision=precision)
        folder = str(tmp_path / f"checkpoint{stage}-{precision}")
        cases += [whole, replace(whole, name=f"broken{stage}-{precision}", stop=1, folder=folder)]
    got = launch(cases, tmp_path)
    for stage, precision in names:
        whole, broken = got[f"whole{stage}-{precision}"], got[f"broken{stage}-{precision}"]
        assert apart(whole, broken) == 0
        assert whole["rows"] == broken["rows"]


@pytest.mark.slow
def test_frozen_parts_stay_bit_equal(project: Project, tmp_path: Path) -> None:
    freeze = ["vision", "merger"]
    alone = Case("alone", project.model, freeze=freeze)
    wanted = zero_case.run(alone, tmp_path)
    got = launch([replace(alone, name=f"zero{s}", stage=s) for s in (2, 3)], tmp_path)
    start = project.policy().model.state_dict()
    for result in got.values():
        assert_equal(result, wanted)
        moved = {k for k, v in result["weights"].items() if not torch.equal(v, start[k])}
        assert moved
        assert not any("visual" in name for name in moved)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl_moe", "qwen3_5"])
def test_other_families_under_zero_3(
    model_folder: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    alone = Case("alone", str(model_folder(family)))  # their heads are not tied
    wanted = zero_case.run(alone, tmp_path)
    got = launch([replace(alone, name="zero3", stage=3)], tmp_path)
    assert_equal(got["zero3"], wanted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a video's missing frame rate
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl_moe"])
def test_a_rank_with_videos_does_not_wait_for_one_without(
    model_folder: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    alone = Case("alone", str(model_folder(family)), videos=True)
    wanted = zero_case.run(alone, tmp_path)
    for result in launch([replace(alone, name="zero3", stage=3)], tmp_path).values():
        assert_equal(result, wanted)


@pytest.mark.slow
def test_gradient_checkpointing_and_offload_change_nothing(
    project: Project, tmp_path: Path
) -> None:
    alone = Case("alone", project.model)
    wanted = zero_case.run(alone, tmp_path)
    checkpointed = replace(alone, name="checkpointed", stage=3, checkpointing=True)
    offloaded = [replace(alone, name=f"offload{s}", stage=s, offload=True) for s in (1, 2, 3)]
    for result in launch([checkpointed, *offloaded], tmp_path).values():
        assert_equal(result, wanted)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("ninja"), reason="no compiler")
def test_adamw_steps_alike_where_states_are_offloaded(project: Project, tmp_path: Path) -> None:
    """Under offload it becomes DeepSpeed's own for CPUs, which is compiled at its first use."""
    cases = []
    for stage in (1, 2, 3):
        adam = Case(f"zero{stage}", project.model, optimizer="AdamW", lr=1e-3, stage=stage)
        cases += [adam, replace(adam, name=f"offload{stage}", offload=True)]
    got = launch(cases, tmp_path)
    for stage in (1, 2, 3):
        assert apart(got[f"offload{stage}"], got[f"zero{stage}"]) < 2e-6, stage


@pytest.mark.slow
def test_half_precision_stays_near_float32(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model, iterations=1)
    wanted = zero_case.run(alone, tmp_path)
    cases = [
        replace(alone, name=f"zero{s}-{precision}", stage=s, precision=precision)
        for s in (1, 2, 3)
        for precision in ("bf16-true", "bf16-mixed")
    ]
    for name, result in launch(cases, tmp_path).items():
        # Responses may differ by a rounded draw: norms are near, not equal.
        norm = result["rows"][0]["grad_norm"]
        assert norm == pytest.approx(wanted["rows"][0]["grad_norm"], rel=0.5), name
        assert 0 < apart(result, wanted) < 0.05, name
        for key, frequencies in wanted["rotary"].items():
            assert torch.equal(result["rotary"][key], frequencies), name


@pytest.mark.slow
def test_random_weights_under_zero_3(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model, weights="random", lr=0)
    wanted = zero_case.run(alone, tmp_path)["weights"]
    got = launch([replace(alone, name="zero3", stage=3)], tmp_path)["zero3"]["weights"]
    for name, weight in wanted.items():  # drawn in another order, from the same distributions
        assert float(got[name].std()) == pytest.approx(float(weight.std()), rel=0.3), name


@pytest.mark.slow
def test_two_hosts(project: Project, tmp_path: Path) -> None:
    alone = Case("alone", project.model, iterations=1)
    wanted = zero_case.run(alone, tmp_path)
    for result in launch([replace(alone, name="hosts", stage=3)], tmp_path, hosts=2).values():
        assert_equal(result, wanted)
