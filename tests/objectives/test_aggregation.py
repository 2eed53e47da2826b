"""From tokens to a scalar: each mean against a loop, in one piece and in several."""

import math

import pytest
import torch

from sapo_vl.objectives import Aggregation, ConstantMean, SequenceMean, TokenMean

ROWS, TOKENS = 6, 7
ALL = pytest.mark.parametrize(
    "mean", [SequenceMean(), TokenMean(), ConstantMean(5.0)], ids=lambda mean: type(mean).__name__
)


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    value_BT = torch.randn(ROWS, TOKENS, generator=draw, dtype=torch.float64)
    mask_BT = torch.arange(TOKENS) < torch.tensor([[7], [1], [3], [0], [5], [2]])
    return value_BT, mask_BT


def by_loop(mean: Aggregation) -> float:
    value_BT, mask_BT = tokens()
    rows = [
        [v for v, real in zip(row.tolist(), mask.tolist(), strict=True) if real]
        for row, mask in zip(value_BT, mask_BT, strict=True)
    ]
    if isinstance(mean, TokenMean):
        return sum(map(sum, rows)) / sum(map(len, rows))
    lengths = [5.0 if isinstance(mean, ConstantMean) else max(len(row), 1) for row in rows]
    return sum(sum(row) / n for row, n in zip(rows, lengths, strict=True)) / len(rows)


@ALL
def test_is_the_mean_it_says(mean: Aggregation) -> None:
    value_BT, mask_BT = tokens()
    assert mean(value_BT, mask_BT).item() == pytest.approx(by_loop(mean), rel=1e-12)
    assert mean(value_BT, mask_BT.int()).item() == pytest.approx(by_loop(mean), rel=1e-12)
    dirty_BT = value_BT.masked_fill(~mask_BT, math.nan)
    assert mean(dirty_BT, mask_BT).item() == pytest.approx(by_loop(mean), rel=1e-12)


@ALL
def test_parts_with_the_units_of_all_add_up(mean: Aggregation) -> None:
    value_BT, mask_BT = tokens()
    cuts = [(0, 1), (1, 4), (4, 6)]
    units = sum(mean.units(mask_BT[a:b]) for a, b in cuts)
    assert units == mean.units(mask_BT)
    assert units.dtype == torch.float32
    parts = [mean(value_BT[a:b], mask_BT[a:b], units) for a, b in cuts]
    torch.testing.assert_close(sum(parts), mean(value_BT, mask_BT))


@ALL
def test_two_ranks_with_the_mean_of_their_units_average_to_the_whole(mean: Aggregation) -> None:
    """Data-parallel strategies average gradients over ranks, so the denominator is a mean, too."""
    value_BT, mask_BT = tokens()
    halves = [(value_BT[:2], mask_BT[:2]), (value_BT[2:], mask_BT[2:])]
    units = sum(mean.units(mask) for _, mask in halves) / 2
    ranks = [mean(value, mask, units) for value, mask in halves]
    torch.testing.assert_close(sum(ranks) / 2, mean(value_BT, mask_BT))


def test_no_tokens_at_all_is_0() -> None:
    value_BT, mask_BT = torch.full((2, 3), math.nan), torch.zeros(2, 3, dtype=torch.bool)
    for mean in (SequenceMean(), TokenMean(), ConstantMean(4)):
        assert mean(value_BT, mask_BT) == 0


@pytest.mark.parametrize("length", [0, -3, math.nan, math.inf])
def test_impossible_length_is_an_error(length: float) -> None:
    with pytest.raises(ValueError, match="length"):
        ConstantMean(length)
