"""Keys and values of groups that are being decoded: each prompt's once, each response's own.

A cache repeated over the group would be copied for every token (it grows by concatenation) and
read G times. Here a step's G queries of a group meet one copy of the prompt's keys, and the
responses live in buffers that are written in place.

Shape letters: P prompts, S prompt tokens (padded on the left), B rows (responses still being
drawn), T response tokens so far, W most rows of a prompt, H key-value heads, R query heads per
key-value head, D head dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

ATTENTION = "sapo_vl_group_cache"
FIRST_TOKENS = 64  # room for response tokens at first; doubled when it is full


@dataclass(slots=True)
class _Layer:
    prompt_key_PHSD: Tensor
    prompt_value_PHSD: Tensor
    key_BHTD: Tensor  # room for more rows and tokens than are in use
    value_BHTD: Tensor


class GroupCache:
    """What a model's attention layers have seen of some prompts and of the responses to them.

    Args:
        prompts: transformers' cache of a forward pass over the prompts, padded on the left.
        mask_PS: bool; True on the prompts' real tokens.
        prompt_B: int64; the prompt of each row.
        max_tokens: most tokens a response will have.

    Every row must have the same number of tokens; rows that have ended are dropped. Under autocast
    keys and values are held in its dtype, which other implementations cast them to at every use.
    """

    def __init__(self, prompts: Any, mask_PS: Tensor, prompt_B: Tensor, max_tokens: int) -> None:
        self.tokens = 0
        self._max_tokens = max_tokens
        self._mask_PS = mask_PS
        self._prompt_B = prompt_B
        rows = len(prompt_B)
        self._layers = [
            _Layer(keys, values, _no_tokens(keys, rows), _no_tokens(values, rows))
            for keys, values in (
                (_as_computed(layer.keys), _as_computed(layer.values)) for layer in prompts.layers
            )
        ]
        self._number_slots()

    @property
    def prompts(self) -> int:
        """Prompts whose keys and values are held."""
        return len(self._mask_PS)

    def get_seq_length(self) -> int:
        """Tokens seen by a row, padding counted (transformers asks)."""
        return self._mask_PS.shape[1] + self.tokens

    def make_room(self) -> None:
        """Make sure that one more token fits; call it before each step."""
        if self.tokens < self._layers[0].key_BHTD.shape[2]:
            return
        room, rows = max(FIRST_TOKENS, 2 * self.tokens), len(self._prompt_B)
        room = min(room, self._max_tokens)
        for layer in self._layers:
            layer.key_BHTD = _with_room(layer.key_BHTD[:rows], room)
            layer.value_BHTD = _with_room(layer.value_BHTD[:rows], room)

    def update(self, key_BH1D: Tensor, value_BH1D: Tensor, layer_idx: int, **_: Any) -> Any:
        """Write the keys and values of the step's token (transformers calls this)."""
        layer, rows = self._layers[layer_idx], len(key_BH1D)
        layer.key_BHTD[:rows, :, self.tokens] = key_BH1D[:, :, 0]
        layer.value_BHTD[:rows, :, self.tokens] = value_BH1D[:, :, 0]
        return key_BH1D, value_BH1D

    def keep(self, alive_B: Tensor) -> Tensor:
        """Drop the other rows; returns which row is now where, int64 [rows left].

        The last rows move into the holes, so that dropping a few rows copies a few rows.
        """
        count = int(alive_B.sum())
        order = torch.arange(count, device=alive_B.device)
        holes = (~alive_B[:count]).nonzero().squeeze(-1)
        movers = alive_B[count:].nonzero().squeeze(-1) + count
        order[holes] = movers
        for layer in self._layers:
            layer.key_BHTD[holes, :, : self.tokens] = layer.key_BHTD[movers, :, : self.tokens]
            layer.value_BHTD[holes, :, : self.tokens] = layer.value_BHTD[movers, :, : self.tokens]
        self._prompt_B = self._prompt_B[order]
        self._drop_prompts()
        self._number_slots()
        return order

    def _drop_prompts(self) -> None:
        """Forget prompts without rows, once half of them have none."""
        used, own = self._prompt_B.unique(return_inverse=True)
        if 2 * len(used) > len(self._mask_PS):
            return
        self._prompt_B, self._mask_PS = own, self._mask_PS[used]
        for layer in self._layers:
            layer.prompt_key_PHSD = layer.prompt_key_PHSD[used]
            layer.prompt_value_PHSD = layer.prompt_value_PHSD[used]

    def _number_slots(self) -> None:
        """Give every row a place [P, W] among the rows of its prompt."""
        count_P = self._prompt_B.bincount(minlength=len(self._mask_PS))
        by_prompt = self._prompt_B.argsort(stable=True)
        start_P = count_P.cumsum(0) - count_P
        rank = torch.empty_like(by_prompt)
        rank[by_prompt] = torch.arange(len(rank), device=rank.device)
        rank -= start_P[self._prompt_B]
        self._width = int(count_P.max())
        self._slot_B = self._prompt_B * self._width + rank
        padded = not bool(self._mask_PS.all())
        self._padding_P11S = ~self._mask_PS[:, None, None] if padded else None

    def attend(self, query_BQD: Tensor, layer_idx: int, scaling: float) -> Tensor:
        """Attention of each row's query (Q = H * R heads) over its prompt and its own tokens.

        The softmax is over both together. Half precision is treated as in SDPA's kernels, which
        scoring runs: scores and sums are float32, only the weights are rounded, before they are
        divided by their sum. Returns [B, Q, D] in the dtype of the values.
        """
        layer, (rows, _, d) = self._layers[layer_idx], query_BQD.shape
        heads = layer.prompt_key_PHSD.shape[1]
        query_BHRD = query_BQD.view(rows, heads, -1, d).to(layer.key_BHTD.dtype)
        key = layer.key_BHTD[:rows, :, : self.tokens + 1]
        value = layer.value_BHTD[:rows, :, : self.tokens + 1]
        with torch.autocast(query_BQD.device.type, enabled=False):
            over_prompt = self._over_prompt(query_BHRD, layer.prompt_key_PHSD)
            over_own = _product(query_BHRD, key.transpose(-1, -2))
            scores = torch.cat([over_prompt, over_own], dim=-1).mul_(scaling)
            scores = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
            weight, s = scores.to(value.dtype), over_prompt.shape[-1]
            out = self._from_prompt(weight[..., :s], layer.prompt_value_PHSD)
            out = (out + _product(weight[..., s:], value)) / scores.sum(-1, keepdim=True)
        return out.to(value.dtype).view(rows, -1, d)

    def _over_prompt(self, query_BHRD: Tensor, key_PHSD: Tensor) -> Tensor:
        """Scores of each row's queries over its prompt [B, H, R, S], -inf on padding."""
        scores = _product(self._by_prompt(query_BHRD), key_PHSD.transpose(-1, -2))
        if self._padding_P11S is not None:
            scores = scores.masked_fill(self._padding_P11S, -torch.inf)
        return self._by_row(scores, query_BHRD.shape[2])

    def _from_prompt(self, weight_BHRS: Tensor, value_PHSD: Tensor) -> Tensor:
        """Sum of the prompt's values with these weights, [B, H, R, D]."""
        return self._by_row(
            _product(self._by_prompt(weight_BHRS), value_PHSD), weight_BHRS.shape[2]
        )

    def _by_prompt(self, rows_BHRX: Tensor) -> Tensor:
        """Rows of a prompt side by side: [P, H, W * R, X], zeros in empty places."""
        _, heads, r, x = rows_BHRX.shape
        prompts = len(self._mask_PS)
        slots = rows_BHRX.new_zeros(prompts * self._width, heads, r, x)
        slots[self._slot_B] = rows_BHRX
        grouped = slots.view(prompts, self._width, heads, r, x).transpose(1, 2)
        return grouped.reshape(prompts, heads, self._width * r, x)

    def _by_row(self, grouped_PHWX: Tensor, r: int) -> Tensor:
        """Inverse of ``_by_prompt``."""
        prompts, heads, _, x = grouped_PHWX.shape
        slots = grouped_PHWX.view(prompts, heads, self._width, r, x).transpose(1, 2)
        return slots.reshape(prompts * self._width, heads, r, x)[self._slot_B]


