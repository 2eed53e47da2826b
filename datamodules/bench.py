"""How this package reads prompts, in pieces that a benchmark can time one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datamodules.encode import Encoder
from datamodules.loader import PromptLoader
from datamodules.mixture import sample_number
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.stream import Collate, StreamSampler, TaskReader, TrainDataset
from datamodules.tasks import TaskConfig
from sapo_vl.protocols import Verifier


class Reading:
    """One task read as `ReasoningDataModule` reads it; a `sapo_vl.bench.reading.Reading`.

    Args:
        shards: pattern of its shards.
        processor: folder of the model whose processor makes the inputs.
        prompts: of a batch.
        pixels: least and most pixels of an image.
        verifier: of the task; no answer is judged.
    """

    def __init__(
        self,
        shards: str,
        processor: str,
        prompts: int,
        pixels: tuple[int, int],
        verifier: Verifier,
    ) -> None:
        self.prompts = prompts
        task = TaskConfig(name="bench", shards=shards, verifier=verifier)
        self._reader = TaskReader(task, Encoder(processor, 16384, *pixels))
        self.processor = self._reader.encoder.processor
        self.files = expand_shards(shards)

    def index(self, path: str) -> ShardIndex:
        """Find the samples of one tar."""
        return ShardIndex(path)

    def order(self, size: int) -> list[int]:
        """Which of a task's ``size`` samples is read first, second, and so on."""
        return [sample_number(0, 0, place, size) for place in range(size)]

    def batches(self, workers: int = 0, start: int = 0) -> Iterator[Any]:
        """Read batches from the iteration ``start`` on."""
        loader = PromptLoader(
            TrainDataset([self._reader], seed=0),
            batch_sampler=StreamSampler([1.0], self.prompts, lambda: start, 0, 1),
            collate_fn=Collate(("bench",)),
            num_workers=workers,
        )
        return iter(loader)

    def find_place(self, shares: list[float], start: int) -> object:
        """Find what stands in the iteration ``start`` of tasks with these shares."""
        return next(iter(StreamSampler(shares, self.prompts, lambda: start, 0, 1)))
