"""SAPO against the paper's closed form, the stored vectors, and all a batch can throw at it."""

import json
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sapo_vl.objectives import SAPO, Objective, SequenceMean, SigmoidGate
from sapo_vl.objectives.gate import gated_surrogate, masked_log_ratio

VECTORS = Path(__file__).resolve().parents[2].parent / "shared" / "facts" / "sapo_vectors.json"
needs_vectors = pytest.mark.skipif(
    not VECTORS.is_file(), reason="the stored SAPO vectors are not beside this checkout"
)
TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-7},
    torch.float64: {"rtol": 1e-12, "atol": 1e-15},
}
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE))


def vectors(part: str) -> list[dict[str, Any]]:
    return json.loads(VECTORS.read_text())[part] if VECTORS.is_file() else []


WEIGHTED = [case for case in vectors("batch") if "is_weights" in case]
PLAIN = [case for case in vectors("batch") if "is_weights" not in case]


def close(actual: Tensor, expected: Any, **tolerance: float) -> None:
    tolerance = {**TOLERANCE[actual.dtype], **tolerance}
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=actual.dtype), **tolerance)


def loss_and_gradient(objective, logp_BT, old_BT, advantage_B, mask_BT, **more):
    logp_BT = logp_BT.detach().clone().requires_grad_()
    output = objective(logp_BT, old_BT, advantage_B, mask_BT, **more)
    (gradient_BT,) = torch.autograd.grad(output.loss, logp_BT)
    return output.loss.detach(), gradient_BT, output.stats


def reference(logp_BT, old_BT, advantage_B, mask_BT, tau_pos=1.0, tau_neg=1.05):
    """The paper's objective token by token in Python floats: (centred loss, its gradient)."""
    loss, gradient = 0.0, []
    for logps, olds, adv, mask in zip(
        logp_BT.tolist(), old_BT.tolist(), advantage_B.tolist(), mask_BT.tolist(), strict=True
    ):
        tau, length, row = (tau_pos if adv > 0 else tau_neg), max(sum(mask), 1), []
        for logp, old, real in zip(logps, olds, mask, strict=True):
            if not real:
                row.append(0.0)
                continue
            ratio = math.exp(logp - old)
            p = 1 / (1 + math.exp(-tau * (ratio - 1)))
            loss -= (4 / tau * p - 2 / tau) * adv / length / len(mask_BT)
            row.append(-4 * p * (1 - p) * ratio * adv / length / len(mask_BT))
        gradient.append(row)
    return loss, gradient


