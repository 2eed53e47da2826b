"""Weights for a rollout engine that draws from another distribution than the trainer scores."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sapo_vl.objectives import (
    GRPO,
    GSPO,
    SAPO,
    Correction,
    MaskedWeights,
    Objective,
    TruncatedWeights,
)

OLD = torch.tensor([[-1.0, -2.0, -1.0], [-1.0, -1.0, math.nan]])
ROLLOUT = torch.tensor([[-1.5, -1.0, -1.0], [-3.0, -2.0, 5.0]])
MASK = torch.tensor([[True, True, True], [True, True, False]])
R = [[math.exp(0.5), math.exp(-1.0), 1.0], [math.exp(2.0), math.exp(1.0), 0.0]]
PRODUCTS = [math.exp(-0.5), math.exp(3.0)]


@pytest.mark.parametrize(
    ("correction", "want"),
    [
        (TruncatedWeights(2.0), [R[0], [2.0, 2.0, 0.0]]),
        (MaskedWeights(3.0, of_sequence=False), [R[0], [0.0, R[1][1], 0.0]]),
        (MaskedWeights(3.0, 0.5, of_sequence=False), [[R[0][0], 0.0, 1.0], [0.0, R[1][1], 0.0]]),
        (TruncatedWeights(4.0, of_sequence=True), [[PRODUCTS[0]] * 3, [4.0, 4.0, 0.0]]),
        (MaskedWeights(3.0), [[PRODUCTS[0]] * 3, [0.0, 0.0, 0.0]]),
    ],
)
def test_weights(correction: Correction, want: list[list[float]]) -> None:
    weight_BT = correction(OLD, ROLLOUT, MASK)
    torch.testing.assert_close(weight_BT, torch.tensor(want))
    assert isinstance(correction, Correction)


def test_an_engine_that_agrees_changes_nothing() -> None:
    for correction in (TruncatedWeights(), MaskedWeights()):
        assert torch.equal(correction(OLD, OLD, MASK), MASK.float())


@pytest.mark.parametrize("objective", [SAPO(), GRPO(), GSPO(0.5, 0.5)])
def test_weights_scale_each_tokens_gradient_and_carry_none(objective: Objective) -> None:
    draw = torch.Generator().manual_seed(0)
    logp_BT = torch.randn(2, 3, generator=draw).sub(2)
    old_BT = logp_BT + 0.1 * torch.randn(2, 3, generator=draw)
    advantage_B = torch.tensor([1.0, -1.0])

    def gradient(weight_BT: Tensor | None) -> Tensor:
        leaf = logp_BT.clone().requires_grad_()
        output = objective(leaf, old_BT, advantage_B, MASK, weight_BT=weight_BT)
        return torch.autograd.grad(output.loss, leaf)[0]

    plain_BT = gradient(None)
    assert torch.equal(gradient(torch.ones(2, 3)), plain_BT)
    rows = torch.tensor([[2.0], [0.5]]).expand(2, 3).clone().requires_grad_()
    torch.testing.assert_close(gradient(rows), plain_BT * rows.detach())
    tokens = torch.tensor([[2.0, 0.0, 1.0], [0.5, 1.0, math.nan]])
    if isinstance(objective, GSPO):  # one ratio a response: its gradient is every token's
        mean_B1 = tokens.nan_to_num().sum(1, keepdim=True) / MASK.sum(1, keepdim=True)
        torch.testing.assert_close(gradient(tokens), plain_BT * mean_B1)
    else:
        torch.testing.assert_close(gradient(tokens), plain_BT * tokens.nan_to_num())


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="weight_BT has shape"):
        SAPO()(OLD, OLD, torch.ones(2), MASK, weight_BT=torch.ones(2))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: TruncatedWeights(0.5), "most"),
        (lambda: TruncatedWeights(math.inf), "most"),
        (lambda: MaskedWeights(most=math.nan), "most"),
        (lambda: MaskedWeights(least=2.0), "least"),
    ],
)
def test_bounds_are_checked(make: Callable[[], object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        make()
