from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import Project

from sapo_vl.cli import main

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


def config(project: Project, out: Path) -> dict[str, Any]:
    def tasks(split: str) -> list[dict[str, Any]]:
        kinds = {"leftmost_colour": "TextVerifier", "count_colour": "NumberVerifier"}
        return [
            {
                "name": name,
                "shards": str(project.root / "shards" / f"{name}-{split}-*.tar"),
                "verifier": {"class_path": f"sapo_vl.verifiers.{kind}"},
            }
            for name, kind in kinds.items()
        ]

    return {
        "seed_everything": 5,
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "sampling": {"group_size": 4, "temperature": 0.9, "max_new_tokens": 6},
                "evaluation": {"avg2": {"group_size": 2, "max_new_tokens": 6}},
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "tasks": tasks("train"),
                "val_tasks": tasks("val"),
                "test_tasks": tasks("val"),
                "prompts_per_iteration": 4,
                "num_workers": 0,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "devices": 1,
            "max_steps": 2,
            "max_epochs": -1,
            "logger": False,
            "enable_progress_bar": False,
            "enable_checkpointing": False,
            "num_sanity_val_steps": 0,
            "default_root_dir": str(out),
        },
    }


def write(content: Any, path: Path) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


def printed(args: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The configuration that a command line comes to."""
    with pytest.raises(SystemExit):
        main([*args, "--print_config"])
    content: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return content


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code
    return capsys.readouterr().err


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


def test_seed_and_processor_are_said_once(project: Project, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    class Look(Exception):
        pass

    import lightning as L

    def fit(self: Any, model: Any, datamodule: Any, **_: Any) -> None:
        seen.update(seed=(model.seed, datamodule.seed), processor=datamodule.processor)
        raise Look

    original = L.Trainer.fit
    L.Trainer.fit = fit  # type: ignore[method-assign]
    try:
        with pytest.raises(Look):
            main(["fit", "--config", write(config(project, tmp_path), tmp_path / "a.yaml")])
    finally:
        L.Trainer.fit = original  # type: ignore[method-assign]
    assert seen == {"seed": (5, 5), "processor": project.model}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["model", "init_args", "grup_size"], 4, "grup_size"),
        (["model", "init_args", "sampling", "temprature"], 1.0, "temprature"),
        (
            ["data", "init_args", "tasks", 0, "verifier", "class_path"],
            "sapo_vl.verifiers.Magic",
            "Magic",
        ),
        (["model", "init_args", "sampling", "group_size"], 1, "group_size is 1"),
        (["model", "init_args", "policy", "freeze"], ["eyes"], "eyes"),
        (["trainer", "max_stepz"], 3, "max_stepz"),
    ],
)
def test_a_bad_setting_is_named(
    project: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: list[Any],
    value: Any,
    message: str,
) -> None:
    content = config(project, tmp_path)
    node: Any = content
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    args = ["fit", "--config", write(content, tmp_path / "a.yaml")]
    try:
        error = refused(args, capsys)
    except ValueError as raised:  # from a constructor, past the parser
        error = str(raised)
    assert message in error


def test_a_folder_that_is_no_model_is_named(project: Project, tmp_path: Path) -> None:
    content = config(project, tmp_path)
    content["model"]["init_args"]["policy"]["path"] = str(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        main(["fit", "--config", write(content, tmp_path / "a.yaml")])


def test_missing_shards_are_named(project: Project, tmp_path: Path) -> None:
    content = config(project, tmp_path)
    content["data"]["init_args"]["tasks"][0]["shards"] = str(tmp_path / "gone-*.tar")
    with pytest.raises(FileNotFoundError, match=r"gone-\*\.tar"):
        main(["fit", "--config", write(content, tmp_path / "a.yaml")])


def test_every_fit_begins_with_a_parity_check(project: Project, tmp_path: Path) -> None:
    path = write(config(project, tmp_path), tmp_path / "a.yaml")
    with pytest.raises(RuntimeError, match="parity check failed"):
        main(["fit", "--config", path, "--parity.tolerance=1e-12"])


def test_fit_test_and_predict(project: Project, tmp_path: Path) -> None:
    content = config(project, tmp_path)
    content["trainer"]["callbacks"] = [
        {
            "class_path": "sapo_vl.callbacks.IterationCheckpoint",
            "init_args": {"folder": str(tmp_path / "fit")},
        },
        {
            "class_path": "sapo_vl.callbacks.ResultWriter",
            "init_args": {"folder": str(tmp_path / "test")},
        },
        {
            "class_path": "sapo_vl.callbacks.AnswerWriter",
            "init_args": {"path": str(tmp_path / "answers.jsonl")},
        },
    ]
    path = write(content, tmp_path / "a.yaml")
    main(["fit", "--config", path])
    model = str(tmp_path / "fit/hf")
    main(["test", "--config", path, "--model.policy.path", model])
    assert json.loads((tmp_path / "test/metrics.json").read_text())["all"]["avg2"]["n"] == 24
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "a", "question": "How many?"}\n')
    main(
        [
            "predict",
            "--config",
            path,
            "--model.policy.path",
            model,
            "--data.questions",
            str(questions),
        ]
    )
    assert json.loads((tmp_path / "answers.jsonl").read_text())["id"] == "a"


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
