"""Score the responses of a rollout with the policy, micro-batch by micro-batch.

Shape letters: B responses of the rollout, N rows of a micro-batch, T response tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sapo_vl.modules.batching import MicroBatch
from sapo_vl.policy import Policy, Scores
from sapo_vl.types import PromptBatch, Rollout


@dataclass(frozen=True, slots=True)
class RolloutScorer:
    """A rollout, the prompts it answers, and the policy that scores it."""

    policy: Policy
    batch: PromptBatch
    rollout: Rollout
    temperature: float
    micro_batch: MicroBatch
    most: Callable[[int], int] = int  # the largest over ranks of a count

    def cut(self, rows: Tensor) -> list[Tensor]:
        """Micro-batches of these rows (int64, on the CPU)."""
        size_P = torch.tensor([len(x.input_ids_S) for x in self.batch.inputs])
        prompt_B = torch.arange(len(self.rollout.mask_BT)) // self.rollout.group_size
        length_B, shared = self.rollout.length_B.cpu(), self.policy.share_prefix
        return self.micro_batch.cut(rows, length_B, prompt_B, size_P, shared=shared)

    def passes(self, rows: Tensor) -> list[tuple[Tensor, bool]]:
        """Micro-batches of these rows, as many on every rank: (rows, whether they count).

        Strategies that split gradients or weights over ranks hang when one of them makes another
        pass. A rank with less to do scores its first response again, for nothing.
        """
        parts = self.cut(rows)
        idle = (torch.tensor([0]), False)
        return [(part, True) for part in parts] + [idle] * (self.most(len(parts)) - len(parts))

    def score(self, rows: Tensor) -> tuple[Scores, Tensor]:
        """Scores of some rows, cut to the longest of them, and their mask; both [N, t]."""
        prompts, own = torch.unique(rows // self.rollout.group_size, return_inverse=True)
        mask_NT = self.rollout.mask_BT[rows]
        mask_NT = mask_NT[:, : max(1, int(mask_NT.sum(1).max()))]
        scores = self.policy.score(
            [self.batch.inputs[i] for i in prompts.tolist()],
            own.to(mask_NT.device),
            self.rollout.response_ids_BT[rows, : mask_NT.shape[1]],
            mask_NT,
            self.temperature,
        )
        return scores, mask_NT

    @torch.no_grad()
    def logp(self, scored_B: Tensor | None = None) -> Tensor:
        """Log-probs [B, T] of the policy as it is, where ``scored_B`` holds; None: everywhere.

        The sampler's stand in elsewhere: where no group of an update carries signal one is scored
        all the same, with advantages of 0.
        """
        logp_BT = self.rollout.logp_BT.clone()
        if scored_B is None:
            scored_B = torch.ones(len(logp_BT), dtype=torch.bool)
        for rows, counts in self.passes(scored_B.nonzero().squeeze(-1).cpu()):
            scores, mask_NT = self.score(rows)
            if counts:
                logp_BT[rows, : mask_NT.shape[1]] = scores.logp_BT
        return logp_BT