def random_batch(seed: int = 0, rows: int = 6, tokens: int = 9, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    old_BT = -3 * torch.rand(rows, tokens, generator=draw, dtype=torch.float64)
    logp_BT = old_BT + 0.5 * torch.randn(rows, tokens, generator=draw, dtype=torch.float64)
    advantage_B = torch.randn(rows, generator=draw, dtype=torch.float64)
    length_B = torch.randint(1, tokens + 1, (rows,), generator=draw)
    mask_BT = torch.arange(tokens) < length_B[:, None]
    return logp_BT.to(dtype), old_BT.to(dtype), advantage_B.to(dtype), mask_BT


@needs_vectors
@DTYPES
@pytest.mark.parametrize("case", vectors("scalar"), ids=lambda case: case["name"])
def test_scalar_vector(case: dict[str, Any], dtype: torch.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one case has tau_neg < tau_pos on purpose
        objective = SAPO(tau_pos=case["tau_pos"], tau_neg=case["tau_neg"])
    one = torch.ones(1, 1, dtype=torch.bool)
    loss, gradient_BT, stats = loss_and_gradient(
        objective,
        torch.tensor([[case["log_ratio"]]], dtype=dtype),
        torch.zeros(1, 1, dtype=dtype),
        torch.tensor([case["advantage"]], dtype=dtype),
        one,
    )
    # Below -20 the ratio is taken as exp(-20) = 2e-9 instead of 0: the promised clamp.
    clamp = {"atol": 2.1e-9} if case["log_ratio"] < -20 and dtype == torch.float64 else {}
    close(loss, case["loss_centered"], **clamp)
    close(gradient_BT.squeeze(), case["dloss_dlogp"], **clamp)
    close(stats["gate_BT"].squeeze(), case["w"])
    assert stats["log_ratio_BT"].item() == pytest.approx(
        max(-20.0, min(20.0, case["log_ratio"])), rel=1e-6
    )


@needs_vectors
@DTYPES
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case["name"])
def test_batch_vector(case: dict[str, Any], dtype: torch.dtype) -> None:
    logp_BT = torch.tensor(case["logp"], dtype=dtype)
    old_BT = torch.tensor(case["old_logp"], dtype=dtype)
    advantage_B = torch.tensor(case["advantages"], dtype=dtype)
    mask_BT = torch.tensor(case["mask"], dtype=torch.bool)
    loss, gradient_BT, stats = loss_and_gradient(SAPO(), logp_BT, old_BT, advantage_B, mask_BT)
    want = case["seq_mean_token_mean"]
    # The vectors hold the uncentred loss: it is less by the mean of 2A/tau over rows with tokens.
    tau_B = torch.full_like(advantage_B, 1.05).masked_fill(advantage_B > 0, 1.0)
    offset = (2 * advantage_B / tau_B * mask_BT.any(dim=1)).mean()
    close(loss - offset, want["loss"], **({"atol": 1e-6} if dtype == torch.float32 else {}))
    close(gradient_BT, want["dloss_dlogp"])
    gate_mean = stats["gate_BT"][mask_BT].mean().item()
    assert gate_mean == pytest.approx(case["effective_update_ratio"], rel=1e-6)


@needs_vectors
def test_weighted_vector_through_the_parts() -> None:
    """Token weights multiply between gate and mean: the parts compose without the class."""
    (case,) = WEIGHTED
    logp_BT = torch.tensor(case["logp"], dtype=torch.float64, requires_grad=True)
    old_BT = torch.tensor(case["old_logp"], dtype=torch.float64)
    advantage_B1 = torch.tensor(case["advantages"], dtype=torch.float64)[:, None]
    weight_BT = torch.tensor(case["is_weights"], dtype=torch.float64)
    mask_BT = torch.tensor(case["mask"], dtype=torch.bool)
    log_ratio_BT = masked_log_ratio(logp_BT, old_BT, mask_BT)
    tau_B1 = torch.tensor([[1.0], [1.05]], dtype=torch.float64)
    gate = SigmoidGate()(log_ratio_BT, tau_B1)
    token_BT = gated_surrogate(gate, log_ratio_BT) * advantage_B1 * weight_BT
    loss = -SequenceMean()(token_BT, mask_BT)
    (gradient_BT,) = torch.autograd.grad(loss, logp_BT)
    offset = SequenceMean()(2 / tau_B1 * advantage_B1 * weight_BT, mask_BT)
    close(loss - offset, case["seq_mean_token_mean"]["loss"])
    close(gradient_BT, case["seq_mean_token_mean"]["dloss_dlogp"])


@DTYPES
@pytest.mark.parametrize("taus", [(1.0, 1.05), (10.0, 12.0), (0.5, 4.0)])
def test_value_and_gradient_are_the_papers(dtype: torch.dtype, taus: tuple[float, float]) -> None:
    batch = random_batch(dtype=dtype)
    want_loss, want_gradient = reference(*batch, *taus)
    loss, gradient_BT, _ = loss_and_gradient(SAPO(*taus), *batch)
    close(loss, want_loss)
    close(gradient_BT, want_gradient)


def test_gradient_agrees_with_central_differences() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(1, rows=3, tokens=4)
    _, gradient_BT, _ = loss_and_gradient(SAPO(), logp_BT, old_BT, advantage_B, mask_BT)
    h = 1e-5
    for b, t in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        step_BT = torch.zeros_like(logp_BT)
        step_BT[b, t] = h
        up = SAPO()(logp_BT + step_BT, old_BT, advantage_B, mask_BT).loss
        down = SAPO()(logp_BT - step_BT, old_BT, advantage_B, mask_BT).loss
        assert gradient_BT[b, t].item() == pytest.approx(
            ((up - down) / (2 * h)).item(), rel=1e-7, abs=1e-9
        )


@DTYPES
@pytest.mark.parametrize("taus", [(1.0, 1.05), (10.0, 12.0)])
def test_on_policy_loss_is_zero_and_gradient_is_plain_policy_gradient(dtype, taus) -> None:
    """Fails when 4/tau is missing (gradient tau/4), or when f stands where w belongs (2/tau)."""
    _, old_BT, advantage_B, mask_BT = random_batch(2, dtype=dtype)
    loss, gradient_BT, stats = loss_and_gradient(SAPO(*taus), old_BT, old_BT, advantage_B, mask_BT)
    assert loss.item() == 0
    length_B1 = mask_BT.sum(dim=1, keepdim=True)
    close(gradient_BT, -advantage_B[:, None] * mask_BT / length_B1 / len(mask_BT))
    assert torch.equal(stats["gate_BT"], mask_BT.float())
    assert torch.equal(stats["log_ratio_BT"], torch.zeros_like(stats["log_ratio_BT"]))


def test_temperature_follows_the_sign_of_the_advantage() -> None:
    """Fails when the temperatures are swapped, and when A = 0 counts as positive."""
    z_BT = torch.full((3, 1), math.log(2.0), dtype=torch.float64)
    advantage_B = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    mask_BT = torch.ones(3, 1, dtype=torch.bool)
    _, gradient_BT, stats = loss_and_gradient(
        SAPO(), z_BT, torch.zeros_like(z_BT), advantage_B, mask_BT, denominator=1
    )
    close(gradient_BT[:, 0], [-1.5728954659318550, 1.5362196833905887, 0.0], rtol=1e-6)
    close(stats["gate_BT"][:, 0], [0.7864477329659275, 0.7681097916952944, 0.7681097916952944])
    assert gradient_BT[2].item() == 0


def test_tokens_are_averaged_within_each_response_first() -> None:
    """Fails for a token mean: one long response must weigh as much as one short."""
    z_BT = torch.zeros(2, 4, dtype=torch.float64)
    mask_BT = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    advantage_B = torch.tensor([1.0, -1.0], dtype=torch.float64)
    _, gradient_BT, _ = loss_and_gradient(SAPO(), z_BT, z_BT, advantage_B, mask_BT)
    close(gradient_BT, [[-0.125] * 4, [0.5, 0.0, 0.0, 0.0]])


@DTYPES
@pytest.mark.parametrize("log_ratio", [20.0, 25.0, 88.8, 100.0, 1e4, 1e30, math.inf])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_no_log_ratio_overflows(log_ratio: float, advantage: float, dtype: torch.dtype) -> None:
    logp_BT = torch.tensor([[log_ratio], [-log_ratio]], dtype=dtype)
    advantage_B = torch.full((2,), advantage, dtype=dtype)
    mask_BT = torch.ones(2, 1, dtype=torch.bool)
    loss, gradient_BT, stats = loss_and_gradient(
        SAPO(), logp_BT, torch.zeros_like(logp_BT), advantage_B, mask_BT
    )
    tau = 1.0 if advantage > 0 else 1.05
    close(loss, -advantage / tau * (1 - math.tanh(tau / 2)), rtol=1e-5, atol=1e-8)
    close(gradient_BT, torch.zeros(2, 1), atol=2.1e-9)
    assert all(torch.isfinite(value).all() for value in stats.values())


@DTYPES
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 120.0, 1e38])
def test_masked_places_may_hold_anything(garbage: float, dtype: torch.dtype) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(3, dtype=dtype)
    want = loss_and_gradient(SAPO(), logp_BT, old_BT, advantage_B, mask_BT)
    for dirty_logp, dirty_old in ((garbage, 0.0), (0.0, garbage), (garbage, garbage)):
        loss, gradient_BT, stats = loss_and_gradient(
            SAPO(),
            logp_BT.masked_fill(~mask_BT, dirty_logp),
            old_BT.masked_fill(~mask_BT, dirty_old),
            advantage_B,
            mask_BT,
        )
        assert torch.equal(loss, want[0])
        assert torch.equal(gradient_BT, want[1])
        assert all(torch.equal(stats[name], want[2][name]) for name in stats)
        assert (stats["gate_BT"][~mask_BT] == 0).all()


