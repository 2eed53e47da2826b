"""The prompts of a run: datasets over indexed shards, and the samplers that say what comes when.

Order, mixture and position are those of mixture.py; workers only read and encode. A sample that
cannot be used is recorded as a Skip; in training another of the same task takes its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler

import numpy as np
from torch.utils.data import Dataset, Sampler

from datamodules.encode import Encoder
from datamodules.fields import SampleError
from datamodules.grouping import grouped
from datamodules.mixture import Place, batch_places, sample_number
from datamodules.remote import ShardCache
from datamodules.samples import read_sample
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.tasks import TaskConfig
from datamodules.transfer import pack
from sapo_vl.protocols import ChecksReference
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Skip

MAX_ATTEMPTS = 50  # samples in a row that cannot be used, before a run is ended


@dataclass(frozen=True, slots=True)
class Item:
    """What a dataset gives for one place; no prompt: the sample there could not be used."""

    prompt: Prompt | None
    inputs: PromptInputs | None
    skipped: tuple[Skip, ...] = ()


class TaskReader:
    """The samples of one task, encoded for the model."""

    def __init__(
        self,
        task: TaskConfig,
        encoder: Encoder,
        cache: ShardCache = ShardCache(),  # noqa: B008 (frozen)
    ) -> None:
        self.task = task
        self.encoder = encoder
        self.index = ShardIndex(expand_shards(task.shards, cache))
        self.size = min(len(self.index), task.max_samples or len(self.index))
        self.chosen: Sequence[int] = range(self.size)
        if task.subset_seed is not None:
            drawn = np.random.default_rng(task.subset_seed).permutation(len(self.index))
            self.chosen = sorted(drawn[: self.size].tolist())

    def read(self, number: int, place: int) -> tuple[Prompt, PromptInputs]:
        """Sample ``number`` as the prompt at ``place`` of the run.

        Raises:
            SampleError: the sample cannot be used.
        """
        prompt = self._prompt(number, place)
        if isinstance(self.task.verifier, ChecksReference):
            complaint = self.task.verifier.check_reference(prompt)
            if complaint:
                raise SampleError("unusable_reference", complaint)
        return prompt, self.encoder(prompt)

    def length(self, number: int) -> int:
        """About how many tokens the prompt of sample ``number`` has; 0 where it cannot be read."""
        try:
            return self.encoder.estimate(self._prompt(number, 0))
        except Exception:  # what is wrong with a sample is told when it is read
            return 0

    def key(self, number: int) -> str:
        """The unique name of sample ``number``."""
        return self.index.keys[self.chosen[number]]

    def skip(self, number: int, error: SampleError) -> Skip:
        """Record why sample ``number`` was left out."""
        return Skip(why=error.why, where=self.key(number), detail=error.detail)

    def _prompt(self, number: int, place: int) -> Prompt:
        prompt = read_sample(
            self.index.read(self.chosen[number]),
            key=self.key(number),
            template=self.task.template,
            task=self.task.name,
            verifier=self.task.verifier,
            index=place,
        )
        return grouped(prompt, self.task.problem, self.task.categories)


class TrainDataset(Dataset[Item]):
    """Place -> item; never without a prompt.

    Raises:
        RuntimeError: many samples of a task in a row could not be used.
    """

    def __init__(self, readers: Sequence[TaskReader], seed: int) -> None:
        self.readers = readers
        self.seed = seed

    def __len__(self) -> int:
        return sum(reader.size for reader in self.readers)

    def __getitem__(self, place: Place) -> Item:
        reader = self.readers[place.task]
        skipped = _problems(self.readers) if place.index == 0 else []
        for attempt in range(MAX_ATTEMPTS):
            number = sample_number(self.seed, place.task, place.ordinal, reader.size, attempt)
            try:
                prompt, inputs = reader.read(number, place.index)
            except SampleError as error:
                skipped.append(reader.skip(number, error))
                continue
            return Item(prompt, inputs, tuple(skipped))
        last = skipped[-1]
        raise RuntimeError(
            f"task {reader.task.name!r}: {MAX_ATTEMPTS} samples in a row could not be used; the"
            f" last was {last.where}: {last.why}: {last.detail}. Check the shards with"
            " scripts/make_shards.py --check."
        )


class EvalDataset(Dataset[Item]):
    """Every sample of every task once; what cannot be used is reported and has no substitute.

    Args:
        readers: the tasks.
        finished: (task, key) of samples that need no answer any more. The others keep their places,
            and with them their draws.
    """

    def __init__(
        self, readers: Sequence[TaskReader], finished: Set[tuple[str, str]] = frozenset()
    ) -> None:
        self.readers = readers
        places = [
            Place(0, task, number)
            for task, reader in enumerate(readers)
            for number in range(reader.size)
        ]
        self.places = [
            (index, place)
            for index, place in enumerate(places)
            if (readers[place.task].task.name, readers[place.task].key(place.ordinal))
            not in finished
        ]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> Item:
        index, place = self.places[number]
        reader = self.readers[place.task]
        skipped = _problems(self.readers) if number == 0 else []
        try:
            return Item(*reader.read(place.ordinal, index), tuple(skipped))
        except SampleError as error:
            return Item(None, None, (*skipped, reader.skip(place.ordinal, error)))
        # No single sample may end an evaluation of hours; the share of such samples may.
        except Exception as error:
            failure = SampleError("encoder_error", f"{type(error).__name__}: {error}")
            return Item(None, None, (*skipped, reader.skip(place.ordinal, failure)))

    def length(self, number: int) -> int:
        """About how many tokens the prompt has."""
        _, place = self.places[number]
        return self.readers[place.task].length(place.ordinal)


def _problems(readers: Sequence[TaskReader]) -> list[Skip]:
    """Damage found when the shards were indexed, to be reported with the stream's first item."""
    return [problem for reader in readers for problem in reader.index.problems]


