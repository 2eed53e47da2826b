from __future__ import annotations

import itertools
import os
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from shard_files import row
from torch.utils.data import DataLoader

from datamodules import TaskConfig
from datamodules.mixture import Place
from datamodules.samples import read_sample
from datamodules.stream import (
    Collate,
    EvalDataset,
    StreamSampler,
    StridedBatches,
    TaskReader,
    TrainDataset,
)
from sapo_vl.types import PromptBatch
from sapo_vl.verifiers import NumberVerifier

SHARES = (0.3, 0.7)


def sampler(prompts=8, start=0, rank=0, ranks=1):
    return StreamSampler(SHARES, prompts, lambda: start, rank, ranks)


def take(batches, count):
    return list(itertools.islice(batches, count))


@pytest.fixture
def readers(tasks, encoder):
    return [TaskReader(task, encoder) for task in tasks(SHARES)]


@pytest.fixture
def load(readers):
    """Batches of a fresh loader over the two tasks."""

    def batches(count, workers=0, **places):
        loader = DataLoader(
            TrainDataset(readers, seed=3),
            batch_sampler=sampler(**places),
            collate_fn=Collate(("few", "many")),
            num_workers=workers,
        )
        return take(loader, count)

    return batches


def assert_same(one, other):
    """The same prompts with the same inputs, to the byte."""
    assert one.prompts == other.prompts
    assert (one.tasks, one.skipped) == (other.tasks, other.skipped)
    for a, b in zip(one.inputs, other.inputs, strict=True):
        assert torch.equal(a.input_ids_S, b.input_ids_S)
        assert torch.equal(a.mm_token_type_ids_S, b.mm_token_type_ids_S)
        assert list(a.media) == list(b.media)
        for name, value in a.media.items():
            assert torch.equal(value, b.media[name])
            assert value.dtype == b.media[name].dtype


