"""Log-probs and entropy of response tokens from hidden states, without keeping the logits.

The vocabulary (151,936 for Qwen) makes the logits the largest tensor of training; here they live a
chunk at a time and are computed again in the backward pass. Reductions are float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def masked_log_softmax(logits_NV: Tensor, temperature: float, banned_V: Tensor) -> Tensor:
    """Log-probs of the sampled distribution: float32, over temperature, banned ids at -inf."""
    scaled = logits_NV.float() / temperature
    return torch.log_softmax(scaled.masked_fill(banned_V, -torch.inf), dim=-1)


def entropy(logp_NV: Tensor) -> Tensor:
    """Entropy [N] of each row of log-probs, in nats; a token of probability 0 adds nothing."""
    return torch.special.entr(logp_NV.exp()).sum(-1)


def token_stats(
    hidden_ND: Tensor,
    token_N: Tensor,
    head: Callable[[Tensor], Tensor],
    temperature: float,
    banned_V: Tensor,
    chunk_tokens: int,
) -> tuple[Tensor, Tensor]:
    """Log-prob of each token and entropy of its distribution, float32 [N] each.

    The entropy carries no gradient.
    """

    def chunk(hidden: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        logp_NV = masked_log_softmax(head(hidden), temperature, banned_V)
        with torch.no_grad():
            entropy_N = entropy(logp_NV)
        return logp_NV.gather(-1, token[:, None]).squeeze(-1), entropy_N

    logps, entropies = [], []
    recompute = torch.is_grad_enabled() and len(token_N) > chunk_tokens
    for start in range(0, len(token_N), chunk_tokens):
        part = (hidden_ND[start : start + chunk_tokens], token_N[start : start + chunk_tokens])
        out = checkpoint(chunk, *part, use_reentrant=False) if recompute else chunk(*part)
        logps.append(out[0])
        entropies.append(out[1])
    if not logps:  # no response token at all: zeros that keep the graph
        empty = hidden_ND.float().sum(-1)
        return empty, empty.detach()
    return torch.cat(logps), torch.cat(entropies)
