"""What the command line does with a configuration: it runs, or says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from project import Project
from small_config import config, refused, write

from sapo_vl.cli import main


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
