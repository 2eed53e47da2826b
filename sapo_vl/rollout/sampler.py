"""The in-process sampler: each prompt and image is read once for its whole group.

Shape letters: P prompts, G group size, B = P * G rows, T response tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.policy.autocast import weights_cast_once
from sapo_vl.policy.decoding import Decoder
from sapo_vl.policy.head import entropy
from sapo_vl.rollout.build import to_rollout
from sapo_vl.rollout.draws import Seed, penalised, pick, restrict, uniform_draws
from sapo_vl.strategies import together, whole_weights
from sapo_vl.types import PromptBatch, Rollout, Sampling


@dataclass(frozen=True)
class Sampler:
    """Sample with the policy's own weights.

    Prompts go through in passes of like length; neither limit changes what is drawn.

    Args:
        max_rows: most responses decoded at a time.
        max_tokens: most tokens whose keys and values are held at a time, counting each prompt at
            the longest one's length and each response at ``max_new_tokens``. 0: no such limit.
        cast_once: under mixed precision (``precision: bf16-mixed`` without DeepSpeed) keep the
            half-precision copy of the weights for the time of a rollout: half as much memory again
            as the weights take. Without it every token casts them anew; the numbers are the same.
    """

    max_rows: int = 256
    max_tokens: int = 0
    cast_once: bool = True

    def ready(self, policy: Policy, strategy: Any) -> AbstractContextManager[None]:
        """Context with whole weights on every rank."""
        return _whole_weights_together(strategy)

    def __call__(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        """Draw ``sampling.group_size`` responses to every prompt of ``batch``.

        The log-probs returned are those of the temperature alone: top_p, top_k and the presence
        penalty do not change them. Leaves the policy's mode as it was.
        """
        was_training = policy.training
        policy.eval()
        try:
            kept = weights_cast_once(policy, policy.device) if self.cast_once else nullcontext()
            with torch.no_grad(), kept:
                return self._sample(policy, batch, sampling, seed)
        finally:
            policy.train(was_training)

    def passes(
        self, lengths: Sequence[int], group_size: int, max_new_tokens: int
    ) -> list[tuple[list[int], range]]:
        """Prompts (by index), and which responses of their groups, that are drawn together.

        A group is cut where it is over a limit by itself; a single response goes through always.
        """
        fitting = (self.max_tokens - max(lengths)) // max_new_tokens
        width = min(group_size, self.max_rows, fitting if self.max_tokens else group_size)
        by_length = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
        found = []
        for start in range(0, group_size, max(1, width)):
            part = range(start, min(start + max(1, width), group_size))
            together: list[int] = []
            for index in by_length:
                longest = lengths[together[0]] if together else 0
                if self._is_full(len(together) + 1, longest, len(part), max_new_tokens):
                    found.append((together, part))
                    together = []
                together.append(index)
            found.append((together, part))
        return found

    def _is_full(self, prompts: int, longest: int, responses: int, max_new_tokens: int) -> bool:
        if prompts == 1:
            return False
        tokens = prompts * (longest + responses * max_new_tokens)
        return prompts * responses > self.max_rows or 0 < self.max_tokens < tokens

    def _sample(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        g, device = sampling.group_size, policy.device
        drawn = _Drawn.empty(len(batch) * g, sampling.max_new_tokens, policy)
        index = [prompt.index for prompt in batch.prompts]
        uniform_BT = uniform_draws(seed, index, g, sampling.max_new_tokens).to(device)
        lengths = [len(x.input_ids_S) for x in batch.inputs]
        for prompts, part in self.passes(lengths, g, sampling.max_new_tokens):
            rows = [i * g + k for i in prompts for k in part]
            prompt_B = torch.arange(len(prompts), device=device).repeat_interleave(len(part))
            decoder = policy.decoder(
                [batch.inputs[i] for i in prompts], prompt_B, sampling.max_new_tokens
            )
            _decode(policy, decoder, torch.tensor(rows, device=device), sampling, uniform_BT, drawn)
        return drawn.rollout(policy, g)


@contextmanager
def _whole_weights_together(strategy: Any) -> Iterator[None]:
    with whole_weights(strategy), together(strategy):
        yield


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

    def rollout(self, policy: Policy, group_size: int) -> Rollout:
        """What has been drawn, cut to the longest response."""
        return to_rollout(
            policy, group_size, self.ids_BT, self.mask_BT, self.logp_BT, self.entropy_BT
        )


def _decode(
    policy: Policy,
    decoder: Decoder,
    rows: Tensor,
    sampling: Sampling,
    uniform_BT: Tensor,
    drawn: _Drawn,
) -> None:
    """Fill these rows of ``drawn`` token by token; rows that have ended leave the decoder."""
    eos = torch.tensor(policy.eos_ids, device=rows.device)
    temperature = sampling.temperature or 1.0
    for step in range(sampling.max_new_tokens):
        logp_BV = policy.log_probs(decoder.hidden_BD, temperature)
        wanted_BV = logp_BV
        if sampling.presence_penalty and step:
            by = sampling.presence_penalty / temperature
            wanted_BV = penalised(logp_BV, drawn.ids_BT[rows, :step], by)
        if sampling.temperature == 0:
            token_B = wanted_BV.argmax(-1)
        else:
            kept = restrict(wanted_BV, sampling.top_p, sampling.top_k)
            token_B = pick(kept, uniform_BT[rows, step])
        drawn.ids_BT[rows, step] = token_B
        drawn.mask_BT[rows, step] = True
        drawn.logp_BT[rows, step] = logp_BV.gather(-1, token_B[:, None]).squeeze(-1)
        drawn.entropy_BT[rows, step] = entropy(logp_BV)
        alive_B = ~torch.isin(token_B, eos)
        if step + 1 == sampling.max_new_tokens or not alive_B.any():
            return
        if not alive_B.all():
            order = decoder.keep(alive_B)
            rows, token_B = rows[order], token_B[order]
        decoder.step(token_B)
