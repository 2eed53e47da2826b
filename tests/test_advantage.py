"""Group-relative advantages: the paper's formula, exact zeros, errors that say what to do."""

import json
import math
import statistics
from pathlib import Path

import pytest
import torch

from sapo_vl.advantage import group_advantages, informative_groups

VECTORS = Path(__file__).resolve().parents[1].parent / "shared" / "facts" / "sapo_vectors.json"
ONE_IN_FOUR = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.skipif(
    not VECTORS.is_file(), reason="the stored SAPO vectors are not beside this checkout"
)
@pytest.mark.parametrize(
    ("name", "std", "eps"),
    [
        ("population_std_eps0", "population", 0.0),
        ("sample_std_eps1e_6_verl", "sample", 1e-6),
        ("sample_std_eps1e_4_trl", "sample", 1e-4),
    ],
)
def test_stored_vector(name: str, std, eps: float) -> None:
    case = json.loads(VECTORS.read_text())["group_advantages"]
    for dtype, rtol in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        reward_PG = torch.tensor([case["rewards"]], dtype=dtype)
        want_PG = torch.tensor([case[name]], dtype=dtype)
        advantage_PG = group_advantages(reward_PG, std=std, eps=eps)
        torch.testing.assert_close(advantage_PG, want_PG, rtol=rtol, atol=0)


@pytest.mark.parametrize(
    ("std", "deviation"),
    [("population", statistics.pstdev), ("sample", statistics.stdev), ("none", lambda _: 1.0)],
)
def test_each_group_is_normalised_by_itself(std, deviation) -> None:
    reward_PG = torch.rand(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    want = [
        [(reward - statistics.fmean(group)) / deviation(group) for reward in group]
        for group in reward_PG.tolist()
    ]
    advantage_PG = group_advantages(reward_PG, std=std)
    torch.testing.assert_close(advantage_PG, torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(
        advantage_PG.sum(dim=1), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_default_is_the_population_deviation_without_eps() -> None:
    advantage_PG = group_advantages(torch.tensor([ONE_IN_FOUR]))
    want = [[math.sqrt(3)] * 2 + [-1 / math.sqrt(3)] * 6]
    torch.testing.assert_close(advantage_PG, torch.tensor(want))


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0, -2.7, 1e-30, 1e30])
@pytest.mark.parametrize("std", ["population", "sample", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("group_size", [2, 3, 7, 8])
def test_equal_rewards_give_exactly_zero(value: float, std, dtype, group_size: int) -> None:
    reward_PG = torch.full((2, group_size), value, dtype=dtype)
    reward_PG[1] = torch.arange(group_size)
    advantage_PG = group_advantages(reward_PG, std=std)
    assert (advantage_PG[0] == 0).all()
    assert (advantage_PG[1].abs() > 0).any()
    assert informative_groups(reward_PG).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_difference_of_mere_rounding_is_no_signal(dtype) -> None:
    same = torch.tensor([0.1 + 0.2, 0.3, 0.3, 0.3], dtype=dtype)
    same[1] = torch.nextafter(same[1], torch.ones((), dtype=dtype))
    reward_PG = torch.stack([same, torch.tensor([0.3, 0.3, 0.3, 0.301], dtype=dtype)])
    assert informative_groups(reward_PG).tolist() == [False, True]
    assert (group_advantages(reward_PG)[0] == 0).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e30])
def test_scale_of_the_rewards_does_not_matter(scale: float) -> None:
    reward_PG = torch.tensor([ONE_IN_FOUR])
    torch.testing.assert_close(group_advantages(reward_PG * scale), group_advantages(reward_PG))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float16])
def test_narrow_dtypes_become_float32(dtype) -> None:
    advantage_PG = group_advantages(torch.tensor([ONE_IN_FOUR]).to(dtype))
    assert advantage_PG.dtype == torch.float32
    torch.testing.assert_close(advantage_PG, group_advantages(torch.tensor([ONE_IN_FOUR])))
    assert informative_groups(torch.tensor([ONE_IN_FOUR]).to(dtype)).dtype == torch.bool


def test_input_is_left_alone_and_no_prompts_are_fine() -> None:
    reward_PG = torch.tensor([ONE_IN_FOUR])
    group_advantages(reward_PG)
    assert reward_PG.tolist() == [ONE_IN_FOUR]
    assert group_advantages(torch.zeros(0, 8)).shape == (0, 8)


@pytest.mark.parametrize("function", [group_advantages, informative_groups])
def test_group_of_one_is_an_error_that_says_what_to_do(function) -> None:
    with pytest.raises(ValueError, match=r"group size 1 has no baseline.*sampling.group_size >= 2"):
        function(torch.ones(4, 1))


@pytest.mark.parametrize("function", [group_advantages, informative_groups])
@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_reward_that_is_not_finite_is_an_error_that_says_where(function, reward: float) -> None:
    reward_PG = torch.zeros(3, 4)
    reward_PG[1, 2] = reward
    with pytest.raises(ValueError, match="group 1, response 2"):
        function(reward_PG)


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match=r"\[P, G\]"):
        group_advantages(torch.zeros(8))
    with pytest.raises(ValueError, match="std"):
        group_advantages(torch.zeros(1, 8), std="median")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="eps"):
        group_advantages(torch.zeros(1, 8), eps=-1.0)
