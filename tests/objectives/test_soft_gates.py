"""The other soft gates: their papers' weights, values that integrate them, and no surprises."""

import math

import mpmath
import pytest
import torch

from sapo_vl.objectives import (
    SAPO,
    ArctanGate,
    ErfGate,
    LogRatioGate,
    SigmoidGate,
    SoftGate,
    SoftsignGate,
)
from sapo_vl.objectives.gate import gated_surrogate
from sapo_vl.objectives.soft_gates import outward_only

TAUS = (0.5, 1.0, 1.05, 4.0, 12.0)
# Weight of (r, tau) as the papers print it, and the distance |x| at which it is 1/2.
GATES = {
    SigmoidGate(): (lambda r, tau: mpmath.sech(tau * (r - 1) / 2) ** 2, 1.7627),
    ErfGate(): (lambda r, tau: mpmath.exp(-((tau * (r - 1)) ** 2) / 2), 1.1774),
    ArctanGate(): (lambda r, tau: 1 / (1 + (tau * (r - 1)) ** 2), 1.0),
    SoftsignGate(): (lambda r, tau: (1 + (tau * (r - 1)) ** 2) ** mpmath.mpf("-1.5"), 0.7664),
    LogRatioGate(): (lambda r, tau: 4 * r**tau / (1 + r**tau) ** 2, 1.7627),
}
ALL = pytest.mark.parametrize("gate", GATES, ids=lambda gate: type(gate).__name__)


def answer(gate: SoftGate, log_ratios: list[float], tau: float, dtype=torch.float64):
    z_BT = torch.tensor([log_ratios], dtype=dtype)
    return gate(z_BT, torch.full((1, 1), tau, dtype=dtype))


@ALL
@pytest.mark.parametrize("tau", TAUS)
def test_weight_is_the_papers(gate: SoftGate, tau: float) -> None:
    log_ratios = [-20.0, -3.0, -0.7, -0.01, 0.0, 1e-4, 0.3, 1.0, 2.5]
    want = [float(GATES[gate][0](mpmath.exp(z), tau)) for z in log_ratios]
    got = answer(gate, log_ratios, tau).weight_BT[0].tolist()
    assert got == pytest.approx(want, rel=1e-9, abs=1e-300)
    assert got[4] == 1


@ALL
@pytest.mark.parametrize("tau", TAUS)
def test_value_integrates_the_weight_from_1(gate: SoftGate, tau: float) -> None:
    """Against adaptive quadrature in 30 digits; wrong factors of tau or 2 show at once."""
    log_ratios = [-20.0, -2.0, -0.3, 1e-3, 0.4, 1.5, 3.0]
    weight = GATES[gate][0]
    with mpmath.workdps(30):
        want = [
            float(mpmath.quad(lambda r: weight(r, tau), mpmath.linspace(1, mpmath.exp(z), 20)))
            for z in log_ratios
        ]
    got = answer(gate, log_ratios, tau).value_BT[0].tolist()
    rel = 1e-4 if isinstance(gate, LogRatioGate) else 1e-9
    assert got == pytest.approx(want, rel=rel, abs=1e-12)


@ALL
@pytest.mark.parametrize("tau", [1.0, 10.0])
def test_half_weight_is_where_the_module_says(gate: SoftGate, tau: float) -> None:
    x = GATES[gate][1]
    log_ratio = x / tau if isinstance(gate, LogRatioGate) else math.log1p(x / tau)
    assert answer(gate, [log_ratio], tau).weight_BT.item() == pytest.approx(0.5, abs=1e-4)


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tau", [0.1, 1.0, 100.0])
def test_any_log_ratio_gives_finite_values_and_weights_within_0_and_1(gate, dtype, tau) -> None:
    value_BT, weight_BT = answer(gate, [-20.0, -5.0, 0.0, 5.0, 20.0], tau, dtype)
    assert value_BT.dtype == weight_BT.dtype == dtype
    assert torch.isfinite(value_BT).all()
    assert ((weight_BT >= 0) & (weight_BT <= 1)).all()
    assert value_BT[0, 2] == 0
    assert (value_BT.diff() >= 0).all()  # f never falls


