from __future__ import annotations

import pytest
import torch

from sapo_vl.evaluation import answers_of, judge
from sapo_vl.types import Prompt, Rollout, Verdict
from sapo_vl.verifiers import NumberVerifier, VerifierPool


def rollout(texts: list[str]) -> Rollout:
    zeros = torch.zeros(len(texts), 3)
    return Rollout(
        group_size=2,
        response_ids_BT=zeros.long(),
        mask_BT=torch.tensor([[1, 1, i % 2] for i in range(len(texts))]).bool(),
        logp_BT=zeros,
        entropy_BT=zeros,
        finished_B=torch.tensor([i % 2 == 0 for i in range(len(texts))]),
        texts=tuple(texts),
    )


def test_each_response_is_judged_by_its_prompts_verifier() -> None:
    prompts = [Prompt(reference=r, verifier=NumberVerifier(), key=r) for r in ("3", "4")]
    drawn = rollout([r"\boxed{3}", r"\boxed{4}", r"\boxed{4}", "none"])
    verdicts = judge(prompts, drawn)
    assert [v.score for v in verdicts] == [1.0, 0.0, 1.0, 0.0]
    assert verdicts[3].status == "no_answer"
    first, second = answers_of(prompts, drawn, verdicts, "avg2")
    assert (first.prompt.key, first.texts) == ("3", (r"\boxed{3}", r"\boxed{4}"))
    assert (second.lengths, second.finished) == ((2, 3), (True, False))


def test_a_verifier_that_raises_scores_zero_and_says_so() -> None:
    class Broken:
        def __call__(self, prompt: Prompt, response: str) -> Verdict:
            raise RuntimeError("bug")

    verdicts = judge([Prompt(reference="1", verifier=Broken())], rollout(["a", "b"]))
    assert {v.status for v in verdicts} == {"error"}
    assert "RuntimeError: bug" in verdicts[0].reason
    assert sum(v.score for v in verdicts) == 0


def test_a_prompt_without_verifier_is_named() -> None:
    with pytest.raises(ValueError, match="shard#7 of task 'x' has no verifier"):
        judge([Prompt(reference="1", key="shard#7", task="x")], rollout(["a", "b"]))


def test_a_pool_gives_the_same_verdicts() -> None:
    prompts = [Prompt(reference=r, verifier=NumberVerifier(), key=r) for r in ("3", "4")]
    drawn = rollout([r"\boxed{3}", r"\boxed{4}", r"\boxed{4}", "none"])
    with VerifierPool(workers=1) as pool:
        assert judge(prompts, drawn, pool) == judge(prompts, drawn)
        with pytest.raises(ValueError, match="shard#7 of task 'x' has no verifier"):
            judge([Prompt(reference="1", key="shard#7", task="x")], rollout(["a", "b"]), pool)
