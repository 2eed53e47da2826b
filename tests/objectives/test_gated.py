"""What all objectives share: the off-policy mask, CISPO's cap, and how YAML names them."""

import math

import jsonargparse
import pytest
import torch

from sapo_vl.objectives import (
    CISPO,
    GRPO,
    GSPO,
    SAPO,
    ConstantMean,
    ErfGate,
    GatedObjective,
    Objective,
    TokenMean,
)
from sapo_vl.objectives.clipping import cap_gate

OBJECTIVES = [SAPO, GRPO, GSPO, CISPO]


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_off_policy_mask_drops_fallen_responses_with_negative_advantage(kind) -> None:
    """Responses: fell a lot, fell a little, rose; each with A < 0, A > 0 and A = 0."""
    z_BT = torch.tensor([[-0.9, -0.1], [-0.01, -0.1], [0.9, 0.1]]).repeat(3, 1)
    advantage_B = torch.tensor([-1.0, 1.0, 0.0]).repeat_interleave(3)
    arguments = (z_BT.requires_grad_(), torch.zeros(9, 2), advantage_B, torch.ones(9, 2))
    plain = kind(**_wide(kind))(*arguments)
    masked = kind(**_wide(kind), off_policy_mask_threshold=0.4)(*arguments)
    (gradient_BT,) = torch.autograd.grad(masked.loss, z_BT, retain_graph=True)
    (plain_BT,) = torch.autograd.grad(plain.loss, z_BT)
    left_out = torch.arange(9) == 0
    assert (gradient_BT[left_out] == 0).all()
    assert (masked.stats["gate_BT"][left_out] == 0).all()
    assert torch.equal(gradient_BT[~left_out], plain_BT[~left_out])
    assert (plain_BT[left_out] != 0).all()
    rest = [tensor.detach()[~left_out] for tensor in arguments]
    alone = kind(**_wide(kind))(*rest, denominator=9.0)
    torch.testing.assert_close(masked.loss, alone.loss)  # no term in the loss either
    assert abs(masked.loss - plain.loss) > 1e-3


def _wide(kind) -> dict[str, float]:
    """Clips so wide that nothing else is cut."""
    return {"clip_low": 5.0, "clip_high": 5.0} if kind in (GRPO, GSPO) else {}


def test_threshold_counts_the_mean_over_the_response_alone() -> None:
    z_BT = torch.tensor([[-1.0, -9.0]])
    mask_BT = torch.tensor([[True, False]])
    arguments = (z_BT, torch.zeros(1, 2), torch.tensor([-1.0]), mask_BT)
    assert SAPO(off_policy_mask_threshold=1.0)(*arguments).stats["gate_BT"][0, 0] > 0
    assert SAPO(off_policy_mask_threshold=0.99)(*arguments).stats["gate_BT"][0, 0] == 0


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("threshold", [-0.1, math.nan])
def test_impossible_threshold_is_an_error(kind, threshold: float) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__}: off_policy_mask_threshold"):
        kind(off_policy_mask_threshold=threshold)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_objectives_keep_the_promise(kind) -> None:
    objective = kind()
    assert isinstance(objective, Objective)
    assert isinstance(objective, GatedObjective)
    mask_BT = torch.tensor([[True, True, False], [True, False, False]])
    # Where YAML puts one class in place of another, arguments that both have stay as they were: a
    # default of CISPO's own would never be used behind base.yaml.
    assert objective.aggregation.units(mask_BT) == 2
    assert kind(aggregation=TokenMean()).aggregation.units(mask_BT) == 3
    on_policy = objective(torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([1.0, -1.0]), mask_BT)
    assert on_policy.loss == 0
    assert torch.equal(on_policy.stats["gate_BT"], mask_BT.float())


@pytest.mark.parametrize("most", [1.0, 1.3, 5.0])
def test_cispo_caps_the_effective_weight(most: float) -> None:
    z_BT = torch.tensor([[-3.0, -0.1, 0.0, 0.2, 1.0, 3.0, 20.0]], dtype=torch.float64)
    gate = cap_gate(z_BT, most)
    ratio_BT = z_BT.exp()
    torch.testing.assert_close(gate.weight_BT * ratio_BT, ratio_BT.clamp(max=most))
    step = 1e-6
    up, down = cap_gate(z_BT + step, most).value_BT, cap_gate(z_BT - step, most).value_BT
    slope_BT = (up - down) / (2 * step)  # in log r: w r
    away = (z_BT - math.log(most)).abs() > 1e-3  # from the kink
    torch.testing.assert_close(
        slope_BT[away], (gate.weight_BT * ratio_BT)[away], rtol=1e-7, atol=1e-9
    )
    assert gate.value_BT[0, 2] == 0


@pytest.mark.parametrize("most", [0.9, math.nan, math.inf])
def test_impossible_cap_is_an_error(most: float) -> None:
    with pytest.raises(ValueError, match="most"):
        CISPO(most=most)


@pytest.mark.parametrize(
    ("yaml", "want"),
    [
        (
            "{class_path: sapo_vl.objectives.SAPO, init_args: {tau_pos: 10, tau_neg: 12, gate: "
            "{class_path: sapo_vl.objectives.ErfGate}, outward_only: true}}",
            SAPO(10.0, 12.0, ErfGate(), outward_only=True),
        ),
        (
            "{class_path: sapo_vl.objectives.GRPO, init_args: {aggregation: {class_path: "
            "sapo_vl.objectives.ConstantMean, init_args: {length: 512}}}}",
            GRPO(aggregation=ConstantMean(512.0)),
        ),
        (
            "{class_path: sapo_vl.objectives.CISPO, init_args: {most: 4, "
            "off_policy_mask_threshold: 0.5}}",
            CISPO(4.0, off_policy_mask_threshold=0.5),
        ),
    ],
)
def test_yaml_names_gates_and_aggregations(yaml: str, want: Objective) -> None:
    parser = jsonargparse.ArgumentParser()
    parser.add_argument("--objective", type=Objective)
    built = parser.instantiate_classes(parser.parse_args([f"--objective={yaml}"]))
    assert built.objective == want
