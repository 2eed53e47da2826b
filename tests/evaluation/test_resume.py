"""A test that is killed goes on: nothing is lost, scored twice or mixed with another model's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import resumed
import torch
from project import Project

from sapo_vl.evaluation.store import AnswerStore

PROMPTS = 24  # of the small project, each answered with two samplings


def metrics(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / "metrics.json").read_text())
    return {name: content[name] for name in ("tasks", "all", "skipped")}


def records(folder: Path, pattern: str = "samples.jsonl") -> list[dict[str, Any]]:
    lines = [x for path in folder.glob(pattern) for x in path.read_bytes().split(b"\n")[:-1]]
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def whole(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unbroken test."""
    folder = tmp_path_factory.mktemp("whole")
    assert resumed.run(project, folder) == 2 * PROMPTS
    return folder


def kill_midway(project: Project, out: Path, devices: int) -> None:
    """Start a slow test and kill it, with all its ranks, once some answers are on disk."""
    tests = Path(__file__).resolve().parents[1]
    path = os.pathsep.join(map(str, (tests.parent, tests)))
    process = subprocess.Popen(
        [sys.executable, resumed.__file__, str(project.root), str(out), "0.5", str(devices)],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while len(records(out, "samples-rank*.jsonl")) < 8:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("devices", [1, 2])
def test_killed_and_started_again(
    devices: int, project: Project, whole: Path, tmp_path: Path
) -> None:
    kill_midway(project, tmp_path, devices)
    kept = len(records(tmp_path, "samples-rank*.jsonl"))
    assert 8 <= kept < 2 * PROMPTS
    with next(iter(sorted(tmp_path.glob("samples-rank*.jsonl")))).open("a") as file:
        file.write('{"stage": "test", "task": "torn')  # as a kill within a write leaves it
    assert resumed.run(project, tmp_path) == 2 * PROMPTS - kept
    assert metrics(tmp_path) == metrics(whole)
    assert records(tmp_path) == records(whole)
    assert not list(tmp_path.glob("samples-rank*.jsonl"))


def test_a_finished_test_is_not_done_again(project: Project, whole: Path) -> None:
    before = metrics(whole), records(whole)
    assert resumed.run(project, whole) == 0
    assert (metrics(whole), records(whole)) == before


def test_another_models_answers_are_not_mixed_in(
    project: Project, whole: Path, tmp_path: Path
) -> None:
    for path in ("samples.jsonl", "settings.json"):
        (tmp_path / path).write_bytes((whole / path).read_bytes())
    settings = json.loads((tmp_path / "settings.json").read_text())
    changed = settings | {"model_sha256": "other"}
    (tmp_path / "settings.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="other settings: model_sha256: was 'other'"):
        resumed.run(project, tmp_path)
    assert len(records(tmp_path)) == 2 * PROMPTS
    assert resumed.run(project, tmp_path, overwrite=True) == 2 * PROMPTS
    (tmp_path / "settings.json").unlink()
    with pytest.raises(ValueError, match=r"no settings\.json"):
        resumed.run(project, tmp_path)


def test_a_model_trained_further_in_this_process_is_another_model(
    project: Project, whole: Path, tmp_path: Path
) -> None:
    from project import trainer

    from sapo_vl.callbacks import ResultWriter

    module = project.sapo(evaluation=resumed.EVALUATION)
    module.configure_model()
    with torch.no_grad():
        next(module.policy.parameters()).mul_(1.01)
    for path in ("samples.jsonl", "settings.json"):
        (tmp_path / path).write_bytes((whole / path).read_bytes())
    with pytest.raises(ValueError, match="weights_probe"):
        trainer(tmp_path, callbacks=[ResultWriter(str(tmp_path))]).test(
            module, project.data(eval_batch_size=4), verbose=False
        )


def test_answers_of_training_are_not_taken_for_a_tests(tmp_path: Path) -> None:
    line = {"stage": "train", "task": "t", "key": "k", "sampling": "train"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match="'train', not of a test; give ResultWriter a folder"):
        AnswerStore(tmp_path, 0).load()


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text("{}\n[1\n")
    with pytest.raises(ValueError, match=r"samples\.jsonl, line 1: no record of answers"):
        AnswerStore(tmp_path, 0).load()
