"""The models, prompts and cases of the benchmark: exact sizes on both families."""

from __future__ import annotations

from pathlib import Path

import pytest

from sapo_vl.bench.cases import DEFAULT, LARGE, Case, ModelSpec, grid
from sapo_vl.bench.models import build_folder, character_tokenizer
from sapo_vl.bench.ours import MODES, Ours
from sapo_vl.bench.prompts import ChecksumVerifier, checksum_reward, make_prompts
from sapo_vl.protocols import Verifier

TINY = Case(prompt=44, response=5, group=3)


def spec(family: str = "qwen2_5_vl") -> ModelSpec:
    return ModelSpec(family=family, vocabulary=300, hidden=64, layers=2)


def test_default_case_is_the_one_of_the_summary() -> None:
    assert (DEFAULT.prompt, DEFAULT.response, DEFAULT.group) == (313, 64, 8)
    assert DEFAULT.picture_side**2 == 256
    assert (DEFAULT.tokens_needed, DEFAULT.tokens_repeated) == (825, 3016)
    assert LARGE.picture_side**2 == 1024


def test_grid_has_every_size_once_and_room_for_a_picture() -> None:
    cases = grid()
    assert len(cases) == len(set(cases)) == 27
    assert {c.picture_side for c in cases} == {8, 16, 32}


def test_too_short_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a picture"):
        Case(prompt=20, response=4, group=2)


def test_tokenizer_fills_the_vocabulary_and_reads_its_own_text() -> None:
    tokenizer = character_tokenizer(400)
    assert len(tokenizer) == 400
    ids = tokenizer("How many?")["input_ids"]
    assert len(ids) == len("How many?")
    assert tokenizer.decode(ids) == "How many?"
    assert tokenizer.decode([399])  # a filling token, which only a model writes
    with pytest.raises(ValueError, match="too small"):
        character_tokenizer(100)


def test_unknown_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="qwen2_5_vl, qwen3_vl"):
        build_folder(spec("llava"), tmp_path)


def test_a_width_without_whole_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        ModelSpec(hidden=100)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_our_side_draws_full_length_and_scores_alike_in_every_mode(
    family: str, tmp_path: Path
) -> None:
    build_folder(spec(family), tmp_path)
    ours = Ours(spec(family), tmp_path, TINY, make_prompts(TINY, 2))
    assert [len(x.input_ids_S) for x in ours.batch.inputs] == [44, 44]
    before = ours.policy.banned_V.clone()
    ids_BT = ours.rollout()
    assert ids_BT.shape == (3, 5)
    assert bool((ours.policy.banned_V == before).all())  # the ban on ending is lifted again
    scores = [ours.score(mode, ids_BT).logp_BT.detach() for mode in MODES]
    for other in scores[1:]:
        assert float((other - scores[0]).abs().max()) < 1e-5
    ours.update("shared", ids_BT)
    assert all(p.grad is None for p in ours.policy.parameters())


def test_an_iteration_trains_and_is_timed(tmp_path: Path) -> None:
    build_folder(spec(), tmp_path)
    ours = Ours(spec(), tmp_path, TINY, make_prompts(TINY, 2))
    weight = ours.policy.model.lm_head.weight
    before = weight.detach().clone()
    assert ours.iteration() > 0
    assert bool((weight != before).any())
    assert ours.iteration() > 0  # again, with the same module


def test_rewards_differ_within_a_group() -> None:
    assert isinstance(ChecksumVerifier(), Verifier)
    rewards = [checksum_reward(text) for text in ("a", "b", "ab", "")]
    assert len(set(rewards)) == 4
    assert all(0 <= reward < 1 for reward in rewards)
