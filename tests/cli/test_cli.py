from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import Project
from small_config import config, printed, write

ROOT = Path(__file__).resolve().parents[2]
MODELS = (
    "qwen2_5_vl_3b qwen2_5_vl_7b qwen2_5_vl_32b qwen2_5_vl_72b qwen3_vl_2b qwen3_vl_4b qwen3_vl_8b"
    " qwen3_vl_32b qwen3_vl_30b_a3b qwen3_vl_235b_a22b qwen3_5_0_8b qwen3_5_2b qwen3_5_4b"
    " qwen3_5_9b qwen3_5_27b qwen3_5_35b_a3b qwen3_5_122b_a10b qwen3_5_397b_a17b"
).split()
OBJECTIVES = "sapo sapo_sharp sapo_stale grpo dapo dr_grpo gspo cispo".split()
EVAL = """aime24 aime25 algopuzzlevqa beyondaime chartqa countbench docvqa dynamath emma geometry3k
    gsm8k hmmt25 livecodebench_v6 logicvista logicvista_judge math500 mathverse mathverse_judge
    mathvision mathvision_testmini mathvista mathvista_judge mmmu mmmu_pro puzzlevqa refcoco
    visulogic wemath zebralogic""".split()


def test_configs_compose_and_one_field_can_be_overridden_alone(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(config(project, tmp_path), tmp_path / "a.yaml")
    second = write(
        {"model": {"init_args": {"sampling": {"max_new_tokens": 9}}}}, tmp_path / "b.yaml"
    )
    args = ["fit", "--config", first, "--config", second, "--model.sampling.group_size=6"]
    sampling = printed(args, capsys)["model"]["init_args"]["sampling"]
    assert sampling == {
        "group_size": 6,
        "temperature": 0.9,
        "top_p": 1.0,
        "top_k": 0,
        "presence_penalty": 0.0,
        "max_new_tokens": 9,
    }


@pytest.mark.parametrize(
    "files",
    [
        ["quickstart/cold_start.yaml"],
        ["quickstart/sapo.yaml"],
        ["quickstart/test.yaml"],
        ["base.yaml", "model/qwen3_vl_8b.yaml", "lora.yaml", "data/example.yaml"],
        ["base.yaml", "model/qwen3_vl_8b.yaml", "strategy/zero2.yaml", "data/example.yaml"],
        ["base.yaml", "model/qwen3_vl_8b.yaml", "rollout/vllm.yaml", "data/example.yaml"],
        *(["base.yaml", f"model/{name}.yaml", "data/example.yaml"] for name in MODELS),
        *(
            ["base.yaml", "model/qwen3_vl_8b.yaml", "data/example.yaml", f"objective/{name}.yaml"]
            for name in OBJECTIVES
        ),
    ],
    ids=lambda files: "+".join(files),
)
def test_every_config_of_the_repository_parses(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    args = [x for name in files for x in ("--config", f"configs/{name}")]
    content = printed(["fit", *args], capsys)
    assert content["model"]["init_args"]["policy"]["path"]
    assert content["data"]["init_args"]["tasks"]
    if files[0] == "base.yaml":  # the model's pixel budget stays where the data says none
        own = yaml.safe_load((ROOT / "configs" / files[1]).read_text())["data"]["init_args"]
        assert {key: content["data"]["init_args"][key] for key in own} == own


def test_evaluation_configs_compose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file by itself is read in tests/benchmarks; here the command line puts some together."""
    monkeypatch.chdir(ROOT)
    files = ["eval/sapo_paper", "eval/chartqa", "eval/sampling/thinking"]
    args = [x for name in files for x in ("--config", f"configs/{name}.yaml")]
    content = printed(["test", *args], capsys)
    model, data = content["model"]["init_args"], content["data"]["init_args"]
    assert [task["name"] for task in data["benchmarks"]][-2:] == ["mathvision", "chartqa"]
    assert (list(model["evaluation"]), data["thinking"]) == (["thinking"], True)
    assert model["samples_per_task"] == {"aime25": 32, "livecodebench_v6": 8}


def test_the_config_that_answers_for_the_filter_parses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    content = printed(["test", "--config", "configs/data/answers.yaml"], capsys)
    (task,) = content["data"]["init_args"]["test_tasks"]
    training = yaml.safe_load((ROOT / "configs/data/example.yaml").read_text())["data"]["init_args"]
    assert (task["shards"], task["template"]) == tuple(
        training["tasks"][0][key] for key in ("shards", "template")
    )


def test_every_benchmark_takes_in_the_same_model_and_trainer() -> None:
    for name in EVAL:
        content = yaml.safe_load((ROOT / f"configs/eval/{name}.yaml").read_text())
        assert content.pop("data")["class_path"] == "datamodules.BenchmarkDataModule"
        shared = {"model": "model.yaml", "trainer": "trainer.yaml", "seed_everything": 3407}
        assert content == shared


def test_no_config_is_left_out_above() -> None:
    known = {
        "base.yaml",
        "example.yaml",
        "answers.yaml",
        "cold_start.yaml",
        "sapo.yaml",
        "test.yaml",
        "data.yaml",
    }
    known |= {
        "model.yaml",
        "lora.yaml",
        "ddp.yaml",
        "fsdp2.yaml",
        "vllm.yaml",
        *(f"{name}.yaml" for name in MODELS),
    }
    known |= {"1m.yaml", "3m.yaml", "10m.yaml"}  # read as models by scripts/size_study.sh
    known |= {f"{name}.yaml" for name in OBJECTIVES}
    known |= {f"zero{kind}.yaml" for kind in ("1", "2", "2_offload", "3", "3_offload")}
    known |= {"trainer.yaml", "greedy.yaml", "instruct.yaml", "thinking.yaml", "sapo_paper.yaml"}
    known |= {f"{name}.yaml" for name in EVAL}
    assert {path.name for path in (ROOT / "configs").rglob("*.yaml")} == known


def test_help_explains_the_settings() -> None:
    def text(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sapo_vl", *args],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        return " ".join(done.stdout.split())

    commands = text("--help")
    assert all(name in commands for name in ("fit", "validate", "test", "predict"))
    model = text("fit", "--model.help", "sapo_vl.modules.SAPOModule")
    assert "mini-batches, one optimizer step each" in model
    assert "responses per prompt (G" in model
    data = text("fit", "--data.help", "datamodules.ReasoningDataModule")
    assert "longer prompts, image tokens included, are skipped and counted" in data
