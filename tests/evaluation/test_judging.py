from __future__ import annotations

import time

import pytest
from test_judge import rollout

from sapo_vl.evaluation.judge import Judging
from sapo_vl.types import Answers, Prompt, Verdict
from sapo_vl.verifiers import NumberVerifier, VerifierPool


class SlowPool(VerifierPool):
    """Takes its time over a call; judges in the calling thread."""

    def __init__(self, seconds: float) -> None:
        super().__init__(workers=1)
        self.wait, self.calls = seconds, 0

    def judge(self, pairs: object) -> list[Verdict]:
        time.sleep(self.wait)
        self.calls += 1
        return [Verdict(score=1.0) for _ in pairs]  # type: ignore[attr-defined]


PROMPTS = [Prompt(reference="3", verifier=NumberVerifier(), key="a")]


def keys(answers: list[Answers]) -> list[str]:
    return [answer.sampling for answer in answers]


def test_verdicts_are_made_while_the_caller_goes_on() -> None:
    judging = Judging(SlowPool(0.5), depth=2)
    start = time.monotonic()
    judging.submit(PROMPTS, rollout(["3", "4"]), "first")
    assert judging.collect(everything=False) == []
    assert time.monotonic() - start < 0.4  # did not wait
    assert keys(judging.collect(everything=True)) == ["first"]
    assert time.monotonic() - start >= 0.5


def test_no_more_than_depth_rollouts_wait_and_order_is_kept() -> None:
    pool = SlowPool(0.05)
    judging = Judging(pool, depth=1)
    found: list[str] = []
    for name in "abcde":
        judging.submit(PROMPTS, rollout(["3", "4"]), name)
        found += keys(judging.collect(everything=False))
        assert pool.calls >= len(found) >= ord(name) - ord("a")
    assert found + keys(judging.collect(everything=True)) == list("abcde")


def test_without_a_pool_answers_are_judged_at_once() -> None:
    for pool in (None, VerifierPool(workers=0)):
        judging = Judging(pool, depth=1)
        judging.submit(PROMPTS, rollout([r"\boxed{3}", r"\boxed{4}"]), "now")
        (answers,) = judging.collect(everything=False)
        assert [v.score for v in answers.verdicts] == [1.0, 0.0]


def test_an_error_of_the_pool_reaches_the_caller() -> None:
    judging = Judging(VerifierPool(workers=1), depth=1)
    judging.submit([Prompt(reference="1", key="k", task="x")], rollout(["a", "b"]), "x")
    with pytest.raises(ValueError, match="has no verifier"):
        judging.collect(everything=True)
