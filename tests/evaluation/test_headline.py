"""The mean over tasks: its numbers, and its way from the YAML to the results."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from datamodules import BenchmarkDataModule, TaskConfig
from datamodules.benchmarks import Headline
from sapo_vl.evaluation import AvgAtN, PartMean
from sapo_vl.evaluation.headline import mean_of_tasks
from sapo_vl.evaluation.scoreboard import Scoreboard
from sapo_vl.report.breakdown import score_rows
from sapo_vl.types import Answers, Prompt, PromptBatch, Sampling, Verdict
from sapo_vl.verifiers import ChoiceVerifier


def answers(task: str, scores: list[float]) -> list[Answers]:
    return [
        Answers(
            Prompt(reference="1", task=task, key=str(i)),
            "greedy",
            texts=[""],
            verdicts=[Verdict(score=score, parts={"iou": score / 2})],
            lengths=[1],
            finished=[True],
        )
        for i, score in enumerate(scores)
    ]


def results(headlines: dict[str, list[str]]) -> dict[str, Any]:
    board = Scoreboard({"greedy": Sampling(group_size=1)}, torch.device("cpu"))
    metrics = {"a": [AvgAtN(), PartMean("iou")], "b": [AvgAtN(), PartMean("iou")], "c": [AvgAtN()]}
    batch = PromptBatch([], [], ["a", "b", "c"], metrics=metrics)
    batch.headlines = headlines
    board.begin(batch)
    # 1 of 2, 1 of 8 and 3 of 4 are right: tasks of unlike size.
    board.update([*answers("a", [1, 0]), *answers("b", [1, *[0] * 7]), *answers("c", [1, 1, 1, 0])])
    return board.compute()


def test_every_task_counts_the_same_whatever_its_size() -> None:
    score = results({"both": ["a", "b"]})["headlines"]["both"]["greedy"]
    assert score["mean"] == pytest.approx((1 / 2 + 1 / 8) / 2)
    assert score["metrics"]["iou"]["mean"] == pytest.approx((1 / 4 + 1 / 16) / 2)
    assert (score["metric"], score["n"], score["tasks"]) == ("avg", 10, ["a", "b"])


def test_the_standard_error_is_that_of_a_mean_of_independent_tasks() -> None:
    found = results({"both": ["a", "b"]})
    score = found["headlines"]["both"]["greedy"]
    parts = [found["tasks"][task]["greedy"]["stderr"] for task in ("a", "b")]
    assert score["stderr"] == pytest.approx(math.sqrt(parts[0] ** 2 + parts[1] ** 2) / 2)
    assert score["high"] - score["low"] == pytest.approx(2 * 1.96 * score["stderr"])


def test_metrics_that_a_task_lacks_have_no_mean() -> None:
    score = results({"three": ["a", "b", "c"]})["headlines"]["three"]["greedy"]
    assert list(score["metrics"]) == ["avg"]
    first = {"mean": 0.5, "stderr": 0.0, "n": 1}
    unlike = {name: {"metric": name, "metrics": {name: first}} for name in ("x", "y")}
    assert mean_of_tasks(unlike)["metrics"]["x"]["mean"] == 0.5


def test_the_report_has_a_row_for_it() -> None:
    rows = score_rows(results({"both": ["a", "b"]}))
    (row,) = [r for r in rows if r.task == "both (headline)" and r.metric == "avg"]
    assert (row.mean, row.n) == (pytest.approx(0.3125), 10)
    assert not [row for row in score_rows(results({})) if "headline" in row.task]


@pytest.mark.parametrize(
    ("headline", "message"),
    [
        (
            Headline(name="x", tasks=["one", "two"]),
            "x is the mean of two, which is .* are one",
        ),
        (Headline(name="x", tasks=[]), "x is the mean of nothing"),
        (Headline(name="one", tasks=["one"]), "one is the name of a task"),
    ],
)
def test_a_headline_of_tasks_that_are_not_there_is_refused(
    headline: Headline, message: str
) -> None:
    task = TaskConfig(name="one", shards="one.tar", verifier=ChoiceVerifier())
    with pytest.raises(ValueError, match=f"data.headlines: {message}"):
        BenchmarkDataModule("FOLDER", [task], headlines=[headline])
