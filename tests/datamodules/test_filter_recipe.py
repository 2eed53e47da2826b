"""The two commands of filtering: answers on the train shards, then the filter."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest
import yaml
from project import Project

from datamodules.samples import read_sample
from datamodules.shards import ShardIndex, check_shards
from sapo_vl.cli import main

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_shards.py"
ANSWERED = 12  # samples of the task; the others were not asked


def config(project: Project, out: Path) -> dict[str, object]:
    tasks = [
        {
            "name": "leftmost_colour",
            "shards": str(project.root / "shards" / "leftmost_colour-train-*.tar"),
            "max_samples": ANSWERED,
            "verifier": {"class_path": "project.CoinVerifier"},
        }
    ]
    return {
        "seed_everything": 5,
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "evaluation": {
                    "greedy": {"group_size": 1, "temperature": 0.0, "max_new_tokens": 4},
                    "avg4": {"group_size": 4, "temperature": 1.0, "max_new_tokens": 4},
                },
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "test_tasks": tasks,
                "num_workers": 0,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "devices": 1,
            "logger": False,
            "enable_progress_bar": False,
            "default_root_dir": str(out),
            "callbacks": [
                {
                    "class_path": "sapo_vl.callbacks.ResultWriter",
                    "init_args": {"folder": str(out)},
                }
            ],
        },
    }


def test_answers_then_filter(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(config(project, tmp_path / "answers")))
    main(["test", "--config", str(path)])
    answers = tmp_path / "answers" / "samples.jsonl"
    rates = {}
    for record in map(json.loads, answers.read_text().splitlines()):
        if record["sampling"] == "avg4":
            scores = [response["score"] for response in record["responses"]]
            assert len(scores) == 4
            rates[record["key"]] = sum(scores) / 4
    assert len(rates) == ANSWERED
    lowest, highest = 0.5, 0.75
    kinds = Counter(
        "too_hard" if rate < lowest else "too_easy" if rate > highest else "kept"
        for rate in rates.values()
    )
    assert kinds["kept"]
    assert kinds["kept"] < ANSWERED

    shards, out = project.root / "shards", tmp_path / "filtered"
    run = runpy.run_path(str(SCRIPT))["main"]
    words = ["--filter", answers, "--min-pass", lowest, "--max-pass", highest]
    pattern = shards / "leftmost_colour-train-*.tar"
    capsys.readouterr()
    assert run([*map(str, [*words, pattern, out])]) == 1  # which of the two ways to sample?
    assert "--sampling NAME" in capsys.readouterr().err
    assert run([*map(str, [*words, "--sampling", "avg4", pattern, out])]) == 0

    said = capsys.readouterr().out
    index = ShardIndex([str(shard) for shard in sorted(out.glob("*.tar"))])
    assert f"leftmost_colour-train: {len(index)} samples stay" in said
    assert len(index) == kinds["kept"]
    unanswered = len(ShardIndex(sorted(map(str, shards.glob(pattern.name))))) - ANSWERED
    dropped = {"unanswered": unanswered, "too_hard": kinds["too_hard"]}
    dropped |= {"too_easy": kinds["too_easy"]}
    dropped = {why: number for why, number in dropped.items() if number}
    manifest = json.loads((out / "leftmost_colour-train-manifest.json").read_text())
    assert manifest["filter"]["dropped"] == dropped
    assert all(f"{number} {why}" in said for why, number in dropped.items())
    for number, key in enumerate(index.keys):
        prompt = read_sample(index.read(number), key=key)
        assert prompt.meta["pass_rate"] == rates[key]
        assert prompt.meta["pass_n"] == 4
    assert check_shards(out)["ok"]
