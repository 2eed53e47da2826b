from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from models import build_folder

from sapo_vl.plan import command
from sapo_vl.plan.architecture import published_parameters
from sapo_vl.plan.plan import gpu_bytes, largest, make_plan
from sapo_vl.plan.settings import read_settings
from sapo_vl.plan.sharding import STRATEGIES, Sharding, read_sharding
from sapo_vl.plan.sizes import page

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
FILES = ("base.yaml", "model/qwen3_vl_8b.yaml", "data/example.yaml")
ZERO2 = {
    "trainer": {
        "strategy": {
            "class_path": "lightning.pytorch.strategies.DeepSpeedStrategy",
            "init_args": {"stage": 2},
        }
    }
}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plan needs no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(ROOT)


def arguments(*more: str) -> list[str]:
    return [x for name in FILES for x in ("--config", str(CONFIGS / name))] + list(more)


def written(tmp_path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    target = tmp_path / "plan" / "plan.json"
    code = command.main(arguments("--json", str(target), *more))
    return code, json.loads(target.read_text())


def overlay(tmp_path: Path, content: dict[str, Any]) -> tuple[str, str]:
    path = tmp_path / "overlay.yaml"
    path.write_text(yaml.safe_dump(content))
    return "--config", str(path)


def test_a_plan_of_an_8b(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = written(tmp_path, *overlay(tmp_path, ZERO2))
    assert code == 0
    assert plan["fits"]
    assert plan["ranks"] == 8
    assert plan["states"]["weights"] == 2 * 8_767_123_696
    assert plan["states"]["optimizer"] == 12 * 8_190_735_360 // 8
    assert plan["states"]["gradients"] == 2 * 8_190_735_360 // 8
    work = plan["arithmetic"]
    # 64 prompts over 8 ranks, 16 responses each; a group of the longest is a micro-batch.
    assert (work["prompts"], work["responses"], work["micro_batches"]) == (8, 128, [4, 4])
    assert work["update_tokens"] == 8 * (4096 + 16 * 2048)
    assert work["rollout_tokens"] == 8 * (4096 + 16 * 2048)
    assert (work["iterations"], work["prompts_of_run"]) == (500, 32_000)
    assert plan["micro_batch"]["total_tokens"] == 4096 + 16 * 2048
    assert plan["lengths"]["image"] == 1_048_576 // 32**2
    printed = capsys.readouterr().out
    assert "Fits" in printed
    assert "~ communication" in printed


def test_world_size_memory_and_settings_can_be_said(tmp_path: Path) -> None:
    strategy = overlay(tmp_path, ZERO2)
    code, plan = written(tmp_path, *strategy, "--world-size", "1", "--gpu-memory", "40")
    assert code == 1
    assert not plan["fits"]
    assert plan["ranks"] == 1
    assert plan["memory"] == gpu_bytes(40)
    _, plan = written(tmp_path, *strategy, "--model.sampling.group_size", "4")
    assert plan["arithmetic"]["responses"] == 32
    _, plan = written(tmp_path, *strategy, "--prompt-tokens", "300", "--response-tokens", "64")
    assert plan["lengths"] == {"prompt": 300, "image": 300, "response": 64}


def test_a_rollout_of_servers_takes_nothing_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zero3 = ("--config", str(CONFIGS / "strategy/zero3.yaml"))
    _, in_process = written(tmp_path, *zero3)
    _, servers = written(tmp_path, *zero3, "--config", str(CONFIGS / "rollout/vllm.yaml"))
    assert in_process["states"]["whole"] == 2 * 8_767_123_696
    assert (servers["states"]["whole"], servers["rollout"]["peak"]) == (0, 0)
    assert servers["peaks"]["update"] == in_process["peaks"]["update"]
    assert f"vLLM servers hold {2 * 8_767_123_696 / 2**30:.2f} of weights" in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )


def test_a_kl_penalty_takes_a_second_model_and_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = 2 * 8_767_123_696
    kl = ("--model.kl.beta", "0.001")
    zero = {stage: ("--config", str(CONFIGS / f"strategy/zero{stage}.yaml")) for stage in (2, 3)}
    _, without = written(tmp_path, *zero[2])
    assert without["states"]["reference"] == without["arithmetic"]["reference_tokens"] == 0
    assert "reference policy" not in capsys.readouterr().out
    _, plan = written(tmp_path, *zero[2], *kl)
    assert plan["states"]["reference"] == model
    for phase, peak in without["peaks"].items():
        assert plan["peaks"][phase] == peak + model
    assert plan["arithmetic"]["reference_tokens"] == 8 * (4096 + 16 * 2048)
    printed = capsys.readouterr().out
    assert f"{model / 2**30:.2f}" in printed
    assert "tokens of the reference policy" in printed

    _, split = written(tmp_path, *zero[3], *kl)
    assert split["states"]["reference"] == model // 8
    offload = ("--config", str(CONFIGS / "strategy/zero3_offload.yaml"))
    cpu = [written(tmp_path, *offload, *more)[1]["states"] for more in ((), kl)]
    assert cpu[1]["reference"] == 0
    assert cpu[1]["cpu"] == cpu[0]["cpu"] + model // 8

    lora = ("--config", str(CONFIGS / "lora.yaml"))
    _, adapters = written(tmp_path, *zero[2], *lora, *kl)
    assert adapters["states"]["reference"] == 0  # the base with the adapters off
    assert adapters["arithmetic"]["reference_tokens"] == 8 * (4096 + 16 * 2048)
    smaller = ("--model.reference_path", "Qwen/Qwen3-VL-2B-Instruct")
    _, other = written(tmp_path, *zero[2], *kl, *smaller)
    assert other["states"]["reference"] == 2 * published_parameters(smaller[1])


def test_fsdp2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p, trained = 8_767_123_696, 8_190_735_360
    code, plan = written(tmp_path, "--config", str(CONFIGS / "strategy/fsdp2.yaml"))
    assert code == 0
    held = plan["states"]
    assert (held["weights"], held["gradients"]) == (4 * p // 8, 4 * trained // 8)
    assert (held["optimizer"], held["whole"]) == (8 * trained // 8, 2 * p)
    assert held["unreduced"] == 4 * trained  # four micro-batches an update
    assert plan["strategies"]["fsdp2"] == plan["peaks"]
    _, other = written(tmp_path, "--config", str(CONFIGS / "strategy/zero3.yaml"))
    assert other["strategies"]["fsdp2"] == plan["peaks"]
    assert plan["strategies"]["zero3"] == other["peaks"]
    assert "8 GPUs, FSDP2" in capsys.readouterr().out
    one = ("--model.micro_batch.responses=64", "--model.micro_batch.tokens=0")
    _, plan = written(tmp_path, "--config", str(CONFIGS / "strategy/fsdp2.yaml"), *one)
    assert plan["states"]["unreduced"] == 0


def test_the_largest_is_the_largest(tmp_path: Path) -> None:
    run = read_settings(arguments(*overlay(tmp_path, ZERO2)))
    plan, memory = make_plan(run), gpu_bytes(80)
    most = largest(plan, memory)

    def peak(phase: str, *changes: str) -> int:
        changed = read_settings(arguments(*overlay(tmp_path, ZERO2), *changes))
        return make_plan(changed).peaks[phase]

    def micro(responses: int) -> int:
        return peak(
            "update",
            "--model.micro_batch.tokens=0",
            f"--model.micro_batch.responses={responses}",
        )

    assert micro(most.responses) <= memory < micro(most.responses + 1)

    def rollout(rows: int) -> int:
        return peak(
            "rollout",
            "--data.prompts_per_iteration=512",  # enough to fill a pass
            "--model.rollout=sapo_vl.rollout.Sampler",
            f"--model.rollout.max_rows={rows}",
        )

    assert rollout(most.rows) <= memory < rollout(most.rows + 1)


def test_the_samplers_limits_bound_the_cache(tmp_path: Path) -> None:
    """8 prompts of 4096 tokens and 16 responses of 2048 to each, on each of 8 ranks."""

    def rollout(*limits: str) -> tuple[int, int]:
        sampler = ("--model.rollout=sapo_vl.rollout.Sampler", *limits)
        _, plan = written(tmp_path, *overlay(tmp_path, ZERO2), *sampler)
        return plan["arithmetic"]["passes"], plan["rollout"]["cache"]

    token = 2 * 8 * 128 * 2  # of one layer: keys and values, 8 heads of 128 in two bytes
    # by max_rows, max_tokens: passes, prompts in the largest and responses to each
    for rows, tokens, passes, prompts, group in [
        (256, 0, 1, 8, 16),
        (64, 0, 2, 4, 16),
        (256, 3 * (4096 + 16 * 2048), 3, 3, 16),
        (256, 4096 + 5 * 2048, 28, 1, 5),  # 5 of each group three times, then 1 of two groups
        (8, 10**9, 16, 1, 8),
    ]:
        limits = (f"--model.rollout.max_rows={rows}", f"--model.rollout.max_tokens={tokens}")
        new = prompts * group * 2048
        assert rollout(*limits) == (passes, token * (36 * (prompts * 4096 + new) + new))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--world-size", "7"], "data.prompts_per_iteration is 64; with 7 ranks"),
        (["--world-size", "64"], "cannot be dealt into 2 updates"),
        (["--model.spare_prompts", "8"], "model.spare_prompts is 8"),
        (["--model.policy.path", "Qwen/Qwen9-VL"], "no published architecture"),
        (
            ["--model.kl.beta", "1", "--model.reference_path", "Qwen/Qwen9-VL"],
            "model.reference_path is 'Qwen/Qwen9-VL'",
        ),
        (["--trainer.strategy", "fsdp"], "the plan knows DeepSpeed, DDP"),
        (["--trainer.strategy", "zorro"], "no strategy 'zorro'"),
        (["--model", "sapo_vl.modules.SFTModule"], "SAPOModule"),
    ],
)
def test_what_cannot_be_planned_is_said(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments(*more)) == 2
    assert message in capsys.readouterr().err


def test_a_local_folder(tmp_path: Path) -> None:
    folder = build_folder("qwen3_vl", tmp_path / "model")
    _, plan = written(tmp_path, "--model.policy.path", str(folder))
    counted = sum(part["total"] for part in plan["parameters"].values())
    assert plan["states"]["weights"] == 2 * counted


def test_linear_attention_shares_no_prefix(tmp_path: Path) -> None:
    _, plan = written(tmp_path, "--model.policy.path", "Qwen/Qwen3.5-9B")
    assert not plan["packed"]
    size = plan["micro_batch"]
    assert size["total_tokens"] == size["rows"] * (4096 + 2048)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("deepspeed_stage_3_offload", Sharding(ranks=4, stage=3, offload_optimizer=True)),
        ("ddp", Sharding(ranks=4)),
        ("auto", Sharding(ranks=4)),
    ],
)
def test_strategies_by_name(strategy: str, expected: Sharding) -> None:
    found = read_sharding(strategy, 4)
    assert (found.ranks, found.stage, found.offload_optimizer) == (
        expected.ranks,
        expected.stage,
        expected.offload_optimizer,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategy_files_are_what_the_plan_takes_them_for(name: str) -> None:
    file = CONFIGS / "strategy" / f"{name}.yaml"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    found = read_settings(arguments("--config", str(file))).sharding
    assert found == replace(STRATEGIES[name], ranks=8)


def test_the_page_is_up_to_date() -> None:
    text = page(sorted((CONFIGS / "model").glob("*.yaml")))
    written = (ROOT / "docs" / "sizes.md").read_text(encoding="utf-8")
    assert written == text, "run: python scripts/size_table.py"


def test_the_script_runs_from_a_checkout(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "plan.py"), *arguments("--world-size", "7")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    assert done.returncode == 2
    assert "multiple of 7" in done.stderr