def test_fully_masked_row_adds_nothing_and_counts() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(4, rows=3)
    want, _, _ = loss_and_gradient(SAPO(), logp_BT[:2], old_BT[:2], advantage_B[:2], mask_BT[:2])
    mask_BT[2] = False
    advantage_B[2] = math.nan
    loss, gradient_BT, _ = loss_and_gradient(SAPO(), logp_BT, old_BT, advantage_B, mask_BT)
    close(loss, want * 2 / 3)
    assert (gradient_BT[2] == 0).all()
    assert torch.isfinite(gradient_BT).all()


def test_nan_in_a_response_token_stays_visible() -> None:
    z_BT = torch.tensor([[math.nan]])
    loss = SAPO()(z_BT, torch.zeros(1, 1), torch.ones(1), torch.ones(1, 1, dtype=torch.bool)).loss
    assert loss.isnan()


@pytest.mark.parametrize("cuts", [(3, 3), (1, 2, 3), (1,) * 6, (6, 0)])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_micro_batches_add_up_to_the_batch(cuts: tuple[int, ...], as_tensor: bool) -> None:
    batch = random_batch(5)
    want_loss, want_gradient_BT, _ = loss_and_gradient(SAPO(), *batch)
    denominator = torch.tensor(6) if as_tensor else 6.0
    parts = [
        loss_and_gradient(SAPO(), *part, denominator=denominator)
        for part in zip(*(tensor.split(cuts) for tensor in batch), strict=True)
    ]
    close(torch.stack([part[0] for part in parts]).sum(), want_loss)
    close(torch.cat([part[1] for part in parts]), want_gradient_BT)


