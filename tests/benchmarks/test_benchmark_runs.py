"""Every benchmark from its published layout to its score: shards, wording, verdicts, result."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from eval_config import BENCHMARKS, EVAL, tasks
from project import Project, trainer
from published_answers import ANSWERS
from published_sets import SETS

from datamodules import BenchmarkDataModule, TaskConfig
from datamodules.benchmarks import Headline, read_suite
from datamodules.samples import read_sample
from datamodules.shard_index import ShardIndex, expand_shards
from sapo_vl.callbacks import ResultWriter
from sapo_vl.types import PromptBatch, Rollout, Sampling

# Without shards of their own: they hold tasks of other files, or judge those in another way.
SUITES = {"sapo_paper", "mathvista_judge", "mathverse_judge", "logicvista_judge"}


class Scripted:
    """A rollout engine that gives each prompt of a task the response prepared for it."""

    def __init__(self, keys: dict[str, list[str]]) -> None:
        self.keys = keys
        self.seen: list[tuple[str, int]] = []

    def ready(self, policy: Any, strategy: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def __call__(self, policy: Any, batch: PromptBatch, sampling: Sampling, seed: Any) -> Rollout:
        texts = []
        for prompt in batch.prompts:
            number = self.keys[prompt.task].index(prompt.key)
            self.seen.append((prompt.task, sampling.group_size))
            texts += [ANSWERS[prompt.task][number][0]] * sampling.group_size
        ones = torch.ones(len(texts), 1)
        return Rollout(
            group_size=sampling.group_size,
            response_ids_BT=ones.long(),
            mask_BT=ones.bool(),
            logp_BT=0 * ones,
            entropy_BT=0 * ones,
            finished_B=torch.ones(len(texts)).bool(),
            texts=tuple(texts),
        )


def here(task: TaskConfig, shards: Path) -> TaskConfig:
    """The task with its shards in another folder than ``data/``, by the same names."""
    assert isinstance(task.shards, str)
    return replace(task, shards=str(shards / task.shards.removeprefix("data/")))


def index_of(task: TaskConfig) -> ShardIndex:
    return ShardIndex(expand_shards(task.shards))


def run(
    project: Project,
    benchmarks: list[TaskConfig],
    folder: Path,
    headlines: list[Headline] | None = None,
    **changes: Any,
) -> tuple[dict[str, Any], list[dict[str, Any]], Scripted]:
    engine = Scripted({task.name: index_of(task).keys for task in benchmarks})
    model = project.sapo(rollout=engine, **changes)
    data = BenchmarkDataModule(
        project.model,
        benchmarks,
        headlines=headlines,
        num_workers=0,
        eval_batch_size=4,
        min_pixels=256,
        max_pixels=1024,
        max_skipped_share=0.0,
    )
    trainer(folder, callbacks=[ResultWriter(str(folder))]).test(model, data, verbose=False)
    lines = (folder / "samples.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    records.sort(key=lambda record: engine.keys[record["task"]].index(record["key"]))
    return json.loads((folder / "metrics.json").read_text()), records, engine


@pytest.fixture(scope="module")
def everything(
    project: Project, benchmark_shards: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All benchmarks in one test run."""
    chosen = [here(task, benchmark_shards) for name in SETS for task in tasks(name).values()]
    headlines = [
        Headline(name=headline, tasks=list(parts))
        for name in ("mmmu_pro", "refcoco")
        for headline, parts in read_suite(EVAL / f"{name}.yaml").headlines.items()
    ]
    metrics, records, _ = run(project, chosen, tmp_path_factory.mktemp("everything"), headlines)
    return metrics, records


def test_no_benchmark_is_left_out() -> None:
    assert set(SETS) | SUITES == set(BENCHMARKS)
    assert {task for name in SETS for task in tasks(name)} == set(ANSWERS)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_official_and_own_scores_come_from_one_set_of_answers(
    everything: tuple[dict[str, Any], list[dict[str, Any]]], name: str
) -> None:
    metrics, records = everything
    expected = ANSWERS[name]
    result = metrics["tasks"][name]["greedy"]["metrics"]["avg"]
    assert result["n"] == len(expected)
    assert result["mean"] == pytest.approx(sum(score for _, score, _ in expected) / len(expected))
    found = [record["responses"][0] for record in records if record["task"] == name]
    for response, (text, score, parts) in zip(found, expected, strict=True):
        assert response["text"] == text
        assert response["score"] == pytest.approx(score), response
        assert response["status"] in ("ok", "no_answer"), response
        beside = {part: response["parts"][part] for part in parts}
        assert beside == pytest.approx(parts), response


