"""The gate by itself: its values, its weight, its extrema, its tails."""

import math

import pytest
import torch

from sapo_vl.objectives import SigmoidGate
from sapo_vl.objectives.clipping import clip_gate
from sapo_vl.objectives.gate import gated_surrogate, masked_log_ratio

TAUS = (0.3, 1.0, 1.05, 3.0, 12.0)


def f_paper(ratio: float, tau: float) -> float:
    """The paper's eq. 6 as printed, in float64, without overflow of exp for negative arguments."""
    return 4 / tau / (1 + math.exp(-tau * (ratio - 1)))


def w_paper(ratio: float, tau: float) -> float:
    """The paper's eq. 8: 4 p (1 - p), p = sigmoid(tau (r - 1))."""
    p = 1 / (1 + math.exp(-tau * (ratio - 1)))
    q = 1 / (1 + math.exp(tau * (ratio - 1)))
    return 4 * p * q


def gate_at(log_ratio: torch.Tensor, tau: float):
    z_BT = log_ratio.reshape(1, -1)
    return SigmoidGate()(z_BT, torch.full((1, 1), tau, dtype=z_BT.dtype))


@pytest.mark.parametrize("tau", TAUS)
def test_gate_is_the_papers_sigmoid_less_its_value_at_one(tau: float) -> None:
    z = torch.linspace(-4.0, 2.5, 131, dtype=torch.float64)
    gate = gate_at(z, tau)
    value = [f_paper(math.exp(x), tau) - 2 / tau for x in z.tolist()]
    weight = [w_paper(math.exp(x), tau) for x in z.tolist()]
    torch.testing.assert_close(
        gate.value_BT[0], torch.tensor(value, dtype=torch.float64), rtol=1e-12, atol=1e-14
    )
    torch.testing.assert_close(
        gate.weight_BT[0], torch.tensor(weight, dtype=torch.float64), rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_policy_value_is_zero_and_weight_is_one_for_every_tau(tau: float, dtype) -> None:
    gate = gate_at(torch.zeros(3, dtype=dtype), tau)
    assert torch.equal(gate.value_BT, torch.zeros(1, 3, dtype=dtype))
    assert torch.equal(gate.weight_BT, torch.ones(1, 3, dtype=dtype))


@pytest.mark.parametrize("tau", TAUS)
def test_weight_is_the_derivative_of_the_value(tau: float) -> None:
    ratio = torch.linspace(0.05, 3.0, 60, dtype=torch.float64)
    h = 1e-6
    up, down = gate_at((ratio + h).log(), tau), gate_at((ratio - h).log(), tau)
    slope = (up.value_BT - down.value_BT) / (2 * h)
    torch.testing.assert_close(
        gate_at(ratio.log(), tau).weight_BT, slope, rtol=1e-7, atol=1e-8 * max(1, tau**2)
    )


@pytest.mark.parametrize(
    ("tau", "peak", "at_ratio"),
    [(1.0, 1.5746747095, 2.06009), (1.05, 1.5362556336, 1.99167)],
)
def test_effective_weight_is_bounded_with_the_papers_extremum(
    tau: float, peak: float, at_ratio: float
) -> None:
    z = torch.linspace(-20.0, 20.0, 400_001, dtype=torch.float64)
    effective = gate_at(z, tau).weight_BT[0] * z.exp()
    best = int(effective.argmax())
    assert effective[best].item() == pytest.approx(peak, abs=1e-8)
    assert z[best].exp().item() == pytest.approx(at_ratio, abs=1e-3)
    assert effective.min() >= 0


@pytest.mark.parametrize("tau", TAUS)
def test_half_weight_lies_where_the_paper_has_it(tau: float) -> None:
    ratio = torch.tensor([1 + 1.762747174 / tau], dtype=torch.float64)
    assert gate_at(ratio.log(), tau).weight_BT.item() == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tau", TAUS)
def test_tails_are_finite_and_saturate(tau: float, dtype) -> None:
    gate = gate_at(torch.tensor([20.0, -20.0], dtype=dtype), tau)
    up, down = gate.value_BT[0].tolist()
    assert up == pytest.approx(2 / tau)
    assert down == pytest.approx(-2 / tau * math.tanh(tau / 2))
    assert gate.weight_BT[0, 0] == 0
    assert gate.weight_BT[0, 1].item() == pytest.approx(w_paper(0.0, tau), rel=1e-5)


def test_float32_gradient_keeps_its_digits_in_the_tail() -> None:
    """Autograd through tanh is off by 2e-4 at r = 12, expm1 by 8e-4 at r = 6e-6."""
    z_BT = torch.tensor([[2.5, -12.0]], requires_grad=True)
    gate = SigmoidGate()(z_BT, torch.ones(1, 1))
    (gradient_BT,) = torch.autograd.grad(gated_surrogate(gate, z_BT).sum(), z_BT)
    want = [[w_paper(math.exp(x), 1.0) * math.exp(x) for x in (2.5, -12.0)]]
    torch.testing.assert_close(gradient_BT, torch.tensor(want), rtol=1e-5, atol=0)


def test_clip_gate_cuts_outward_moves_only() -> None:
    z_BT = torch.tensor([0.5, 0.79, 1.0, 1.21, 1.5], dtype=torch.float64).log().expand(2, 5)
    gate = clip_gate(z_BT, torch.tensor([[1.0], [-1.0]], dtype=torch.float64), 0.2, 0.2)
    assert gate.weight_BT.tolist() == [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]
    want = torch.tensor(
        [[-0.5, -0.21, 0.0, 0.2, 0.2], [-0.2, -0.2, 0.0, 0.21, 0.5]], dtype=torch.float64
    )
    torch.testing.assert_close(gate.value_BT, want)


def test_log_ratio_is_masked_and_clamped_before_anything_else() -> None:
    nan, inf = math.nan, math.inf
    logp_BT = torch.tensor([[nan, inf, -inf, 0.5, 100.0, -inf]], requires_grad=True)
    old_BT = torch.tensor([[0.0, inf, nan, 0.25, 0.0, 0.0]])
    mask_BT = torch.tensor([[0, 0, 0, 1, 1, 1]], dtype=torch.bool)
    z_BT = masked_log_ratio(logp_BT, old_BT, mask_BT)
    assert z_BT.tolist() == [[0.0, 0.0, 0.0, 0.25, 20.0, -20.0]]
    (gradient_BT,) = torch.autograd.grad(z_BT.sum(), logp_BT)
    assert gradient_BT.tolist() == [[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_log_ratio_is_computed_in_float32_at_least(given, computed) -> None:
    logp_BT = torch.tensor([[-1.0, -2.0]], dtype=given)
    mask_BT = torch.ones(1, 2, dtype=torch.bool)
    assert masked_log_ratio(logp_BT, logp_BT - 0.5, mask_BT).dtype == computed