@ALL
def test_gradient_of_sapo_is_w_r_a(gate: SoftGate) -> None:
    draw = torch.Generator().manual_seed(0)
    old_BT = -torch.rand(4, 5, generator=draw, dtype=torch.float64)
    logp_BT = (old_BT + torch.randn(4, 5, generator=draw, dtype=torch.float64)).requires_grad_()
    advantage_B = torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
    output = SAPO(2.0, 3.0, gate=gate)(logp_BT, old_BT, advantage_B, torch.ones(4, 5))
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    for b in range(4):
        tau = 2.0 if advantage_B[b] > 0 else 3.0
        for t in range(5):
            r = math.exp(logp_BT[b, t].item() - old_BT[b, t].item())
            want = -float(GATES[gate][0](r, tau)) * r * advantage_B[b].item() / 20
            assert gradient_BT[b, t].item() == pytest.approx(want, rel=1e-9)


def test_lowered_tokens_fade_in_the_log_ratio_alone() -> None:
    """The reason for LogRatioGate: r = 1/20 keeps 0.79 of its weight in the paper's gate."""
    down, up = math.log(1 / 20), math.log(20)
    assert answer(SigmoidGate(), [down], 1.0).weight_BT.item() > 0.78
    lowered, raised = answer(LogRatioGate(), [down, up], 1.0).weight_BT[0].tolist()
    assert lowered == pytest.approx(raised)
    assert lowered < 0.2


def test_outward_only_leaves_moves_back_as_they_are() -> None:
    z_BT = torch.tensor([[0.5, -0.5], [0.5, -0.5], [0.5, -0.5]], dtype=torch.float64)
    advantage_B1 = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64)
    gate = SigmoidGate()(z_BT, torch.full((3, 1), 5.0, dtype=torch.float64))
    value_BT, weight_BT = outward_only(gate, z_BT, advantage_B1)
    back_BT = torch.tensor([[False, True], [True, False], [False, False]])
    assert (weight_BT[back_BT] == 1).all()
    torch.testing.assert_close(value_BT[back_BT], torch.expm1(z_BT)[back_BT])
    assert torch.equal(weight_BT[~back_BT], gate.weight_BT[~back_BT])
    assert torch.equal(value_BT[~back_BT], gate.value_BT[~back_BT])
    assert (gate.weight_BT < 0.7).all()  # there was something to leave


def test_outward_only_gradient_is_grpos_on_moves_back() -> None:
    z_BT = torch.tensor([[-0.5], [0.5]], requires_grad=True)
    advantage_B = torch.tensor([2.0, -1.0])
    output = SAPO(10.0, 12.0, outward_only=True)(
        z_BT, torch.zeros(2, 1), advantage_B, torch.ones(2, 1)
    )
    (gradient_BT,) = torch.autograd.grad(output.loss, z_BT)
    torch.testing.assert_close(gradient_BT[:, 0], -advantage_B * z_BT.detach().exp()[:, 0] / 2)


def test_of_sequence_gates_a_response_as_one() -> None:
    """Two tokens whose log-ratios cancel: the sequence has not moved, its tokens have."""
    z_BT = torch.tensor([[0.8, -0.8], [0.8, 0.4]], requires_grad=True)
    output = SAPO(4.0, 4.0, of_sequence=True)(
        z_BT, torch.zeros(2, 2), torch.ones(2), torch.ones(2, 2)
    )
    weight_BT = output.stats["gate_BT"]
    assert torch.equal(weight_BT[:, 0], weight_BT[:, 1])
    assert weight_BT[0, 0] == 1
    want = 1 / math.cosh(2.0 * math.expm1(0.6)) ** 2
    assert weight_BT[1, 0].item() == pytest.approx(want, rel=1e-5)
    (gradient_BT,) = torch.autograd.grad(output.loss, z_BT)
    torch.testing.assert_close(gradient_BT[0], torch.full((2,), -0.25))
    torch.testing.assert_close(gradient_BT[1], torch.full((2,), -want * math.exp(0.6) / 4))


def test_gate_is_a_value_rather_than_a_gradient() -> None:
    z_BT = torch.zeros(1, 1, requires_grad=True)
    for gate in GATES:
        found = gate(z_BT, torch.ones(1, 1))
        assert not found.value_BT.requires_grad
        (slope,) = torch.autograd.grad(gated_surrogate(found, z_BT).sum(), z_BT)
        assert slope.item() == 1