def test_the_headline_of_wemath_joins_a_problem_and_its_steps(
    everything: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    result = everything[0]["tasks"]["wemath"]["greedy"]
    # Of one problem the first step and the whole are right: mastery, if one is not strict.
    assert (result["metric"], result["mean"], result["n"]) == ("score_strict", 0, 1)
    assert result["metrics"]["score_loose"]["mean"] == 1
    assert result["metrics"]["rote_memorization_strict"]["mean"] == 1
    assert result["metrics"]["S1"]["mean"] == 0.5
    assert result["metrics"]["S2"]["mean"] == 1
    assert result["metrics"]["S3"]["n"] == 0


def test_published_means_over_tasks_are_headlines(
    everything: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    metrics, _ = everything
    assert set(metrics["headlines"]) == {"mmmu_pro", "refcoco"}
    pro = metrics["headlines"]["mmmu_pro"]["greedy"]
    assert pro["tasks"] == ["mmmu_pro_standard_10", "mmmu_pro_vision"]
    parts = [metrics["tasks"][task]["greedy"]["mean"] for task in pro["tasks"]]
    assert pro["mean"] == pytest.approx(sum(parts) / 2)
    boxes = metrics["headlines"]["refcoco"]["greedy"]
    assert len(boxes["tasks"]) == 8
    assert boxes["metrics"]["iou"]["mean"] == pytest.approx(1)


def test_cells_of_all_puzzles_are_one_accuracy(
    everything: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    result = everything[0]["tasks"]["zebralogic"]["greedy"]["metrics"]
    assert result["cell_accuracy"]["mean"] == pytest.approx((4 + 3 + 0) / 12)
    sizes = {name: result[name]["n"] for name in ("small", "medium", "large", "xl")}
    assert sizes == {"small": 3, "medium": 0, "large": 0, "xl": 0}


def test_a_window_of_dates_is_a_score_of_its_own(
    everything: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    result = everything[0]["tasks"]["livecodebench_v6"]["greedy"]
    assert result["metrics"]["window_2502_2505"]["n"] == 2
    assert list(result["categories"]["month"]) == ["2025-02"]


def test_the_wordings_are_as_the_harnesses_ask(
    everything: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    questions: dict[str, str] = {}
    for record in everything[1]:
        questions.setdefault(record["task"], record["question"])
    assert questions["mathvision"] == (
        "[image] Please solve the problem step by step and put your answer in one "
        '"\\boxed{}". If it is a multiple choice question, only one letter is allowed in the '
        '"\\boxed{}".\nHow many?\n<image1>\n(A) 3\n(B) 4\n(C) 5\n(D) 6\n(E) 7'
    )
    assert questions["chartqa"] == (
        "[image] Value in 2010?\nAnswer the question with a single word."
    )
    assert questions["mmmu"] == (
        "Which one is in  [image] ?\n\n(A) It's one\n(B) two\n\n"
        "Answer with the option's letter from the given choices directly."
    )
    assert questions["wemath"].startswith(
        "[image] Now, we require you to solve a multiple-choice math question.\nPlease briefly "
        "describe your thought process and provide the final answer(option).\nQuestion: How large?"
        "\nOption: A. 2 cm; B. 4 cm; C. 5 cm; E. No correct answer\nRegarding the format,"
    )
    assert '"the dog on the left", "black dog" in the image.' in questions["refcoco_val"]
    assert questions["emma_fast"].startswith(
        "[image] [image] Look at <image_1>.\nWhich follows <image_1>?\nA: <image_2>\nB: none\n"
    )
    grid = questions["zebralogic"].rpartition("json format:")[2]
    assert json.loads(grid)["solution"]["House 2"] == {"Name": "___", "Drink": "___"}
    code = [r["question"] for r in everything[1] if r["task"] == "livecodebench_v6"]
    assert code[0].startswith("### Question:\nDouble the number.\n\n### Format: Read the inputs")
    assert "use the following starter code" in code[1]
    assert "```python\nclass Solution:\n    def double" in code[1]
    assert questions["puzzlevqa"] == (
        "[image] Question: What is missing?\nOptions:\n(A) 6\n(B) 3\n(C) 4\n\n"
        "Answer: Let's describe the image first and think step by step."
    )


@pytest.mark.parametrize("name", list(SETS))
def test_every_wording_can_be_filled_and_gives_no_answer_away(
    benchmark_shards: Path, name: str
) -> None:
    for task in tasks(name).values():
        index = index_of(here(task, benchmark_shards))
        template: Any = task.template
        for use in template.texts:
            for i in range(len(index)):
                prompt = read_sample(
                    index.read(i), key=index.keys[i], template=replace(template, use=use)
                )
                content = prompt.messages[-1]["content"]
                text = "".join(part.get("text", "") for part in content)
                assert "{{" not in text
                assert "None" not in text
                assert "\n\n\n\n" not in text
                if name == "livecodebench_v6":
                    assert prompt.reference not in text


def test_samples_per_task_as_the_paper_has_them(
    project: Project, benchmark_shards: Path, tmp_path: Path
) -> None:
    paper = [here(task, benchmark_shards) for task in tasks("sapo_paper").values()]
    names = ["aime25", "livecodebench_v6", "zebralogic", "mathvision"]
    assert [task.name for task in paper] == names
    content = yaml.safe_load((EVAL / "sapo_paper.yaml").read_text())
    samples = content["model"]["init_args"]["samples_per_task"]
    metrics, records, engine = run(project, paper, tmp_path, samples_per_task=samples)
    wanted = {"aime25": 32, "livecodebench_v6": 8, "zebralogic": 1, "mathvision": 1}
    assert dict(engine.seen) == wanted
    assert {r["task"]: len(r["responses"]) for r in records} == wanted
    first = next(r for r in records if r["task"] == "aime25")
    assert {r["score"] for r in first["responses"]} == {1}
    assert metrics["tasks"]["aime25"]["greedy"]["mean"] == 0.5
    assert metrics["tasks"]["livecodebench_v6"]["greedy"]["mean"] == 1


def test_a_number_of_samples_below_one_is_refused(project: Project) -> None:
    with pytest.raises(ValueError, match=r"samples_per_task: aime25 has 0"):
        project.sapo(samples_per_task={"aime25": 0})


@pytest.mark.parametrize("name", ["aime25", "livecodebench_v6", "zebralogic", "mathvision"])
def test_the_papers_tasks_are_those_of_their_own_files(name: str) -> None:
    assert tasks("sapo_paper")[name] == tasks(name)[name]
