"""GRPO, the baseline: the textbook loss, its gradient, and the same safety as SAPO."""

import math

import pytest
import torch

from sapo_vl.objectives import GRPO, SAPO, Objective

TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-7},
    torch.float64: {"rtol": 1e-12, "atol": 1e-15},
}


def random_batch(seed: int, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    old_BT = -3 * torch.rand(6, 9, generator=draw, dtype=torch.float64)
    logp_BT = old_BT + 0.4 * torch.randn(6, 9, generator=draw, dtype=torch.float64)
    advantage_B = torch.randn(6, generator=draw, dtype=torch.float64)
    mask_BT = torch.arange(9) < torch.randint(1, 10, (6, 1), generator=draw)
    return logp_BT.to(dtype), old_BT.to(dtype), advantage_B.to(dtype), mask_BT


def textbook(logp_BT, old_BT, advantage_B, mask_BT, low, high):
    """-mean_i mean_t min(r A, clip(r) A), differentiable, in float64."""
    ratio_BT = (logp_BT.double() - old_BT.double()).exp()
    advantage_B1 = advantage_B.double()[:, None]
    token_BT = torch.min(ratio_BT * advantage_B1, ratio_BT.clamp(1 - low, 1 + high) * advantage_B1)
    return -((token_BT * mask_BT).sum(1) / mask_BT.sum(1)).mean()


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("clips", [(0.2, 0.2), (0.2, 0.28), (0.0, 0.0), (1.0, 3.0)])
def test_value_and_gradient_are_the_textbooks(dtype, clips) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(0, dtype)
    logp_BT.requires_grad_()
    output = GRPO(*clips)(logp_BT, old_BT, advantage_B, mask_BT)
    want = textbook(logp_BT, old_BT, advantage_B, mask_BT, *clips)
    # Centred: the textbook value at ratio 1 is -mean(A).
    torch.testing.assert_close(
        output.loss, (want + advantage_B.double().mean()).to(dtype), **TOLERANCE[dtype]
    )
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    (want_BT,) = torch.autograd.grad(want, logp_BT)
    torch.testing.assert_close(gradient_BT, want_BT, **TOLERANCE[dtype])


@pytest.mark.parametrize("clips", [(0.2, 0.2), (0.0, 0.0)])
def test_on_policy_is_the_plain_policy_gradient(clips) -> None:
    _, old_BT, advantage_B, mask_BT = random_batch(1)
    logp_BT = old_BT.clone().requires_grad_()
    output = GRPO(*clips)(logp_BT, old_BT, advantage_B, mask_BT)
    assert output.loss.item() == 0
    assert torch.equal(output.stats["gate_BT"], mask_BT.float())
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    want_BT = -advantage_B[:, None] * mask_BT / mask_BT.sum(dim=1, keepdim=True) / 6
    torch.testing.assert_close(gradient_BT, want_BT)


def test_gate_is_the_indicator_of_the_clipped_surrogates_slope() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(2)
    logp_BT.requires_grad_()
    output = GRPO()(logp_BT, old_BT, advantage_B, mask_BT)
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    gate_BT = output.stats["gate_BT"]
    assert set(gate_BT.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(gradient_BT != 0, gate_BT == 1)


def test_goes_on_where_sapo_fades_on_the_corrective_side() -> None:
    """A > 0 at r = 0.5, A < 0 at r = 1.5: the hard cut keeps weight 1, the soft gate does not."""
    z_BT = torch.tensor([[0.5], [1.5]]).log()
    arguments = (z_BT, torch.zeros(2, 1), torch.tensor([1.0, -1.0]), torch.ones(2, 1))
    assert GRPO()(*arguments).stats["gate_BT"].tolist() == [[1.0], [1.0]]
    assert (SAPO()(*arguments).stats["gate_BT"] < 1).all()


@pytest.mark.parametrize("log_ratio", [25.0, 100.0, math.inf])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_no_log_ratio_overflows(log_ratio: float, advantage: float) -> None:
    logp_BT = torch.tensor([[log_ratio], [-log_ratio]], requires_grad=True)
    output = GRPO()(logp_BT, torch.zeros(2, 1), torch.full((2,), advantage), torch.ones(2, 1))
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    assert torch.isfinite(output.loss)
    assert torch.isfinite(gradient_BT).all()


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 120.0])
def test_masked_places_may_hold_anything(garbage: float) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(3)
    want = GRPO()(logp_BT, old_BT, advantage_B, mask_BT)
    dirty_BT = logp_BT.masked_fill(~mask_BT, garbage).requires_grad_()
    output = GRPO()(dirty_BT, old_BT.masked_fill(~mask_BT, garbage), advantage_B, mask_BT)
    (gradient_BT,) = torch.autograd.grad(output.loss, dirty_BT)
    assert torch.equal(output.loss, want.loss)
    assert (gradient_BT[~mask_BT] == 0).all()
    assert torch.isfinite(gradient_BT).all()


def test_micro_batches_add_up_to_the_batch() -> None:
    batch = random_batch(4)
    parts = zip(*(tensor.split(2) for tensor in batch), strict=True)
    total = torch.stack([GRPO()(*part, denominator=6).loss for part in parts]).sum()
    torch.testing.assert_close(total, GRPO()(*batch).loss, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["clip_low", "clip_high"])
@pytest.mark.parametrize("clip", [-0.1, math.nan])
def test_impossible_clip_is_an_error_that_names_it(name: str, clip: float) -> None:
    with pytest.raises(ValueError, match=name):
        GRPO(**{name: clip})


def test_wrong_shape_is_an_error_that_names_it() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(5)
    with pytest.raises(ValueError, match="advantage_B"):
        GRPO()(logp_BT, old_BT, advantage_B[:, None], mask_BT)
    assert isinstance(GRPO(), Objective)