class TestPlaces:
    @pytest.mark.parametrize("ranks", [2, 3])
    def test_ranks_share_the_global_batch_in_equal_parts(self, ranks):
        whole = take(sampler(12), 5)
        parts = [take(sampler(12, rank=rank, ranks=ranks), 5) for rank in range(ranks)]
        for iteration, batch in enumerate(whole):
            of_ranks = [part[iteration] for part in parts]
            assert {len(places) for places in of_ranks} == {12 // ranks}
            assert [place for places in of_ranks for place in places] == batch

    def test_ranks_get_every_task(self):
        equal = [StreamSampler((1, 1), 8, lambda: 0, rank, 2) for rank in range(2)]
        for part in equal:
            tasks = [place.task for place in next(iter(part))]
            assert sorted(tasks) == [0, 0, 1, 1]

    def test_start_in_the_middle(self):
        assert take(sampler(start=7), 3) == take(sampler(), 10)[7:]

    def test_every_pass_asks_where_to_begin(self):
        position = 0
        stream = StreamSampler(SHARES, 8, lambda: position, 0, 1)
        fetched = take(stream, 5)
        position = 3  # two of the five were fetched ahead
        assert take(stream, 2) == fetched[3:]


class TestTraining:
    def test_workers_change_nothing(self, load):
        alone = load(6)
        for workers in (1, 2):
            for one, other in zip(alone, load(6, workers), strict=True):
                assert_same(one, other)

    def test_restart_gives_what_would_have_come(self, load):
        whole = load(7)
        for one, other in zip(whole[4:], load(3, start=4, workers=1), strict=True):
            assert_same(one, other)

    def test_ranks_see_the_batch_of_one(self, load):
        whole = load(3, prompts=6)
        parts = [load(3, prompts=6, rank=rank, ranks=3) for rank in range(3)]
        for batch, *of_ranks in zip(whole, *parts, strict=True):
            assert batch.prompts == tuple(p for part in of_ranks for p in part.prompts)

    def test_epochs_are_whole_and_shares_are_kept(self, load):
        prompts = [p for batch in load(15, prompts=10) for p in batch.prompts]
        assert [p.index for p in prompts] == list(range(150))
        few = [p.key for p in prompts if p.task == "few"]
        assert len(few) == 45
        for start in range(0, 45, 5):
            assert len(set(few[start : start + 5])) == 5

    def test_prompts_carry_what_their_task_says(self, tasks, encoder):
        task = tasks(template="Say: {question}")[0]
        prompt, inputs = TaskReader(task, encoder).read(2, place=17)
        assert (prompt.task, prompt.index, prompt.reference) == ("few", 17, "2")
        assert prompt.key == "few-000000.tar#002"
        assert prompt.verifier is task.verifier
        text = encoder.processor.tokenizer.decode(inputs.input_ids_S)
        assert "Say: How many few 2?" in text

    def test_max_samples(self, tasks, encoder):
        readers = [TaskReader(task, encoder) for task in tasks(max_samples=4)]
        assert [reader.size for reader in readers] == [4, 4]
        dataset = TrainDataset(readers, 0)
        keys = {dataset[Place(i, 1, i)].prompt.key for i in range(8)}
        assert keys == {f"many-000000.tar#00{i}" for i in range(4)}
        readers = [TaskReader(task, encoder) for task in tasks(max_samples=1000)]
        assert [reader.size for reader in readers] == [5, 33]


class TestPickling:
    def test_datasets_pickle_and_hold_no_file(self, readers):
        def opened():
            return len(os.listdir("/proc/self/fd"))

        before = opened()
        for dataset, at in ((TrainDataset(readers, 3), Place(9, 1, 4)), (EvalDataset(readers), 9)):
            copy = pickle.loads(pickle.dumps(dataset))
            assert_same(Collate(())([copy[at]]), Collate(())([dataset[at]]))
        assert opened() == before

    def test_a_batch_leaves_a_worker_in_a_few_tensors(self, load, encoder):
        # One file descriptor for each tensor would stop a worker at a few hundred prompts.
        (batch,) = load(1, prompts=64)
        text = read_sample({"json": row()}, key="text")
        batch = PromptBatch(
            (*batch.prompts, text, *batch.prompts),
            (*batch.inputs, encoder(text), *batch.inputs),
            batch.tasks,
            batch.skipped,
        )
        copy = pickle.loads(ForkingPickler.dumps(batch))
        assert_same(copy, batch)
        homes = {
            value.untyped_storage().data_ptr()
            for one in copy.inputs
            for value in (one.input_ids_S, one.mm_token_type_ids_S, *one.media.values())
        }
        assert len(homes) == 4


class TestEvaluation:
    @pytest.mark.parametrize("ranks", [1, 2, 3])
    @pytest.mark.parametrize("batch_size", [1, 4, 100])
    def test_every_sample_once_over_the_ranks(self, readers, ranks, batch_size):
        dataset = EvalDataset(readers)
        assert len(dataset) == 38
        batches = [StridedBatches(38, batch_size, rank, ranks) for rank in range(ranks)]
        assert [len(own) for own in batches] == [len(list(own)) for own in batches]
        numbers = [number for own in batches for batch in own for number in batch]
        assert sorted(numbers) == list(range(38))

    def test_samples_keep_their_order_and_number(self, readers):
        dataset = EvalDataset(readers)
        prompts = [dataset[i].prompt for i in range(38)]
        assert [p.index for p in prompts] == list(range(38))
        assert [p.task for p in prompts] == ["few"] * 5 + ["many"] * 33
        assert len({p.key for p in prompts}) == 38


class TestTaskConfig:
    @pytest.mark.parametrize("name", ["", "all", "mean", "accuracy", "a.b", "a/b", "a b"])
    def test_names_that_logs_cannot_use(self, name):
        with pytest.raises(ValueError, match="cannot be the name of a task"):
            TaskConfig(name=name, shards="x.tar", verifier=NumberVerifier())

    @pytest.mark.parametrize("share", [0, -1, float("nan"), float("inf")])
    def test_share(self, share):
        with pytest.raises(ValueError, match="share of 'a' is"):
            TaskConfig(name="a", shards="x.tar", verifier=NumberVerifier(), share=share)

    @pytest.mark.parametrize("count", [0, -3])
    def test_max_samples(self, count):
        with pytest.raises(ValueError, match="max_samples of 'a' is"):
            TaskConfig(name="a", shards="x.tar", verifier=NumberVerifier(), max_samples=count)
