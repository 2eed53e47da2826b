"""Folders as ``sapo-vl test`` leaves them, with made-up answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import report_run
import torch

from sapo_vl.callbacks.records import answers_record
from sapo_vl.evaluation import MajorityAtK, PassAtK
from sapo_vl.evaluation.scoreboard import Scoreboard
from sapo_vl.evaluation.store import json_text
from sapo_vl.types import Answers, Prompt, PromptBatch, Sampling, Skip, Verdict

SAMPLINGS = {"greedy": Sampling(group_size=1, temperature=0.0), "avg2": Sampling(group_size=2)}
VERIFIER = {"class": "sapo_vl.verifiers.number.NumberVerifier", "form": "boxed"}


def write_test(folder: Path, scores: Sequence[float], *, model: str = "m", key: str = "k") -> Path:
    """Ten prompts of two tasks; prompt i scores ``scores[i]`` in every sample."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = report_run.random.Random(0)
    report_run.draw_figure(folder / "figure.png", 3, draw)
    image = (folder / "figure.png").read_bytes()
    answers = [
        _answers(i, score, name, sampling.group_size, image, key)
        for i, score in enumerate(scores)
        for name, sampling in SAMPLINGS.items()
    ]
    board = Scoreboard(SAMPLINGS, torch.device("cpu"))
    metrics = {"count": [PassAtK(2), MajorityAtK()]}
    board.begin(PromptBatch([], [], ["count", "choice"], metrics=metrics))
    board.update(answers)
    board.skip([Skip(why="too_long", where="x", detail="")])
    lines = [json.dumps(answers_record(a, folder, "test", 0)) for a in answers]
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")
    tasks = {t: {"template": "{question}", "verifier": VERIFIER} for t in ("count", "choice")}
    settings = {
        "model": f"models/{model}",
        "model_sha256": "ab" * 32,
        "dtype": "float32",
        "seed": 3,
        "samplings": {name: asdict(s) for name, s in SAMPLINGS.items()},
        "data": {"min_pixels": 256, "max_pixels": 65536, "tasks": tasks},
        "versions": {"sapo-vl": "0.1.0", "torch": "2"},
    }
    content = {"settings": settings, "seconds": 12.5, "answers_kept": 0, **board.compute()}
    (folder / "metrics.json").write_text(json_text(content))
    return folder


def _answers(i: int, score: float, name: str, n: int, image: bytes, key: str) -> Answers:
    part: list[dict[str, Any]] = [{"type": "image"}, {"type": "text", "text": f"How many, {i}?\t|"}]
    verdict = Verdict(score=score, extracted=f"={i}" if score else None, reason="so <b>it</b> is")
    return Answers(
        Prompt(
            reference=str(i),
            task="choice" if i % 2 else "count",
            key=f"{key}{i}",
            index=5 * (i % 2) + i // 2,
            messages=({"role": "user", "content": part},),
            images=(image,),
            options={"A": "one", "B": "two"} if i % 2 else {},
            problem=str(i // 4),
            categories={"level": (str(i % 3),)},
        ),
        name,
        texts=[f"=SUM(A1)\nI say {i}\x07"] * n,
        verdicts=[verdict] * n,
        lengths=[5] * n,
        finished=[True] * n,
    )
