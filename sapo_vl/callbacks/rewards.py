"""reward/*, rollout/*, policy/*: how good, how long, how certain an iteration's responses are."""

from __future__ import annotations

from typing import Any, get_args

import lightning as L
import torch
from typing_extensions import override

from sapo_vl.advantage import informative_groups
from sapo_vl.callbacks.means import Mean, gathered, log_means, masked_mean
from sapo_vl.types import IterationOutput, PromptBatch, VerdictStatus


class RewardMonitor(L.Callback):
    """Log rewards, lengths, entropy, loss and gradient norm of every iteration.

    Rewards also by task; ``reward/status_*`` are the shares of verdicts by status. A breakdown
    (``Verdict.parts``) is logged as ``reward/<task>/<part>``, a mean over the task's verdicts that
    have the part. Which parts there are only the verdicts say, so the ranks tell each other their
    names: a task may have no prompt on a rank, or none that was answered.
    ``policy/entropy`` is that of the policy before the iteration's updates, over its own samples;
    ``policy/kl_rollout`` estimates KL(rollout policy || old policy) over the same tokens;
    ``policy/correction_mean`` is the mean weight of a correction for that gap, if there is one.
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
        means = _rewards(output) | _parts(output) | _rollout(output) | _policy(output)
        shown = ("reward/mean", "reward/accuracy", "policy/entropy")
        log_means(trainer, pl_module, means, prog_bar=shown)
        pl_module.log("policy/updates", float(trainer.global_step))


def _rewards(output: IterationOutput) -> dict[str, Mean]:
    batch = output.batch
    reward_PG, n = output.reward_PG, output.reward_PG.numel()
    means: dict[str, Mean] = {
        "reward/mean": (reward_PG.sum(), n),
        "reward/accuracy": ((reward_PG == 1).sum(), n),
        "reward/uniform_groups_share": (
            (~informative_groups(reward_PG)).sum(),
            len(reward_PG),
        ),
    }
    for status in get_args(VerdictStatus):
        means[f"reward/status_{status}"] = (sum(v.status == status for v in output.verdicts), n)
    for task in batch.tasks:
        own = torch.tensor([prompt.task == task for prompt in batch.prompts])
        means[f"reward/{task}"] = (reward_PG[own].sum(), own.sum() * reward_PG.shape[1])
    return means


def _parts(output: IterationOutput) -> dict[str, Mean]:
    g = output.reward_PG.shape[1]
    own: dict[str, list[float]] = {}
    for i, prompt in enumerate(output.batch.prompts):
        for verdict in output.verdicts[i * g : (i + 1) * g]:
            for part, score in verdict.parts.items():
                own.setdefault(f"reward/{prompt.task}/{part}", []).append(score)
    names = sorted(set().union(*gathered(sorted(own))))
    return {name: (sum(own.get(name, ())), len(own.get(name, ()))) for name in names}


def _rollout(output: IterationOutput) -> dict[str, Mean]:
    length_B, n = output.rollout.length_B, len(output.verdicts)
    means: dict[str, Mean] = {
        "rollout/length_mean": (length_B.sum(), n),
        "rollout/truncated_share": ((~output.rollout.finished_B).sum(), n),
        "rollout/tokens": (length_B.sum(), 1),
        "rollout/groups_replaced": (output.replaced, 1),
        "rollout/groups_extra": (output.extra, 1),
    }
    return means


def _policy(output: IterationOutput) -> dict[str, Mean]:
    n = len(output.updates)
    means: dict[str, Mean] = {
        "policy/entropy": masked_mean(output.rollout.entropy_BT, output.rollout.mask_BT),
        "policy/kl_rollout": masked_mean(
            output.rollout.logp_BT - output.old_logp_BT, output.scored_BT
        ),
        "policy/loss": (sum(u.loss for u in output.updates), n),
        "policy/grad_norm": (sum(u.grad_norm for u in output.updates), n),
        "policy/lr": (sum(u.lr for u in output.updates), n),
    }
    if output.weight_BT is not None:
        means["policy/correction_mean"] = masked_mean(output.weight_BT, output.scored_BT)
    return means
