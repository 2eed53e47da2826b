"""Log-probs and entropy of response tokens from hidden states, without keeping the logits.

The vocabulary (151,936 for Qwen) makes the logits the largest tensor of training; here they live a
chunk at a time and are computed again in the backward pass. Reductions are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def masked_log_softmax(logits_NV: Tensor, temperature: float, banned_V: Tensor) -> Tensor:
    """Log-probs of the sampled distribution: float32, over temperature, banned ids at -inf."""
    scaled = logits_NV.float() / temperature
    return torch.log_softmax(scaled.masked_fill(banned_V, -torch.inf), dim=-1)


def entropy(logp_NV: Tensor) -> Tensor:
    """Entropy [N] of each row of log-probs, in nats; a token of probability 0 adds nothing."""
    least = torch.finfo(logp_NV.dtype).min  # in place of -inf: 0 * -inf is NaN
    return -(logp_NV.exp() * logp_NV.clamp_min(least)).sum(-1)


class _TokenStats(torch.autograd.Function):
    """``masked_log_softmax`` at one token a row, and the entropy, by hand.

    Autograd would keep a copy of the logits for each step in between (scaling, masking,
    log-softmax); this keeps the probabilities alone. d log p(token) / d logit is
    (1[token] - p) / temperature.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_NV: Tensor, token_N: Tensor, temperature: float, banned_V: Tensor
    ) -> tuple[Tensor, Tensor]:
        z_NV = logits_NV.float() / temperature  # a copy: the head's output stays as it is
        z_NV.masked_fill_(banned_V, torch.finfo(z_NV.dtype).min)  # not -inf: 0 * -inf is NaN
        z_NV -= z_NV.amax(-1, keepdim=True)
        own_N = z_NV.gather(-1, token_N[:, None]).squeeze(-1)
        p_NV = z_NV.exp()
        total_N = p_NV.sum(-1)
        p_NV /= total_N[:, None]
        entropy_N = total_N.log() - z_NV.mul_(p_NV).sum(-1)
        ctx.save_for_backward(p_NV, token_N)
        ctx.temperature, ctx.dtype = temperature, logits_NV.dtype
        ctx.mark_non_differentiable(entropy_N)
        return own_N - total_N.log(), entropy_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        p_NV, token_N = ctx.saved_tensors
        grad_N1 = grads[0][:, None] / ctx.temperature
        grad_NV = p_NV * -grad_N1
        grad_NV.scatter_add_(-1, token_N[:, None], grad_N1)
        return grad_NV.to(ctx.dtype), None, None, None


class TokenStats(nn.Module):
    """``token_stats`` as a module of its own.

    A strategy that splits weights over ranks gathers them for one call of a module, on all ranks
    together. The number of chunks differs between ranks, so the gathering has to be for all chunks
    at once: for this module, and not for each use of the head in it.
    """

    def forward(
        self,
        hidden_ND: Tensor,
        token_N: Tensor,
        *,
        head: nn.Module,
        temperature: float,
        banned_V: Tensor,
        chunk_tokens: int,
    ) -> tuple[Tensor, Tensor]:
        """Log-prob of each token and entropy of its distribution, float32 [N] each."""

        def apply(hidden: Tensor) -> Tensor:
            if type(head) is nn.Linear:  # by its weight, so as not to call the module
                return F.linear(hidden, head.weight, head.bias)
            return head(hidden)  # a quantized one

        return token_stats(hidden_ND, token_N, apply, temperature, banned_V, chunk_tokens)


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

    def chunk(hidden: Tensor, token: Tensor) -> Any:
        return _TokenStats.apply(head(hidden), token, temperature, banned_V)

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
