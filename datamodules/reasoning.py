"""ReasoningDataModule: prompts for fit, validate, test and predict."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.trainer.states import RunningStage, TrainerFn
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch.utils.data import DataLoader
from typing_extensions import override

from datamodules.encode import Encoder
from datamodules.grouping import described
from datamodules.loader import PromptLoader
from datamodules.mixture import worst_window
from datamodules.questions import QuestionDataset
from datamodules.remote import ShardCache
from datamodules.skips import SkipBudget
from datamodules.stream import (
    Collate,
    EvalDataset,
    StreamSampler,
    StridedBatches,
    TaskReader,
    TrainDataset,
)
from datamodules.tasks import TaskConfig
from datamodules.video import VideoLimits
from sapo_vl.protocols import ChecksMachine, Verifier
from sapo_vl.types import PromptBatch


class ReasoningDataModule(L.LightningDataModule):
    """Image-text reasoning tasks from WebDataset shards.

    Training is one endless stream with a fixed share per task in every batch; its position is saved
    with a checkpoint and restored to the sample. Validation and test go over their samples once.

    Args:
        processor: folder or hub name of the model whose processor makes the inputs.
        tasks: training tasks.
        val_tasks: validation tasks.
        test_tasks: test tasks.
        questions: JSONL file of a user's own questions for predict; a line is {"id", "question",
            "images": [paths]}, paths relative to the file.
        question_verifier: judges the answers to questions that come with an "answer".
        prompts_per_iteration: prompts of one batch, over all ranks.
        eval_batch_size: prompts of one validation, test or predict batch, on each rank.
        num_workers: processes that read and encode ahead; 0 does it in the main process.
        max_prompt_tokens: longer prompts, image tokens included, are skipped and counted.
        min_pixels: smaller images are enlarged to about this many pixels.
        max_pixels: larger images are shrunk to about this many pixels.
        video: how much of a video is taken.
        max_skipped_share: a run is ended when a larger share of its samples could not be used,
            as soon as 200 were seen; 1 never ends it.
        shard_cache: where shards that are not plain local tars are kept.
        seed: of the order of samples.
    """

    def __init__(
        self,
        processor: str,
        tasks: list[TaskConfig] | None = None,
        val_tasks: list[TaskConfig] | None = None,
        test_tasks: list[TaskConfig] | None = None,
        questions: str | None = None,
        question_verifier: Verifier | None = None,
        prompts_per_iteration: int = 64,
        eval_batch_size: int = 64,
        num_workers: int = 2,
        max_prompt_tokens: int = 4096,
        min_pixels: int = 65536,
        max_pixels: int = 1048576,
        video: VideoLimits = VideoLimits(),  # noqa: B008 (frozen)
        max_skipped_share: float = 0.1,
        shard_cache: ShardCache = ShardCache(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check(prompts_per_iteration, eval_batch_size, num_workers, seed)
        self.processor = processor
        self.tasks = {"fit": tasks or [], "validate": val_tasks or [], "test": test_tasks or []}
        self.questions = questions
        self.question_verifier = question_verifier
        self.prompts_per_iteration = prompts_per_iteration
        self.eval_batch_size = eval_batch_size
        self.num_workers = num_workers
        self.max_prompt_tokens = max_prompt_tokens
        self.pixels = (min_pixels, max_pixels)
        self.video = video
        self.shard_cache = shard_cache
        self.budget = SkipBudget(max_skipped_share)
        self.seed = seed
        self.restored_iteration = 0
        self.restored_stream: dict[str, Any] | None = None
        self.stream: dict[str, Any] | None = None  # what the order of samples depends on
        self.encoder: Encoder | None = None
        self.finished: frozenset[tuple[str, str]] = frozenset()

    @override
    def setup(self, stage: str) -> None:
        for name, tasks in self.tasks.items():
            names = [task.name for task in tasks]
            if len(set(names)) < len(names):
                raise ValueError(f"data: two {name} tasks have the same name: {sorted(names)}")
            for task in tasks:  # before hours of training: a sandbox that cannot be had
                if isinstance(task.verifier, ChecksMachine):
                    task.verifier.check_machine()
        if self.encoder is None:
            self.encoder = Encoder(
                self.processor, self.max_prompt_tokens, *self.pixels, video=self.video
            )

    @override
    def train_dataloader(self) -> DataLoader[Any]:
        tasks = self._need("fit", "tasks")
        ranks = self._ranks
        if self.prompts_per_iteration % ranks:
            raise ValueError(
                f"data.prompts_per_iteration is {self.prompts_per_iteration}; with {ranks} ranks it"
                f" must be a multiple of {ranks}, so that every rank does the same work"
            )
        shares = [task.share for task in tasks]
        error = worst_window(shares, self.prompts_per_iteration)
        if error:
            rank_zero_info(
                f"shares x {self.prompts_per_iteration} prompts are no whole numbers: batches are"
                " rounded, and over any run of batches a task is off its share by up to"
                f" {error:.3g} prompts; other prompts_per_iteration can make it 0"
            )
        sampler = StreamSampler(
            shares,
            self.prompts_per_iteration,
            self._iterations_trained,
            self._rank,
            ranks,
        )
        dataset = TrainDataset(self._readers(tasks), self.seed)
        self.stream = {
            "seed": self.seed,
            "prompts_per_iteration": self.prompts_per_iteration,
            **{f"task {r.task.name}": [r.task.share, r.size] for r in dataset.readers},
        }
        self._compare_with_restored(self.stream)
        return self._loader(dataset, sampler, [task.name for task in tasks])

    @override
    def val_dataloader(self) -> DataLoader[Any] | list[Any]:
        if self.trainer and self.trainer.state.fn == TrainerFn.VALIDATING:
            return self._eval_loader(self._need("validate", "val_tasks"))
        return self._eval_loader(self.tasks["validate"]) if self.tasks["validate"] else []

    @override
    def test_dataloader(self) -> DataLoader[Any]:
        return self._eval_loader(self._need("test", "test_tasks"), self.finished)

    def leave_out(self, finished: Iterable[tuple[str, str]]) -> None:
        """Make no test prompts of these samples, (task, key) each: they are answered already."""
        self.finished = frozenset(finished)

    def describe(self, stage: str) -> dict[str, Any]:
        """Everything about the data of "validate" or "test" that a score depends on."""
        return {
            "max_prompt_tokens": self.max_prompt_tokens,
            "min_pixels": self.pixels[0],
            "max_pixels": self.pixels[1],
            "video": asdict(self.video),
            "tasks": {task.name: described(task) for task in self.tasks[stage]},
        }

    @override
    def predict_dataloader(self) -> DataLoader[Any]:
        if self.questions is None:
            raise ValueError("predict needs data.questions: a JSONL file of questions and images")
        assert self.encoder is not None
        dataset = QuestionDataset(Path(self.questions), self.encoder, self.question_verifier)
        return self._once(dataset, ["questions"], len(dataset))

    @override
    def state_dict(self) -> dict[str, Any]:
        """Position of the stream, iterations trained, and what its order depends on.

        The same on all ranks.
        """
        position: dict[str, Any] = {"iteration": self._iterations_trained()}
        return position if self.stream is None else {**position, "stream": self.stream}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.restored_iteration = int(state_dict["iteration"])
        self.restored_stream = state_dict.get("stream")

    @override
    def transfer_batch_to_device(
        self, batch: PromptBatch, device: torch.device, dataloader_idx: int
    ) -> PromptBatch:
        start = time.perf_counter()
        moved: PromptBatch = super().transfer_batch_to_device(batch, device, dataloader_idx)
        moved.waited += time.perf_counter() - start
        return moved

    @override
    def on_after_batch_transfer(self, batch: PromptBatch, dataloader_idx: int) -> PromptBatch:
        if self.trainer and self.trainer.state.stage not in (None, RunningStage.PREDICTING):
            self.budget.note(batch, self.trainer)
            stage = "test" if self.trainer.testing else "validate"
            batch.metrics = {t.name: t.metrics for t in self.tasks[stage] if t.metrics}
        return batch

    def _compare_with_restored(self, stream: dict[str, Any]) -> None:
        before, self.restored_stream = self.restored_stream, None
        if before is None or before == stream:
            return
        changed = [
            f"{name} is {stream.get(name, 'gone')}, was {before.get(name, 'not there')}"
            for name in {**before, **stream}
            if stream.get(name) != before.get(name)
        ]
        rank_zero_warn(
            "the data is not that of the checkpoint (of a task: share, samples):"
            f" {'; '.join(changed)}. Iteration {self.restored_iteration} and those after it are the"
            " new data's, as if the run had had it from the start: a task may repeat or miss"
            " samples within this epoch"
        )

    def _iterations_trained(self) -> int:
        """Batches that training is done with; those fetched ahead are not."""
        if self.trainer is None:
            return self.restored_iteration
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress
        # The trainer's own count starts at 0 when only weights were restored.
        return max(self.restored_iteration, int(progress.total.processed))

    def _eval_loader(
        self, tasks: list[TaskConfig], finished: frozenset[tuple[str, str]] = frozenset()
    ) -> DataLoader[Any]:
        dataset, names = EvalDataset(self._readers(tasks), finished), [task.name for task in tasks]
        return self._once(dataset, names, len(dataset) + len(finished))

    def _once(
        self, dataset: EvalDataset | QuestionDataset, names: list[str], total: int
    ) -> DataLoader[Any]:
        """Go over a fixed set once, every rank over its own part."""
        if total < self._ranks:
            raise ValueError(
                f"{total} samples of {', '.join(names)} are too few for {self._ranks} ranks;"
                " use fewer ranks"
            )
        length = dataset.length if isinstance(dataset, EvalDataset) else None
        share = (self._rank, self._ranks)
        batches = StridedBatches(len(dataset), self.eval_batch_size, *share, length)
        return self._loader(dataset, batches, names)

    def _readers(self, tasks: Sequence[TaskConfig]) -> list[TaskReader]:
        assert self.encoder is not None
        readers = [TaskReader(task, self.encoder, self.shard_cache) for task in tasks]
        for reader in readers:
            self.budget.check_index(reader.task.name, reader.index)
            rank_zero_info(f"task {reader.task.name}: {reader.size} samples")
        return readers

    def _loader(self, dataset: Any, batches: Any, tasks: Sequence[str]) -> DataLoader[Any]:
        return PromptLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=Collate(tuple(tasks)),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def _need(self, stage: str, field: str) -> list[TaskConfig]:
        if not self.tasks[stage]:
            raise ValueError(f"{stage} needs data.{field}: a list of tasks with their shards")
        return self.tasks[stage]

    @property
    def _rank(self) -> int:
        return self.trainer.global_rank if self.trainer else 0

    @property
    def _ranks(self) -> int:
        return self.trainer.world_size if self.trainer else 1


def _check(prompts_per_iteration: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
    for name, value, least in (
        ("prompts_per_iteration", prompts_per_iteration, 1),
        ("eval_batch_size", eval_batch_size, 1),
        ("num_workers", num_workers, 0),
        ("seed", seed, 0),
    ):
        if value < least:
            raise ValueError(f"data.{name} is {value}; it must be at least {least}")