def _as_computed(x: Tensor) -> Tensor:
    """In the dtype of autocast, where it is on."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` of [X, H, n, k] and [X, H, k, m], in float32 also where both are half precision."""
    if a.dtype == torch.float32 or not a.is_cuda:  # only there a product takes an ``out_dtype``
        return a.float() @ b.float()
    product = torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out_dtype=torch.float32)
    return product.unflatten(0, a.shape[:2])


def _no_tokens(prompt_PHSD: Tensor, rows: int) -> Tensor:
    _, heads, _, d = prompt_PHSD.shape
    return prompt_PHSD.new_empty(rows, heads, 0, d)


def _with_room(old_BHTD: Tensor, tokens: int) -> Tensor:
    rows, heads, used, d = old_BHTD.shape
    new = old_BHTD.new_empty(rows, heads, tokens, d)
    new[:, :, :used] = old_BHTD
    return new


def _attention(
    module: Any,
    query_BQ1D: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    group_cache: GroupCache,
    scaling: float,
    **_: Any,  # what other implementations take
) -> tuple[Tensor, None]:
    """Attention of transformers' interface; keys and values are in the cache already."""
    out_BQD = group_cache.attend(query_BQ1D[:, :, 0], module.layer_idx, scaling)
    return out_BQD[:, None], None


# No mask is registered under this name, so transformers makes none.
AttentionInterface.register(ATTENTION, _attention)


@contextmanager
def group_attention(config: Any) -> Iterator[None]:
    """Let a text model (its config) attend through the ``group_cache`` it is given."""
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before
