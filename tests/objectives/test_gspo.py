"""GSPO against its paper's formula, and the safety it shares with the others."""

import math

import pytest
import torch

from sapo_vl.objectives import GRPO, GSPO, Objective

TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float64: {"rtol": 1e-12, "atol": 1e-15},
}


def random_batch(seed: int, dtype=torch.float64, scale: float = 0.4):
    draw = torch.Generator().manual_seed(seed)
    old_BT = -3 * torch.rand(6, 9, generator=draw, dtype=torch.float64)
    logp_BT = old_BT + scale * torch.randn(6, 9, generator=draw, dtype=torch.float64)
    advantage_B = torch.randn(6, generator=draw, dtype=torch.float64)
    mask_BT = torch.arange(9) < torch.randint(1, 10, (6, 1), generator=draw)
    return logp_BT.to(dtype), old_BT.to(dtype), advantage_B.to(dtype), mask_BT


def textbook(logp_BT, old_BT, advantage_B, mask_BT, low, high):
    """-mean_i min(s A, clip(s) A), s = exp(mean_t log r), differentiable, in float64."""
    log_ratio_BT = (logp_BT.double() - old_BT.double()) * mask_BT
    s_B = (log_ratio_BT.sum(1) / mask_BT.sum(1)).exp()
    a_B = advantage_B.double()
    return -torch.min(s_B * a_B, s_B.clamp(1 - low, 1 + high) * a_B).mean()


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("clips", [(3e-4, 4e-4), (0.1, 0.2), (0.0, 0.0)])
def test_value_and_gradient_are_the_papers(dtype, clips) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(0, dtype)
    logp_BT.requires_grad_()
    output = GSPO(*clips)(logp_BT, old_BT, advantage_B, mask_BT)
    want = textbook(logp_BT, old_BT, advantage_B, mask_BT, *clips)
    torch.testing.assert_close(
        output.loss, (want + advantage_B.double().mean()).to(dtype), **TOLERANCE[dtype]
    )
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    (want_BT,) = torch.autograd.grad(want, logp_BT)
    torch.testing.assert_close(gradient_BT, want_BT, **TOLERANCE[dtype])


def test_a_response_is_inside_or_outside_as_a_whole() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(2, scale=1e-3)
    logp_BT.requires_grad_()
    output = GSPO()(logp_BT, old_BT, advantage_B, mask_BT)
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    gate_BT = output.stats["gate_BT"]
    inside_B = gate_BT[:, 0] == 1
    assert 0 < inside_B.sum() < 6
    assert torch.equal(gate_BT, (mask_BT & inside_B[:, None]).float())
    assert torch.equal(gradient_BT != 0, gate_BT == 1)


def test_one_token_responses_are_grpos() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(3)
    arguments = (logp_BT[:, :1], old_BT[:, :1], advantage_B, mask_BT[:, :1])
    torch.testing.assert_close(GSPO(0.2, 0.2)(*arguments).loss, GRPO(0.2, 0.2)(*arguments).loss)


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_masked_places_may_hold_anything(garbage) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(4)
    mask_BT[0] = False  # a whole row
    clean = GSPO(0.5, 0.5)(logp_BT, old_BT, advantage_B, mask_BT)
    dirty_BT = logp_BT.masked_fill(~mask_BT, garbage).requires_grad_()
    output = GSPO(0.5, 0.5)(dirty_BT, old_BT, advantage_B, mask_BT)
    assert torch.equal(output.loss, clean.loss)
    (gradient_BT,) = torch.autograd.grad(output.loss, dirty_BT)
    assert torch.isfinite(gradient_BT).all()
    assert not gradient_BT[~mask_BT].any()


def test_micro_batches_add_up_to_the_whole() -> None:
    arguments = random_batch(5)
    whole = GSPO(0.5, 0.5)(*arguments).loss
    parts = [GSPO(0.5, 0.5)(*(x[i : i + 2] for x in arguments), denominator=6) for i in (0, 2, 4)]
    torch.testing.assert_close(torch.stack([p.loss for p in parts]).sum(), whole)


@pytest.mark.parametrize("bad", [-0.1, math.nan])
def test_clip_widths_are_checked(bad) -> None:
    with pytest.raises(ValueError, match="clip_low"):
        GSPO(clip_low=bad)
    assert isinstance(GSPO(), Objective)
