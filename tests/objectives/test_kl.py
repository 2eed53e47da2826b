"""The KL penalty: the estimator's closed form, its gradient, and safety."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sapo_vl.objectives import ConstantMean, KLPenalty, TokenMean

BETA = 0.04


def gradient_of(loss: Tensor, logp_BT: Tensor) -> Tensor:
    (gradient_BT,) = torch.autograd.grad(loss, logp_BT)
    return gradient_BT


def batch_of(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probs of the policy, of the reference policy, and the mask."""
    draw = torch.Generator().manual_seed(seed)
    reference_BT = -3 * torch.rand(8, 11, generator=draw, dtype=torch.float64)
    logp_BT = reference_BT + 0.6 * torch.randn(8, 11, generator=draw, dtype=torch.float64)
    return logp_BT, reference_BT, torch.arange(11) < torch.randint(1, 12, (8, 1), generator=draw)


def test_the_estimate_is_k3_and_its_gradient_that_of_finite_differences() -> None:
    logp_BT, reference_BT, mask_BT = batch_of(0)
    logp_BT.requires_grad_()
    out = KLPenalty(BETA)(logp_BT, reference_BT, mask_BT)
    delta_BT = (reference_BT - logp_BT).detach()
    want_BT = (delta_BT.exp() - delta_BT - 1) * mask_BT
    torch.testing.assert_close(out.stats["kl_BT"], want_BT.float())
    mean = (want_BT.sum(1) / mask_BT.sum(1)).mean()
    torch.testing.assert_close(out.loss.detach(), BETA * mean)
    gradient_BT, h = gradient_of(out.loss, logp_BT), 1e-6
    for row, token in [(0, 0), (1, 0), (3, 0), (7, 0)]:
        step_BT = torch.zeros_like(delta_BT)
        step_BT[row, token] = h
        up, down = (
            KLPenalty(BETA)(logp_BT.detach() + s, reference_BT, mask_BT).loss
            for s in (step_BT, -step_BT)
        )
        assert gradient_BT[row, token] == pytest.approx(float(up - down) / (2 * h), rel=1e-6)


def test_it_is_aggregated_as_the_objective_is() -> None:
    logp_BT, reference_BT, mask_BT = batch_of(3)
    for aggregation in (TokenMean(), ConstantMean(11)):
        out = KLPenalty(BETA)(logp_BT, reference_BT, mask_BT, aggregation=aggregation)
        kl_BT = KLPenalty(BETA)(logp_BT, reference_BT, mask_BT).stats["kl_BT"].double()
        divisor = mask_BT.sum() if isinstance(aggregation, TokenMean) else 11 * 8
        torch.testing.assert_close(out.loss, BETA * kl_BT.sum() / divisor, rtol=1e-6, atol=0)


def test_on_average_it_is_the_divergence() -> None:
    """Summed over a vocabulary with the policy's probabilities it is KL(policy || reference)."""
    draw = torch.Generator().manual_seed(0)
    logits_2V = torch.randn(2, 50, generator=draw, dtype=torch.float64)
    policy_V, reference_V = logits_2V.log_softmax(-1)
    kl_V = KLPenalty(1.0)(
        policy_V[:, None], reference_V[:, None], torch.ones(50, 1, dtype=torch.bool)
    ).stats["kl_BT"][:, 0]
    want = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=policy_V),
        torch.distributions.Categorical(logits=reference_V),
    )
    assert float((policy_V.exp() * kl_V).sum()) == pytest.approx(float(want), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_it_is_never_negative_and_nothing_at_the_reference(dtype: torch.dtype) -> None:
    near_BT = torch.linspace(-1e-3, 1e-3, 2001, dtype=torch.float64).to(dtype).reshape(1, -1)
    mask_BT = torch.ones_like(near_BT, dtype=torch.bool)
    near = KLPenalty(1.0)(near_BT, torch.zeros_like(near_BT), mask_BT)
    assert near.stats["kl_BT"].min() >= 0
    assert near.stats["kl_BT"].dtype == torch.float32
    near_BT.requires_grad_()
    same = KLPenalty(1.0)(near_BT, near_BT.detach(), mask_BT)
    assert float(same.loss.detach()) == 0
    assert not gradient_of(same.loss, near_BT).any()


def test_masked_places_may_hold_anything() -> None:
    logp_BT, reference_BT, mask_BT = batch_of(1)
    want_BT = logp_BT.clone().requires_grad_()
    want = KLPenalty(BETA)(want_BT, reference_BT, mask_BT)
    garbage_BT = torch.tensor([math.nan, math.inf, -math.inf, 1e30], dtype=torch.float64)
    garbage_BT = garbage_BT.repeat(8, 3)[:, :11]
    dirty_BT = torch.where(mask_BT, logp_BT, garbage_BT).requires_grad_()
    got = KLPenalty(BETA)(dirty_BT, torch.where(mask_BT, reference_BT, garbage_BT), mask_BT)
    assert torch.equal(got.loss, want.loss)
    assert torch.equal(got.stats["kl_BT"], want.stats["kl_BT"])
    assert torch.equal(gradient_of(got.loss, dirty_BT), gradient_of(want.loss, want_BT))


@pytest.mark.parametrize(
    ("log_ratio", "kl", "slope"),
    [
        (25.0, 19.0, 1.0),
        (1000.0, 19.0, 1.0),
        (-25.0, math.exp(20) - 21, 1 - math.exp(20)),
        (-1000.0, math.exp(20) - 21, 1 - math.exp(20)),
    ],
)
def test_far_away_it_still_pulls_back_and_stays_finite(
    log_ratio: float, kl: float, slope: float
) -> None:
    logp_BT = torch.tensor([[log_ratio]], requires_grad=True)
    out = KLPenalty(0.5)(logp_BT, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert out.stats["kl_BT"].item() == pytest.approx(kl, rel=1e-6)
    assert gradient_of(out.loss, logp_BT).item() == pytest.approx(0.5 * slope, rel=1e-6)


def test_an_infinite_log_prob_gives_no_nan() -> None:
    logp_BT = torch.tensor([[-math.inf, -1.0]], requires_grad=True)
    out = KLPenalty(1.0)(logp_BT, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    assert torch.isfinite(out.loss)
    assert torch.isfinite(gradient_of(out.loss, logp_BT)).all()


def test_parts_of_a_batch_add_up_to_the_whole() -> None:
    logp_BT, reference_BT, mask_BT = batch_of(2)
    logp_BT.requires_grad_()
    whole = KLPenalty(BETA)(logp_BT, reference_BT, mask_BT).loss
    parts = [
        KLPenalty(BETA)(logp_BT[r], reference_BT[r], mask_BT[r], denominator=8).loss
        for r in (slice(0, 3), slice(3, 4), slice(4, 8))
    ]
    torch.testing.assert_close(sum(parts), whole)
    torch.testing.assert_close(gradient_of(sum(parts), logp_BT), gradient_of(whole, logp_BT))


@pytest.mark.parametrize("beta", [-0.1, math.nan, math.inf])
def test_a_beta_that_is_none_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match="KLPenalty: beta is"):
        KLPenalty(beta)


def test_shapes_that_would_broadcast_are_refused() -> None:
    ones = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"reference_logp_BT has shape \(2, 1\)"):
        KLPenalty(1.0)(ones, torch.ones(2, 1), ones)
    with pytest.raises(ValueError, match="mask_BT has shape"):
        KLPenalty(1.0)(ones, ones, torch.ones(3))
    with pytest.raises(ValueError, match=r"it must be \[B, T\]"):
        KLPenalty(1.0)(torch.ones(3), ones, ones)
