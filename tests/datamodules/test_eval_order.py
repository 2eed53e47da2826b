"""In which order, and which, samples of a test are read."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from pathlib import Path

import pytest
from project import Project

from datamodules import TaskConfig
from datamodules.encode import Encoder
from datamodules.grouping import described, grouped
from datamodules.shards import write_shards
from datamodules.stream import EvalDataset, StridedBatches, TaskReader
from sapo_vl.evaluation import PassAtK
from sapo_vl.types import Prompt
from sapo_vl.verifiers import CombinedVerifier, NumberVerifier


@pytest.fixture(scope="module")
def encoder(project: Project) -> Encoder:
    return Encoder(project.model, 4096, 256, 65536)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TaskConfig:
    folder = tmp_path_factory.mktemp("lengths")
    samples = [
        {"key": f"{i:02d}", "question": "word " * (i * 7 % 20 + 1), "answer": "1", "seed": i // 2}
        for i in range(20)
    ]
    write_shards(samples, folder, "lengths")
    return TaskConfig(name="t", shards=str(folder / "*.tar"), verifier=NumberVerifier())


def test_batches_hold_prompts_of_about_one_length_the_longest_first(
    task: TaskConfig, encoder: Encoder
) -> None:
    dataset = EvalDataset([TaskReader(task, encoder)])
    batches = list(StridedBatches(20, 4, 0, 1, dataset.length))
    sizes = [[len(dataset[i].inputs.input_ids_S) for i in batch] for batch in batches]
    assert sorted(functools.reduce(operator.iadd, batches, [])) == list(range(20))
    assert sizes[0][0] == max(map(max, sizes))
    assert all(min(a) >= max(b) - 2 for a, b in itertools.pairwise(sizes))


def test_ranks_share_the_samples_and_one_without_any_gets_an_empty_batch() -> None:
    parts = [list(StridedBatches(2, 4, rank, 3, lambda _: 0)) for rank in range(3)]
    assert parts == [[[0]], [[1]], [[]]]
    assert [len(StridedBatches(2, 4, rank, 3)) for rank in range(3)] == [1, 1, 1]


def test_finished_samples_are_left_out_and_the_others_keep_their_places(
    task: TaskConfig, encoder: Encoder
) -> None:
    reader = TaskReader(task, encoder)
    finished = {("t", reader.key(number)) for number in range(0, 20, 2)}
    dataset = EvalDataset([reader], finished | {("other", reader.key(1))})
    prompts = [dataset[i].prompt for i in range(len(dataset))]
    assert [prompt.index for prompt in prompts if prompt] == list(range(1, 20, 2))


def test_a_subset_is_drawn_once_for_all(task: TaskConfig, encoder: Encoder) -> None:
    def keys(seed: int | None) -> list[str]:
        subset = dataclasses.replace(task, max_samples=6, subset_seed=seed)
        reader = TaskReader(subset, encoder)
        return [reader.read(number, 0)[0].key.split("#")[1] for number in range(reader.size)]

    assert keys(None) == ["00", "01", "02", "03", "04", "05"]
    assert keys(3) == keys(3) != keys(4)
    assert len(set(keys(3))) == 6
    assert keys(3) != keys(None)


def test_problem_and_categories_come_from_the_samples_json(
    task: TaskConfig, encoder: Encoder
) -> None:
    named = dataclasses.replace(task, problem="seed", categories=["seed"])
    prompt, _ = TaskReader(named, encoder).read(5, 0)
    assert (prompt.problem, prompt.categories) == ("2", {"seed": ("2",)})
    meta = {"metadata": {"skills": ["a", "b", "a"], "grade": 3}, "none": []}
    prompt = grouped(
        Prompt(reference="1", meta=meta), None, ["metadata.skills", "metadata.grade", "x.y", "none"]
    )
    assert prompt.categories == {
        "metadata.skills": ("a", "b"),
        "metadata.grade": ("3",),
        "x.y": ("",),
        "none": ("",),
    }
    assert prompt.problem == ""


def test_a_task_is_described_with_its_verifiers_settings(task: TaskConfig) -> None:
    told = described(dataclasses.replace(task, metrics=[PassAtK(8)]))
    assert told["verifier"]["class"] == "sapo_vl.verifiers.number.NumberVerifier"
    assert told["verifier"]["form"] == "boxed"
    assert told["metrics"] == [{"class": "sapo_vl.evaluation.metrics.PassAtK", "name": "pass_at_8"}]
    assert Path(told["shards"]).suffix == ".tar"
    combined = CombinedVerifier({"answer": NumberVerifier()})
    parts = described(dataclasses.replace(task, verifier=combined))["verifier"]
    assert "NumberVerifier" in str(parts)
