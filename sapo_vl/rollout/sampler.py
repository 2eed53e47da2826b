"""The in-process sampler: each prompt and image is read once, its cache repeated over the group.

Shape letters: P prompts, G group size, B = P * G rows, T response tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.policy.head import entropy
from sapo_vl.rollout.draws import Seed, pick, restrict, uniform_draws
from sapo_vl.types import PromptBatch, PromptInputs, Rollout, Sampling


@dataclass(frozen=True)
class Sampler:
    """Sample with the policy's own weights.

    Args:
        max_rows: responses decoded at a time; more prompts go through in several passes. Bounds
            memory.
    """

    max_rows: int = 256

    def __call__(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        """Draw ``sampling.group_size`` responses to every prompt of ``batch``.

        The log-probs returned are those of the temperature alone: top_p and top_k do not
        renormalise them. Leaves the policy's mode as it was.
        """
        was_training = policy.training
        policy.eval()
        try:
            with torch.no_grad():
                return self._sample(policy, batch, sampling, seed)
        finally:
            policy.train(was_training)

    def _sample(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        g, per_pass = sampling.group_size, max(1, self.max_rows // sampling.group_size)
        drawn = _Drawn.empty(len(batch) * g, sampling.max_new_tokens, policy)
        for start in range(0, len(batch), per_pass):
            stop = min(start + per_pass, len(batch))
            index = [prompt.index for prompt in batch.prompts[start:stop]]
            uniform_BT = uniform_draws(seed, index, g, sampling.max_new_tokens).to(policy.device)
            part = drawn.rows(slice(start * g, stop * g))
            _decode(policy, batch.inputs[start:stop], sampling, uniform_BT, part)
        t = max(1, int(drawn.mask_BT.sum(1).max()))
        ids_BT, mask_BT = drawn.ids_BT[:, :t], drawn.mask_BT[:, :t]
        eos = torch.tensor(policy.eos_ids, device=policy.device)
        texts = [
            policy.tokenizer.decode(ids[keep], skip_special_tokens=True)
            for ids, keep in zip(ids_BT.cpu(), mask_BT.cpu(), strict=True)
        ]
        return Rollout(
            group_size=g,
            response_ids_BT=ids_BT,
            mask_BT=mask_BT,
            logp_BT=drawn.logp_BT[:, :t],
            entropy_BT=drawn.entropy_BT[:, :t],
            finished_B=(torch.isin(ids_BT, eos) & mask_BT).any(1),
            texts=tuple(texts),
        )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What has been drawn so far, filled in place."""

    ids_BT: Tensor
    mask_BT: Tensor
    logp_BT: Tensor
    entropy_BT: Tensor

    @classmethod
    def empty(cls, rows: int, length: int, policy: Policy) -> _Drawn:
        ids_BT = torch.full((rows, length), policy.pad_id, device=policy.device)
        zeros = torch.zeros(rows, length, dtype=torch.float32, device=policy.device)
        return cls(ids_BT, torch.zeros_like(ids_BT, dtype=torch.bool), zeros, zeros.clone())

    def rows(self, part: slice) -> _Drawn:
        """A view of some rows."""
        return _Drawn(
            self.ids_BT[part], self.mask_BT[part], self.logp_BT[part], self.entropy_BT[part]
        )


def _decode(
    policy: Policy,
    inputs: Sequence[PromptInputs],
    sampling: Sampling,
    uniform_BT: Tensor,
    drawn: _Drawn,
) -> None:
    """Fill ``drawn`` token by token; rows that have ended leave the batch."""
    device = uniform_BT.device
    eos = torch.tensor(policy.eos_ids, device=device)
    prefix = policy.prefill(inputs)
    prefix.select(torch.arange(len(inputs), device=device).repeat_interleave(sampling.group_size))
    hidden, rows = prefix.last_hidden, torch.arange(len(uniform_BT), device=device)
    for step in range(sampling.max_new_tokens):
        logp_BV = policy.log_probs(hidden, sampling.temperature or 1.0)
        if sampling.temperature == 0:
            token_B = logp_BV.argmax(-1)
        else:
            kept = restrict(logp_BV, sampling.top_p, sampling.top_k)
            token_B = pick(kept, uniform_BT[rows, step])
        drawn.ids_BT[rows, step] = token_B
        drawn.mask_BT[rows, step] = True
        drawn.logp_BT[rows, step] = logp_BV.gather(-1, token_B[:, None]).squeeze(-1)
        drawn.entropy_BT[rows, step] = entropy(logp_BV)
        alive = (~torch.isin(token_B, eos)).nonzero().squeeze(-1)
        if len(alive) == 0 or step + 1 == sampling.max_new_tokens:
            return
        if len(alive) < len(rows):
            prefix.select(alive)
            rows, token_B = rows[alive], token_B[alive]
        hidden = policy.forward_tokens(prefix, token_B[:, None], torch.ones_like(token_B[:, None]))[
            :, -1
        ]
