"""What an evaluation leaves on disk: metrics.json and samples.jsonl; answers.jsonl for predict."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L
from typing_extensions import override

import sapo_vl
from sapo_vl.callbacks.records import answers_record, append_lines
from sapo_vl.types import Answers, PromptBatch

PACKAGES = ("torch", "lightning", "transformers", "qwen-vl-utils", "math-verify")


class ResultWriter(L.Callback):
    """Write a test's scores with the settings that made them, and every answer.

    ``metrics.json`` holds ``settings``, ``tasks{task: {sampling: {mean, stderr, n}}}`` and ``all``;
    ``samples.jsonl`` a line a prompt and sampling (one file a rank).

    Args:
        folder: where to write; the logger's folder by default.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder

    @override
    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._samples_path(trainer).unlink(missing_ok=True)  # a repeated test replaces the first

    @override
    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        path = self._samples_path(trainer)
        answers: Sequence[Answers] = outputs["answers"]
        append_lines(path, (answers_record(a, path.parent, "test", 0) for a in answers))

    @override
    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        path = self._samples_path(trainer).parent / "metrics.json"
        if trainer.global_rank:
            return
        scores = _scores(trainer)
        everything = scores.pop("all", {})
        content = {"settings": _settings(pl_module), "tasks": scores, "all": everything}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def _samples_path(self, trainer: L.Trainer) -> Path:
        folder = self.folder or trainer.log_dir or trainer.default_root_dir
        suffix = "" if trainer.global_rank == 0 else f"-rank{trainer.global_rank}"
        return Path(folder) / f"samples{suffix}.jsonl"


class AnswerWriter(L.Callback):
    """Write the answers of ``predict``, a JSON line a question.

    Args:
        path: the JSONL file; with several ranks each writes its own beside it.
    """

    def __init__(self, path: str = "answers.jsonl") -> None:
        self.path = Path(path)

    @override
    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        answers: Sequence[Answers] = outputs
        records = [
            {"id": a.prompt.key, "sampling": a.sampling, "responses": list(a.texts)}
            for a in answers
        ]
        records += [{"id": s.where, "skipped": s.why, "detail": s.detail} for s in batch.skipped]
        rank = trainer.global_rank
        path = self.path if rank == 0 else self.path.with_suffix(f".rank{rank}.jsonl")
        if batch_idx == 0:
            path.unlink(missing_ok=True)
        append_lines(path, records)


def _scores(trainer: L.Trainer) -> dict[str, dict[str, dict[str, float]]]:
    """Collect eval/<task>/<sampling>, its _stderr and _n, from what was logged."""
    logged = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("eval/")}
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for name, mean in logged.items():
        if f"{name}_n" not in logged:
            continue
        task, sampling = name.removeprefix("eval/").rsplit("/", 1)
        scores.setdefault(task, {})[sampling] = {
            "mean": mean,
            "stderr": logged[f"{name}_stderr"],
            "n": int(logged[f"{name}_n"]),
        }
    return scores


def _settings(module: Any) -> dict[str, Any]:
    return {
        "model": module.policy_config.path,
        "dtype": module.policy_config.dtype,
        "samplings": {name: asdict(s) for name, s in module.evaluation.items()},
        "seed": module.seed,
        "versions": {"sapo-vl": sapo_vl.__version__}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
    }
