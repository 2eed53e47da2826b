from __future__ import annotations

from typing import Any

import pytest
import torch

from sapo_vl.callbacks import GateMonitor
from sapo_vl.callbacks.means import quantile
from sapo_vl.objectives import SAPO
from sapo_vl.types import IterationOutput, PromptBatch, Rollout, UpdateOutput


class Strategy:
    def reduce(self, value: Any, reduce_op: str) -> Any:
        return value


class Trainer:
    strategy = Strategy()


class Module(torch.nn.Module):
    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.objective = SAPO(1.0, 1.05)
        self.logged: dict[str, float] = {}

    def log(self, name: str, value: Any, **_: Any) -> None:
        self.logged[name] = float(value)


def run(log_ratio: list[list[float]], advantage: list[float], mask: list[list[int]]) -> Any:
    """GateMonitor on an iteration of one on-policy update and one with these ratios."""
    moved = torch.tensor(log_ratio)
    mask_NT = torch.tensor(mask).bool()
    advantage_N = torch.tensor(advantage)
    updates = []
    for z in (torch.zeros_like(moved), moved):
        out = SAPO(1.0, 1.05)(z, torch.zeros_like(z), advantage_N, mask_NT)
        updates.append(
            UpdateOutput(
                loss=float(out.loss),
                grad_norm=1.0,
                lr=1e-4,
                advantage_N=advantage_N,
                mask_NT=mask_NT,
                log_ratio_NT=out.stats["log_ratio_BT"],
                gate_NT=out.stats["gate_BT"],
            )
        )
    zeros = torch.zeros(mask_NT.shape)
    rollout = Rollout(
        group_size=2,
        response_ids_BT=zeros.long(),
        mask_BT=mask_NT,
        logp_BT=zeros,
        entropy_BT=zeros,
        finished_B=torch.ones(len(mask_NT)).bool(),
        texts=("",) * len(mask_NT),
    )
    output = IterationOutput(
        iteration=0,
        batch=PromptBatch([], [], []),
        rollout=rollout,
        verdicts=(),
        reward_PG=torch.zeros(1, 2),
        advantage_PG=torch.zeros(1, 2),
        old_logp_BT=zeros,
        scored_BT=mask_NT,
        weight_BT=None,
        updates=tuple(updates),
        replaced=0,
        extra=0,
        seconds={},
    )
    module = Module()
    GateMonitor().on_train_batch_end(Trainer(), module, {"iteration": output}, None, 0)  # type: ignore[arg-type]
    return module.logged


LOG2 = 0.6931471805599453


def test_weights_by_sign_and_side() -> None:
    logged = run(
        [[LOG2, -LOG2, 0.0], [LOG2, -LOG2, 3.0]],
        [1.0, -1.0],
        [[1, 1, 0], [1, 1, 0]],
    )
    # sech^2(tau (r - 1) / 2) at r = 2 and 1/2, tau 1 for the first response, 1.05 for the second.
    pos_up, pos_down = 0.7864477329659275, 0.9400148488063780
    neg_up, neg_down = 0.7681097914603, 0.9341398232853927
    assert logged["gate/effective_pos_up"] == pytest.approx(2 * pos_up, rel=1e-5)
    assert logged["gate/effective_pos_down"] == pytest.approx(0.5 * pos_down, rel=1e-5)
    assert logged["gate/effective_neg_up"] == pytest.approx(2 * neg_up, rel=1e-5)
    assert logged["gate/effective_neg_down"] == pytest.approx(0.5 * neg_down, rel=1e-5)
    # Means over both updates; in the first every weight is 1.
    assert logged["gate/weight_mean_pos"] == pytest.approx((2 + pos_up + pos_down) / 4, rel=1e-5)
    assert logged["gate/weight_mean_neg"] == pytest.approx((2 + neg_up + neg_down) / 4, rel=1e-5)
    assert logged["gate/tau_pos"] == 1.0
    assert logged["gate/tau_neg"] == pytest.approx(1.05)
    assert logged["gate/first_update_error"] == 0.0
    assert logged["gate/abs_log_ratio_max"] == pytest.approx(LOG2)  # the masked 3.0 is not seen
    kl = sum(2 * (r - 1 - z) for r, z in ((2.0, LOG2), (0.5, -LOG2))) / 8
    assert logged["policy/kl_old"] == pytest.approx(kl, rel=1e-5)
    assert logged["gate/neg_lowered_share"] == pytest.approx(1 / 4)  # r = 1/2 of four
    # Two of four responses hold log ratios of +-log 2; the masked 3.0 is not among them.
    assert logged["gate/sequence_variance"] == pytest.approx(LOG2**2 / 2, rel=1e-5)


def test_what_hard_clipping_would_have_cut() -> None:
    logged = run([[LOG2, -LOG2], [LOG2, -LOG2]], [1.0, -1.0], [[1, 1], [1, 1]])
    # Outward moves alone: raised with A > 0, lowered with A < 0; two of eight tokens.
    assert logged["gate/grpo_clipped_share"] == pytest.approx(2 / 8)
    assert logged["gate/gspo_clipped_share"] == 0.0  # the sequences' geometric means are 1
    logged = run([[0.01, 0.01], [0.01, 0.01]], [1.0, -1.0], [[1, 1], [1, 0]])
    assert logged["gate/grpo_clipped_share"] == 0.0
    assert logged["gate/gspo_clipped_share"] == pytest.approx(2 / 6)


def test_share_under_half_and_names_that_have_nothing() -> None:
    logged = run([[2.0, 0.0]], [1.0], [[1, 1]])  # r = 7.4: w = 0.007
    assert logged["gate/under_half_share"] == pytest.approx(1 / 4)
    assert logged["gate/closed_share"] == 0.0
    assert run([[8.0, 0.0]], [1.0], [[1, 1]])["gate/closed_share"] == pytest.approx(1 / 4)
    assert "gate/weight_mean_neg" not in logged  # no negative advantage anywhere


def test_quantile_takes_the_rank() -> None:
    values = torch.arange(100.0)
    assert float(quantile(values, 0.5)) == 50
    assert float(quantile(values, 0.99)) == 99
    assert float(quantile(torch.tensor([3.0]), 0.5)) == 3
