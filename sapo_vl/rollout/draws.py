"""The random numbers of a rollout, and how a number picks a token.

Every response has its own stream, named by (run seed, iteration, global prompt index, response
index): the same prompt draws the same numbers in any batch, on any number of ranks, and after a
resume.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Seed = tuple[int, ...]


def uniform_draws(seed: Seed, prompt_index: Sequence[int], group_size: int, length: int) -> Tensor:
    """Uniform numbers in [0, 1), float64 [P * G, length], prompt after prompt."""
    rows = [
        np.random.default_rng([*seed, index, response]).random(length)
        for index in prompt_index
        for response in range(group_size)
    ]
    return torch.from_numpy(np.stack(rows))


def pick(logp_BV: Tensor, uniform_B: Tensor) -> Tensor:
    """Token ids (int64 [B]) at which the cumulative probability passes ``uniform_B``."""
    cumulative = logp_BV.exp().cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    # Strictly below the total, so that rounding never runs past the last token with any
    # probability.
    target = torch.minimum(uniform_B[:, None] * total, torch.nextafter(total, total * 0))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)


def penalised(logp_BV: Tensor, seen_BT: Tensor, penalty: float) -> Tensor:
    """Take ``penalty`` off each token of ``seen_BT``, once however often it stands there.

    What comes out is not normalised.
    """
    seen_BV = torch.zeros_like(logp_BV).scatter_(-1, seen_BT, 1.0)
    return logp_BV - penalty * seen_BV


def restrict(logp_BV: Tensor, top_p: float, top_k: int) -> Tensor:
    """Drop all but the ``top_k`` most likely tokens, then those outside the ``top_p`` nucleus."""
    if top_k:
        k = min(top_k, logp_BV.shape[-1])
        kth = logp_BV.topk(k, dim=-1).values[:, -1:]
        logp_BV = logp_BV.masked_fill(logp_BV < kth, -torch.inf)
    if top_p < 1:
        ordered, order = logp_BV.log_softmax(-1).sort(dim=-1, descending=True)
        mass_before = ordered.exp().cumsum(-1) - ordered.exp()
        outside = torch.zeros_like(mass_before, dtype=torch.bool)
        outside.scatter_(-1, order, mass_before >= top_p)
        logp_BV = logp_BV.masked_fill(outside, -torch.inf)
    return logp_BV
