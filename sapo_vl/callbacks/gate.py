"""gate/*: what the soft gate does, and what hard clipping would have done on the same tokens."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from torch import Tensor
from typing_extensions import override

from sapo_vl.callbacks.means import Mean, log_max, log_means, masked_mean, quantile
from sapo_vl.objectives import SAPO
from sapo_vl.types import IterationOutput, PromptBatch, UpdateOutput

GRPO_CLIP = (0.2, 0.2)  # below, above; on the token ratio
GSPO_CLIP = (3e-4, 4e-4)  # below, above; on the ratio of the sequence (geometric mean over tokens)
LOWERED = 0.8  # a ratio below it with a negative advantage: what soft gates are said to let through
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class GateMonitor(L.Callback):
    """Log the gate weight w and the effective weight w * ratio of every iteration.

    Over the tokens of all its updates: by sign of the advantage (pos, neg) and side of the ratio
    (up: raised, down: lowered); the share of tokens with w below 1/2; quantiles of |log ratio|
    (over this rank's tokens, averaged over ranks); the share that GRPO and GSPO would have clipped;
    how much log ratios differ within a response, which the paper's sequence view needs small (A2).
    ``gate/first_update_error`` is the largest |ratio - 1| in update 0, where every ratio must be 1:
    a self-test. ``policy/kl_old`` estimates KL(old policy || policy), and under a KL penalty
    ``policy/kl_reference`` KL(policy || reference policy).
    """

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
    ) -> None:
        output: IterationOutput = outputs["iteration"]
        means: dict[str, Mean] = {}
        for update in output.updates:
            for name, (total, count) in _update_means(update).items():
                before = means.get(name, (0.0, 0))
                means[name] = (before[0] + total, before[1] + count)
        size = torch.cat([u.log_ratio_NT[u.mask_NT].abs() for u in output.updates])
        means |= {f"gate/abs_log_ratio_{k}": (quantile(size, q), 1) for k, q in QUANTILES.items()}
        log_means(trainer, pl_module, means, prog_bar=("gate/weight_mean",))
        first = output.updates[0].log_ratio_NT.abs().max()
        log_max(
            trainer,
            pl_module,
            {
                "gate/abs_log_ratio_max": float(size.max()),
                "gate/first_update_error": float(first.expm1()),
            },
        )
        objective = getattr(pl_module, "objective", None)
        if isinstance(objective, SAPO):
            pl_module.log("gate/tau_pos", objective.tau_pos)
            pl_module.log("gate/tau_neg", objective.tau_neg)


def _update_means(update: UpdateOutput) -> dict[str, Mean]:
    mask, gate = update.mask_NT, update.gate_NT
    ratio = update.log_ratio_NT.exp()
    positive = mask & (update.advantage_N > 0)[:, None]
    negative = mask & (update.advantage_N < 0)[:, None]
    means = {
        "gate/weight_mean": masked_mean(gate, mask),
        "gate/weight_mean_pos": masked_mean(gate, positive),
        "gate/weight_mean_neg": masked_mean(gate, negative),
        "gate/under_half_share": masked_mean((gate < 0.5).float(), mask),
        "gate/closed_share": masked_mean((gate == 0).float(), mask),
        "gate/neg_lowered_share": masked_mean((ratio < LOWERED).float(), negative),
        "gate/ratio_mean": masked_mean(ratio, mask),
        # KL(old policy || policy), the estimator that is never negative.
        "policy/kl_old": masked_mean(update.log_ratio_NT.expm1() - update.log_ratio_NT, mask),
        "gate/grpo_clipped_share": masked_mean(_clipped(ratio, update, GRPO_CLIP).float(), mask),
    }
    if update.kl_NT is not None:
        means["policy/kl_reference"] = masked_mean(update.kl_NT, mask)
    for sign, chosen in (("pos", positive), ("neg", negative)):
        means[f"gate/effective_{sign}_up"] = masked_mean(gate * ratio, chosen & (ratio > 1))
        means[f"gate/effective_{sign}_down"] = masked_mean(gate * ratio, chosen & (ratio < 1))
    length_N1 = mask.sum(1, keepdim=True).clamp(min=1)
    sequence_N1 = update.log_ratio_NT.sum(1, keepdim=True) / length_N1
    apart_NT = (update.log_ratio_NT - sequence_N1).masked_fill(~mask, 0.0).square()
    variance_N1 = apart_NT.sum(1, keepdim=True) / length_N1
    means["gate/sequence_variance"] = masked_mean(variance_N1, mask.any(1, keepdim=True))
    clipped = _clipped(sequence_N1.exp().expand_as(ratio), update, GSPO_CLIP)
    means["gate/gspo_clipped_share"] = masked_mean(clipped.float(), mask)
    return means


def _clipped(ratio: Tensor, update: UpdateOutput, clip: tuple[float, float]) -> Tensor:
    """Where a PPO-style clip would have stopped the gradient: outward moves only."""
    positive = (update.advantage_N > 0)[:, None]
    negative = (update.advantage_N < 0)[:, None]
    return (positive & (ratio > 1 + clip[1])) | (negative & (ratio < 1 - clip[0]))
