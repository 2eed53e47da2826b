"""Metrics against hand examples, published formulae and an outside table of cases."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sapo_vl.evaluation import (
    Accuracy,
    AvgAtN,
    MajorityAtK,
    PartMean,
    PartRatio,
    PassAtK,
    WorstCase,
)
from sapo_vl.types import Answers, Prompt, Verdict

CASES = Path(__file__).resolve().parents[2].parent / "shared/cases/verifier_cases.jsonl"


def answers(key: str, verdicts: list[Verdict], **prompt: Any) -> Answers:
    return Answers(
        Prompt(reference="1", task="t", key=key, **prompt),
        "avg",
        texts=[""] * len(verdicts),
        verdicts=verdicts,
        lengths=[1] * len(verdicts),
        finished=[True] * len(verdicts),
    )


def scored(key: str, *scores: float, **prompt: Any) -> Answers:
    return answers(key, [Verdict(score=score) for score in scores], **prompt)


def voted(key: str, *votes: tuple[str | None, float]) -> Answers:
    return answers(key, [Verdict(score=score, extracted=answer) for answer, score in votes])


def mean(metric: Any, *added: Answers) -> float:
    metric.update(list(added))
    return float(metric.compute()["mean"])


def test_mean_and_standard_error_over_prompts() -> None:
    scores = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    metric = AvgAtN()
    for part in scores.split(7):
        metric.update(part)
    result = metric.compute()
    means = scores.double().mean(1).numpy()
    assert float(result["mean"]) == pytest.approx(means.mean())
    assert float(result["stderr"]) == pytest.approx(means.std(ddof=1) / np.sqrt(40))
    assert float(result["n"]) == 40


def test_samples_of_a_prompt_are_not_counted_as_independent() -> None:
    metric = AvgAtN()
    metric.update(torch.tensor([[1.0] * 100, [0.0] * 100]))
    # Two prompts: the standard deviation of (1, 0) over sqrt(2), however many samples.
    assert float(metric.compute()["stderr"]) == pytest.approx(0.5)


def test_one_prompt_has_no_standard_error() -> None:
    metric = AvgAtN()
    metric.update(torch.tensor([[1.0, 0.0]]))
    result = metric.compute()
    assert float(result["mean"]) == 0.5
    assert all(result[name].isnan() for name in ("stderr", "low", "high"))


def test_no_prompt_at_all_is_no_score() -> None:
    metric = AvgAtN()
    metric.update([])
    result = metric.compute()
    assert float(result["n"]) == 0
    assert result["mean"].isnan()


def test_standard_errors_are_clustered_over_problems() -> None:
    metric = AvgAtN()
    metric.update([scored(f"{p}{v}", float(p < 2), problem=str(p)) for p in range(4) for v in "ab"])
    # Four problems of two variants that agree: as four prompts, not eight.
    assert float(metric.compute()["stderr"]) == pytest.approx(math.sqrt(4 / 3 * 0.25 / 4))


@pytest.mark.parametrize(("n", "right", "k"), [(4, 1, 2), (10, 3, 5), (8, 0, 4), (5, 5, 5)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(n: int, right: int, k: int) -> None:
    scores = [1.0] * right + [0.0] * (n - right)
    subsets = [any(subset) for subset in itertools.combinations(scores, k)]
    assert mean(PassAtK(k), scored("a", *scores)) == pytest.approx(sum(subsets) / len(subsets))


def test_pass_at_k_as_the_product_that_its_authors_published() -> None:
    n, right, k = 200, 13, 100
    product = 1 - np.prod(1 - k / np.arange(n - right + 1, n + 1))
    got = mean(PassAtK(k), scored("a", *[1.0] * right, *[0.0] * (n - right)))
    assert got == pytest.approx(float(product), abs=1e-7)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ValueError, match="pass_at_8 needs 8 samples a prompt; 'a' has 4"):
        PassAtK(8).update([scored("a", 1, 0, 0, 0)])


def test_the_outside_table_of_metric_cases() -> None:
    if not CASES.is_file():
        pytest.skip(f"no file {CASES}: the table of cases is not here")
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    cases = [row for row in rows if row["kind"] == "metric"]
    metrics = {
        "avg@4": AvgAtN,
        "avg@8": AvgAtN,
        "pass@4": lambda: PassAtK(4),
        "pass@2 (unbiased)": lambda: PassAtK(2),
        "mean ANLS": AvgAtN,
    }
    for case in cases:
        metric = metrics[case["reference"]]()
        metric.update(torch.tensor(case["prediction"], dtype=torch.float64))
        # Where fewer samples exist than the name says, those that exist are the denominator.
        wanted = 1.0 if case["expected_reward"] is None else case["expected_reward"]
        assert float(metric.compute()["mean"]) == pytest.approx(wanted), case["id"]
    assert len(cases) >= 5


def test_the_majority_is_scored_and_a_tie_goes_to_the_answer_that_came_first() -> None:
    assert mean(MajorityAtK(), voted("a", ("3", 0), ("4", 1), (" 4 ", 1))) == 1
    assert mean(MajorityAtK(), voted("a", ("3", 0), ("4", 1))) == 0
    assert mean(MajorityAtK(), voted("a", ("4", 1), ("3", 0))) == 1
    assert mean(MajorityAtK(), voted("a", (None, 0), (None, 0), ("4", 1))) == 1
    assert mean(MajorityAtK(), voted("a", (None, 0), (None, 0))) == 0
    assert mean(MajorityAtK(2), voted("a", ("4", 1), ("4", 1), ("3", 0), ("3", 0), ("3", 0))) == 1


def test_a_problem_counts_when_every_variant_is_right() -> None:
    metric = WorstCase()
    metric.update([scored("1", 1, 1, problem="p"), scored("2", 1, 0, problem="p")])
    metric.update([scored("3", 1, 1, problem="q"), scored("4", 0, 0, problem="r")])
    result = metric.compute()
    assert float(result["mean"]) == pytest.approx((0.5 + 1 + 0) / 3)
    assert float(result["n"]) == 3


def test_thresholds_and_parts_of_the_breakdown() -> None:
    boxes = [Verdict(score=iou, parts={"iou": iou}) for iou in (0.5, 0.49)]
    assert mean(Accuracy(0.5), answers("a", boxes)) == 0.5
    assert mean(PartMean("iou"), answers("a", [*boxes, Verdict(score=0)])) == pytest.approx(0.33)
    grids = [
        answers(str(cells), [Verdict(score=0, parts={"right": right, "cells": cells})])
        for right, cells in ((4, 4), (6, 36))
    ]
    assert mean(PartRatio("right", "cells", "cell"), *grids) == 0.25


def test_scores_by_category_and_what_is_left_out() -> None:
    metric = AvgAtN()
    unreadable = Verdict(score=0, status="unparsable_reference")
    metric.update(
        [
            scored("1", 1, categories={"skill": ("a", "b"), "level": ("1",)}),
            scored("2", 0, categories={"skill": ("b",), "level": ("1",)}),
            answers("3", [unreadable], categories={"skill": ("a",), "level": ("2",)}),
        ]
    )
    result = metric.compute()
    assert float(result["n"]) == 2
    skills = {value: float(score["mean"]) for value, score in result["categories"]["skill"].items()}
    assert skills == {"a": 1.0, "b": 0.5}
    assert list(result["categories"]["level"]) == ["1"]


def test_the_bootstrap_interval_covers_the_mean_and_is_always_the_same() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(60):
        metric = AvgAtN()
        metric.update(torch.tensor(rng.random((80, 1)) < 0.3, dtype=torch.float64))
        result = metric.compute()
        covered += float(result["low"]) <= 0.3 <= float(result["high"])
        again = AvgAtN()
        again.lines = metric.lines
        assert again.compute()["low"] == result["low"]
    assert covered >= 52  # 95 % of 60 is 57; fewer than 52 happens once in 300 times


def test_bad_settings_are_named() -> None:
    for make in (lambda: PassAtK(0), lambda: MajorityAtK(0), lambda: Accuracy(1.5)):
        with pytest.raises(ValueError, match=r"k of|threshold is"):
            make()