class StreamSampler(Sampler[list[Place]]):
    """This rank's places of one iteration after another, without end.

    ``position`` gives the iteration to begin with, asked whenever a new pass begins: what was
    fetched ahead and not trained on is given again.
    """

    def __init__(
        self,
        shares: Sequence[float],
        prompts_per_iteration: int,
        position: Callable[[], int],
        rank: int,
        ranks: int,
    ) -> None:
        self.shares = shares
        self.prompts_per_iteration = prompts_per_iteration
        self.position = position
        self.rank = rank
        self.ranks = ranks

    def __iter__(self) -> Iterator[list[Place]]:
        # A rank takes one stretch of the batch: every k-th place could be of a single task.
        size = self.prompts_per_iteration // self.ranks
        for iteration in itertools.count(self.position()):
            places = batch_places(self.shares, self.prompts_per_iteration, iteration)
            yield places[self.rank * size : (self.rank + 1) * size]


class StridedBatches(Sampler[list[int]]):
    """Every rank's part of a fixed set, in batches, no sample twice.

    Lightning's own sampler repeats samples to even the ranks out, which would bias a score. A rank
    without samples gets one empty batch: scores are added up over all ranks.

    Args:
        size: samples of the set.
        batch_size: samples of a batch.
        rank: of this process.
        ranks: number of processes.
        length: gives the length of a sample; batches then hold samples of about one length, the
            longest first: little padding, and what does not fit into memory shows at once.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        rank: int,
        ranks: int,
        length: Callable[[int], int] | None = None,
    ) -> None:
        self.numbers: Sequence[int] = range(rank, size, ranks)
        self.batch_size = batch_size
        if length is not None and len(self.numbers) > batch_size:
            self.numbers = sorted(self.numbers, key=length, reverse=True)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, max(1, len(self.numbers)), self.batch_size):
            yield list(self.numbers[start : start + self.batch_size])

    def __len__(self) -> int:
        return max(1, -(-len(self.numbers) // self.batch_size))


@dataclass(frozen=True, slots=True)
class Collate:
    """Items -> PromptBatch; ``tasks`` names every task of the stream."""

    tasks: tuple[str, ...]

    def __call__(self, items: Sequence[Item]) -> PromptBatch:
        """Gather the items of one batch."""
        return PromptBatch(
            prompts=[i.prompt for i in items if i.prompt is not None],
            inputs=[i.inputs for i in items if i.inputs is not None],
            tasks=self.tasks,
            skipped=[skip for i in items for skip in i.skipped],
        )


ForkingPickler.register(PromptBatch, pack)  # how a worker sends one