def test_padding_changes_nothing() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(6)
    want_loss, want_gradient_BT, _ = loss_and_gradient(
        SAPO(), logp_BT, old_BT, advantage_B, mask_BT
    )
    pad = (2, 30)  # on both sides
    loss, gradient_BT, _ = loss_and_gradient(
        SAPO(),
        torch.nn.functional.pad(logp_BT, pad, value=7.0),
        torch.nn.functional.pad(old_BT, pad),
        advantage_B,
        torch.nn.functional.pad(mask_BT, pad),
    )
    close(loss, want_loss)
    close(gradient_BT[:, 2:-30], want_gradient_BT)
    assert (gradient_BT[:, :2] == 0).all()
    assert (gradient_BT[:, -30:] == 0).all()


def test_gradient_reaches_the_policy_alone() -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(7)
    old_BT.requires_grad_()
    advantage_B.requires_grad_()
    output = SAPO()(logp_BT.requires_grad_(), old_BT, advantage_B, mask_BT)
    output.loss.backward()
    assert logp_BT.grad is not None
    assert old_BT.grad is None
    assert advantage_B.grad is None
    assert not any(value.requires_grad for value in output.stats.values())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(8, dtype=dtype)
    output = SAPO()(logp_BT, old_BT, advantage_B, mask_BT.int())
    assert output.loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert output.loss.shape == ()
    assert set(output.stats) == {"log_ratio_BT", "gate_BT"}
    assert all(value.dtype == torch.float32 for value in output.stats.values())
    wide = SAPO()(
        logp_BT.float(),
        old_BT.float(),
        advantage_B.double(),
        mask_BT,
        denominator=torch.tensor([6.0], dtype=torch.float64),
    )
    assert wide.loss.dtype == torch.float32
    assert wide.loss.shape == ()


@pytest.mark.parametrize("name", ["tau_pos", "tau_neg"])
@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan, math.inf])
def test_impossible_temperature_is_an_error_that_names_it(name: str, tau: float) -> None:
    with pytest.raises(ValueError, match=name):
        SAPO(**{name: tau})


def test_inverted_temperatures_warn_and_work() -> None:
    with pytest.warns(UserWarning, match="tau_neg"):
        objective = SAPO(tau_pos=1.0, tau_neg=0.95)
    batch = random_batch(9)
    loss, gradient_BT, _ = loss_and_gradient(objective, *batch)
    want_loss, want_gradient = reference(*batch, 1.0, 0.95)
    close(loss, want_loss)
    close(gradient_BT, want_gradient)


@pytest.mark.parametrize("taus", [(), (1.0, 1.0), (10.0, 12.0)])
def test_ordinary_temperatures_do_not_warn(taus: tuple[float, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SAPO(*taus)


@pytest.mark.parametrize("denominator", [0, -1.0, math.nan, torch.ones(2)])
def test_impossible_denominator_is_an_error(denominator: float | Tensor) -> None:
    with pytest.raises(ValueError, match="denominator"):
        SAPO()(*random_batch(), denominator=denominator)


@pytest.mark.parametrize("name", ["logp_BT", "old_logp_BT", "advantage_B", "mask_BT"])
def test_shape_that_would_broadcast_is_an_error_that_names_it(name: str) -> None:
    arguments = dict(
        zip(("logp_BT", "old_logp_BT", "advantage_B", "mask_BT"), random_batch(), strict=True)
    )
    arguments[name] = arguments[name][..., None]
    with pytest.raises(ValueError, match=name):
        SAPO()(**arguments)


def test_objective_is_plain_configuration() -> None:
    assert isinstance(SAPO(), Objective)
    assert SAPO() == SAPO(tau_pos=1.0, tau_neg=1.05)
    assert pickle.loads(pickle.dumps(SAPO(2.0, 3.0))) == SAPO(2.0, 3.0)


def test_objective_is_set_from_yaml() -> None:
    jsonargparse = pytest.importorskip("jsonargparse")
    parser = jsonargparse.ArgumentParser()
    parser.add_argument("--objective", type=Objective)
    given = '{"class_path": "sapo_vl.objectives.SAPO", "init_args": {"tau_pos": 10, "tau_neg": 12}}'
    config = parser.parse_args([f"--objective={given}"])
    build = getattr(parser, "instantiate", None) or parser.instantiate_classes
    assert build(config).objective == SAPO(10.0, 12.0)
