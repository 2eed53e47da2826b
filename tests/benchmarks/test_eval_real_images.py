"""The whole path by the command line on real MathVision images: generate, verify, aggregate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eval_config import ROOT
from project import Project

from datamodules.making import make_shards
from datamodules.sources.catalogue import Request, source_sets
from sapo_vl.cli import main

SHARED = ROOT.parent / "shared" / "data"
SMALL = [
    "--trainer.accelerator=cpu",
    "--data.max_samples=12",
    "--data.num_workers=0",
    "--data.min_pixels=1024",
    "--data.max_pixels=4096",
]


@pytest.mark.skipif(
    not (SHARED / "mathvision").is_dir(),
    reason=f"no folder {SHARED / 'mathvision'}: the real images are not here",
)
@pytest.mark.filterwarnings("ignore:LightningCLI's args parameter")
def test_mathvision_by_the_command_line(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = source_sets("mathvision", Request(data=SHARED, splits=("testmini",), count=12))
    make_shards(source, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    two = '{"n2": {"group_size": 2, "temperature": 1.0, "max_new_tokens": 8}}'
    main(
        [
            "test",
            f"--config={ROOT}/configs/eval/mathvision_testmini.yaml",
            f"--model.policy.path={project.model}",
            f"--model.evaluation={two}",
            *SMALL,
        ]
    )
    folder = tmp_path / "runs" / "eval"
    result = json.loads((folder / "metrics.json").read_text())["tasks"]["mathvision_testmini"]["n2"]
    records = [json.loads(x) for x in (folder / "samples.jsonl").read_text().splitlines()]
    assert result["n"] == len(records) == 12
    scores = [r["score"] for record in records for r in record["responses"]]
    assert len(scores) == 24
    assert result["mean"] == pytest.approx(sum(scores) / 24)
    for record in records:
        assert record["question"].startswith("[image] Please solve the problem step by step")
        assert (folder / record["images"][0]).read_bytes()[:3] == b"\xff\xd8\xff"  # a real JPEG
        assert all("training_rule" in r["parts"] for r in record["responses"])
        assert {r["status"] for r in record["responses"]} <= {"ok", "no_answer"}
