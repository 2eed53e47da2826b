"""We-Math's four-part metric: by hand, and against the table that We-Math's own scripts gave."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from sapo_vl.evaluation import CategoryMean, FourPart
from sapo_vl.evaluation.four_part import case_of
from sapo_vl.types import Answers, Prompt, Verdict


def question(problem: str, key: str, *rights: int) -> Answers:
    return Answers(
        Prompt(
            reference="B",
            task="wemath",
            key=f"{problem} {key}",
            problem=problem,
            categories={"step": (key,)},
        ),
        "greedy",
        texts=[""] * len(rights),
        verdicts=[Verdict(score=float(right)) for right in rights],
        lengths=[1] * len(rights),
        finished=[True] * len(rights),
    )


def problem(name: str, *samples: tuple[int, ...]) -> list[Answers]:
    """A problem of which every sample is (step, step, ..., whole)."""
    steps = len(samples[0]) - 1
    keys = [*(f"{steps}steps_{i}" for i in range(1, steps + 1)), f"{steps}steps_multi"]
    columns = zip(*samples, strict=True)
    return [question(name, key, *rights) for key, rights in zip(keys, columns, strict=True)]


def scores(answers: list[Answers], *metrics: Any) -> dict[str, float]:
    found = {}
    for metric in metrics:
        metric.update(answers)
        found[metric.name] = float(metric.compute()["mean"])
    return found


def every_part() -> list[FourPart]:
    return [
        FourPart("score"),
        FourPart("score", loose=True),
        FourPart("insufficient_knowledge"),
        FourPart("inadequate_generalization"),
        FourPart("complete_mastery"),
        FourPart("complete_mastery", loose=True),
        FourPart("rote_memorization"),
        FourPart("rote_memorization", loose=True),
    ]


@pytest.mark.parametrize(
    ("steps", "whole", "strict", "loose"),
    [
        ((1, 1), 1, "complete_mastery", "complete_mastery"),
        ((1, 0), 1, "rote_memorization", "complete_mastery"),
        ((0, 0), 1, "rote_memorization", "rote_memorization"),
        ((1, 1), 0, "inadequate_generalization", "inadequate_generalization"),
        ((1, 0), 0, "insufficient_knowledge", "insufficient_knowledge"),
        ((0, 0), 0, "insufficient_knowledge", "insufficient_knowledge"),
        ((1, 1, 0), 1, "rote_memorization", "complete_mastery"),
        ((1, 1, 0), 0, "insufficient_knowledge", "insufficient_knowledge"),
    ],
)
def test_the_four_cases(steps: tuple[int, ...], whole: int, strict: str, loose: str) -> None:
    rights = [right == 1 for right in steps]
    assert case_of(rights, whole == 1, loose=False) == strict
    assert case_of(rights, whole == 1, loose=True) == loose


def test_four_problems_by_hand() -> None:
    # Strict: mastery, rote, inadequate, insufficient. Loose: the second is mastery as well.
    answers = [
        *problem("p", (1, 1, 1)),
        *problem("q", (1, 0, 0, 1)),
        *problem("r", (1, 1, 1, 0)),
        *problem("s", (0, 1, 0)),
    ]
    assert scores(answers, *every_part()) == {
        "score_strict": (1 + 0.5) / 4,
        "score_loose": (2 + 0.5) / 4,
        "insufficient_knowledge": 1 / 4,
        "inadequate_generalization": 1 / 4,
        "complete_mastery_strict": 1 / 4,
        "complete_mastery_loose": 2 / 4,
        "rote_memorization_strict": 1 / 2,  # of the two whose composed form is right
        "rote_memorization_loose": 0 / 2,
    }


# What evaluation/four_dimensional_metrics.py and accuracy.py of github.com/We-Math/We-Math
# (a57a0e8) print for the verdicts of `published`, run once on a JSON file of these 1,740 answers.
OFFICIAL = {
    "score_strict": 0.2914,
    "score_loose": 0.5962,
    "insufficient_knowledge": 0.2781,
    "inadequate_generalization": 0.1638,
    "complete_mastery_strict": 0.2095,
    "complete_mastery_loose": 0.5143,
    "rote_memorization_strict": 0.6246,
    "rote_memorization_loose": 0.0785,
    "S1": 0.6609,
    "S2": 0.5556,
    "S3": 0.5636,
}
ONE_STEP = ["2steps_1", "2steps_2", "3steps_1", "3steps_2", "3steps_3"]


def published() -> list[Answers]:
    """As many problems as testmini has, every pattern of verdicts another number of times."""
    times = {2: [10 * i + 10 for i in range(8)], 3: [*(i + 2 for i in range(15)), 30]}
    answers: list[Answers] = []
    for steps, counts in times.items():
        patterns = itertools.product((0, 1), repeat=steps + 1)
        for pattern, count in zip(patterns, counts, strict=True):
            for i in range(count):
                answers += problem(f"{steps}steps {pattern} {i}", pattern)
    random.Random(0).shuffle(answers)
    return answers


def test_the_numbers_of_the_official_scripts() -> None:
    answers = published()
    assert len(answers) == 1740
    found = scores(
        answers,
        *every_part(),
        CategoryMean("step", ONE_STEP, "S1"),
        CategoryMean("step", ["2steps_multi"], "S2"),
        CategoryMean("step", ["3steps_multi"], "S3"),
    )
    assert {name: round(value, 4) for name, value in found.items()} == OFFICIAL


def test_every_sample_is_judged_by_itself() -> None:
    metric = FourPart("complete_mastery")
    # No sample masters both problems, each masters one of them.
    metric.update([*problem("p", (1, 1, 1), (0, 0, 0)), *problem("q", (0, 0, 0), (1, 1, 1))])
    result = metric.compute()
    assert float(result["mean"]) == 0.5
    assert float(result["n"]) == 2
    assert result["categories"] == {}
    mixed = problem("p", (1, 0, 1), (0, 1, 1))  # every step is right once, but not in one sample
    assert scores(mixed, FourPart("complete_mastery")) == {"complete_mastery_strict": 0}


def test_the_share_of_rote_memorization_is_of_the_problems_whose_composed_form_is_right() -> None:
    metric = FourPart("rote_memorization")
    metric.update([*problem("p", (1, 1, 0)), *problem("q", (0, 1, 1)), *problem("r", (1, 1, 1))])
    result = metric.compute()
    assert (float(result["mean"]), float(result["n"])) == (0.5, 2)


def test_a_problem_without_one_of_its_questions_is_left_out() -> None:
    metric = FourPart("insufficient_knowledge")
    metric.update([*problem("p", (0, 0, 0)), *problem("q", (0, 0, 0, 0))[1:]])
    assert float(metric.compute()["n"]) == 1


def test_problems_of_two_and_three_steps_may_have_one_name() -> None:
    metric = FourPart("complete_mastery")
    metric.update([*problem("1", (1, 1, 1)), *problem("1", (0, 0, 0, 0))])
    result = metric.compute()
    assert (float(result["mean"]), float(result["n"])) == (0.5, 2)


def test_what_is_missing_in_the_config_is_named() -> None:
    metric = FourPart(field="part")
    metric.update(problem("p", (1, 1, 1)))
    with pytest.raises(ValueError, match=r"category 'part' of 'wemath p' is \[\].*2steps_1"):
        metric.compute()
    other = CategoryMean("level", ["1"], "first")
    other.update(problem("p", (1, 1, 1)))
    with pytest.raises(ValueError, match="first needs the category 'level'"):
        other.compute()
    with pytest.raises(ValueError, match="part is 'knowledge'"):
        FourPart("knowledge")  # type: ignore[arg-type]
