"""What an evaluation leaves on disk: metrics.json and samples.jsonl; answers.jsonl for predict."""

from __future__ import annotations

import importlib.metadata
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.utilities import rank_zero_info
from typing_extensions import override

import sapo_vl
from sapo_vl.callbacks.records import answers_from, answers_record, append_lines, judged_responses
from sapo_vl.evaluation.identity import differences, files_sha256, weights_probe
from sapo_vl.evaluation.store import AnswerStore, json_text
from sapo_vl.types import Answers, PromptBatch

PACKAGES = ("torch", "lightning", "transformers", "qwen-vl-utils", "math-verify")


class ResultWriter(L.Callback):
    """Write a test's scores with the settings that made them, and every answer as it is judged.

    ``metrics.json`` holds ``settings``, ``tasks{task: {sampling: {metric, mean, stderr, low, high,
    n, metrics, categories, counts}}}``, ``headlines``, ``all`` and ``skipped``;
    ``samples.jsonl`` a line a prompt and sampling.

    A test that was interrupted goes on where it stopped when it is started again: finished answers
    are read from the folder (``samples-rank*.jsonl`` until the end), their prompts left out, and
    counted once. ``settings.json`` says what model and settings they came from; with others the
    test is refused. All ranks must see the folder.

    Args:
        folder: where to write; the logger's folder by default.
        overwrite: throw earlier answers in the folder away.
    """

    def __init__(self, folder: str | None = None, overwrite: bool = False) -> None:
        self.folder = folder
        self.overwrite = overwrite
        self.store: AnswerStore | None = None
        self.found = 0  # answers of an earlier start
        self.started = 0.0

    @override
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "test":
            return
        folder = Path(self.folder or trainer.log_dir or trainer.default_root_dir)
        self.store = AnswerStore(folder, trainer.global_rank)
        if self.overwrite and trainer.is_global_zero:
            self.store.clear()
            self._settings_path.unlink(missing_ok=True)
        trainer.strategy.barrier("results cleared")
        module: Any = pl_module
        finished = self.store.load()
        self.found = len(finished)
        module.leave_out([answers_from(record) for record in finished.values()])
        samplings = {(task, key): set[str]() for task, key, _ in finished}
        for task, key, sampling in finished:
            samplings[task, key].add(sampling)
        data: Any = getattr(trainer, "datamodule", None)
        if hasattr(data, "leave_out"):  # prompts need not even be read
            data.leave_out(k for k, names in samplings.items() if names >= set(module.evaluation))

    @override
    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert self.store is not None
        self.started = time.monotonic()
        error = self._check(trainer, pl_module) if trainer.is_global_zero else None
        error = trainer.strategy.broadcast(error)
        if error:
            raise ValueError(error)
        self.store.mend()
        if self.found:
            rank_zero_info(f"{self.store.folder}: {self.found} answers are there and kept")

    def _check(self, trainer: L.Trainer, module: Any) -> str | None:
        """Compare the settings with those of the answers that are there, and note them."""
        assert self.store is not None
        settings = _settings(trainer, module)
        if self.found:
            if not self._settings_path.is_file():
                return f"{self.store.folder} holds answers but no settings.json; {_REMEDY}"
            saved = json.loads(self._settings_path.read_text(encoding="utf-8"))
            changed = differences(saved, settings)
            if changed:
                shown = "; ".join(changed[:5])
                return (
                    f"{self.store.folder} holds answers of another model or other settings:"
                    f" {shown}. They cannot be mixed; {_REMEDY}"
                )
        self.store.folder.mkdir(parents=True, exist_ok=True)
        self._settings_path.write_text(json_text(settings), encoding="utf-8")
        return None

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
        assert self.store is not None
        answers: Sequence[Answers] = outputs["answers"]
        self.store.append(answers_record(a, self.store.folder, "test", 0) for a in answers)

    @override
    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert self.store is not None
        trainer.strategy.barrier("answers written")
        if not trainer.is_global_zero:
            return
        module: Any = pl_module
        self.store.merge(module.evaluation)
        content = {
            "settings": json.loads(self._settings_path.read_text(encoding="utf-8")),
            "seconds": round(time.monotonic() - self.started, 3),
            "answers_kept": self.found,  # seconds are those of the last start
            **module.results,
        }
        path = self.store.folder / "metrics.json"
        path.write_text(json_text(content), encoding="utf-8")

    @property
    def _settings_path(self) -> Path:
        assert self.store is not None
        return self.store.folder / "settings.json"


class AnswerWriter(L.Callback):
    """Write the answers of ``predict``, a JSON line a question.

    ``responses`` are texts; where the question has an answer and ``data.question_verifier`` is set,
    they are objects with the verdict, as in ``samples.jsonl``.

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
            {
                "id": a.prompt.key,
                "key": a.prompt.key,
                "sampling": a.sampling,
                "responses": judged_responses(a) if a.verdicts else list(a.texts),
            }
            for a in answers
        ]
        records += [{"id": s.where, "skipped": s.why, "detail": s.detail} for s in batch.skipped]
        rank = trainer.global_rank
        path = self.path if rank == 0 else self.path.with_suffix(f".rank{rank}.jsonl")
        if batch_idx == 0:
            path.unlink(missing_ok=True)
        append_lines(path, records)


_REMEDY = (
    "choose another folder, or let ResultWriter replace them (init_args: {overwrite: true}, or"
    " remove the folder)"
)


def _settings(trainer: L.Trainer, module: Any) -> dict[str, Any]:
    """Everything a score depends on; what two starts must agree about."""
    config = module.policy_config
    data: Any = getattr(trainer, "datamodule", None)
    return {
        "model": config.path,
        "model_sha256": files_sha256(config.path),
        "weights_probe": weights_probe(module.policy.model),
        "dtype": config.dtype,
        "samplings": {name: asdict(s) for name, s in module.evaluation.items()},
        "samples_per_task": module.samples_per_task,
        "seed": module.seed,
        "data": data.describe("test") if hasattr(data, "describe") else None,
        "versions": {"sapo-vl": sapo_vl.__version__}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
    }
