"""Attention over a packed row: each response attends to its prompt and to itself.

transformers picks the attention function by a name in the model's config, when the layer runs.
Hooks on the attention modules set that name for the length of one call, and only where the call
brings a layout of groups. The layout travels in the call's keyword arguments, which gradient
checkpointing keeps for its second forward, so that this one attends as the first did. The vision
tower, the rollout and plain scoring keep the configured implementation.

On a GPU the prompt's part runs in SDPA's flash kernel, the responses' in its memory-efficient one,
since they need a mask. A flash kernel for variable lengths (a causal call over the prompts, and one
over responses whose keys are gathered behind their prompt's) would need neither mask nor padding;
flex_attention with a block mask would also do without the copy of the prompt's keys per response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, use_gqa_in_sdpa

from sapo_vl.policy.packing import Group

NAME = "sapo_vl_shared_prefix"
KEYWORD = "shared_prefix_groups"


def share_prefix_arguments(groups: Sequence[Group], device: torch.device) -> dict[str, Any]:
    """What a call of the model takes besides its inputs to attend within ``groups``.

    A mask of four dimensions passes through the model unread, whatever the implementation; without
    one some would build N x N. This one is empty: a function that did read it would fail.
    """
    mask = torch.empty(1, 1, 0, 0, dtype=torch.bool, device=device)
    return {KEYWORD: groups, "attention_mask": mask, "use_cache": False}


def install_shared_prefix(language_model: Any) -> None:
    """Let the attention of a language model's layers take ``share_prefix_arguments``."""
    for layer in language_model.layers:
        attention = getattr(layer, "self_attn", None)
        if attention is not None:  # a layer of linear attention has none
            attention.register_forward_pre_hook(_enter, with_kwargs=True)
            attention.register_forward_hook(_leave, with_kwargs=True, always_call=True)


def _enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if KEYWORD in kwargs:
        module.configured_attention = module.config._attn_implementation
        module.config._attn_implementation = NAME


def _leave(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
    if KEYWORD in kwargs:
        module.config._attn_implementation = module.configured_attention


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    *,
    shared_prefix_groups: Sequence[Group],
    **_: Any,  # what transformers passes to every implementation
) -> tuple[Tensor, None]:
    """Attend within each group; an implementation for transformers' AttentionInterface.

    ``query`` is [1, H, N, d], with as many tokens as ``shared_prefix_groups`` lay out; ``key`` and
    ``value`` may have fewer heads. ``attention_mask`` is not read. Returns [1, N, H, d].
    """
    sizes = [n for g in shared_prefix_groups for n in (g.prompt, *map(sum, g.batches))]
    # One split: its backward pass is one concatenation, that of slices a sum of whole rows.
    split = (x[0].transpose(0, 1).split(sizes) for x in (query, key, value))
    parts: Iterator[tuple[Tensor, Tensor, Tensor]] = zip(*split, strict=True)
    options = {"dropout_p": dropout, "scale": scaling}
    found = []
    for group in shared_prefix_groups:
        q, prompt_k, prompt_v = (x[None] for x in next(parts))
        found.append(_attend(q, prompt_k, prompt_v, None, is_causal=True, **options)[0])
        for lengths in group.batches:
            q, k, v = (_pad(x, lengths) for x in next(parts))
            rows, t = q.shape[:2]
            k = torch.cat([prompt_k.expand(rows, -1, -1, -1), k], dim=1)
            v = torch.cat([prompt_v.expand(rows, -1, -1, -1), v], dim=1)
            mask = torch.ones(t, k.shape[1], dtype=torch.bool, device=q.device).tril(group.prompt)
            found.append(_unpad(_attend(q, k, v, mask, **options), lengths))
    return torch.cat(found)[None], None


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **options: Any) -> Tensor:
    """SDPA over [rows, tokens, heads, d]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    # With a mask only the CPU's fast kernel takes fewer heads of keys than of queries.
    grouped = q.device.type == "cpu" or use_gqa_in_sdpa(mask, k, v)
    if not grouped:
        repeats = q.shape[1] // k.shape[1]
        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)
    out = scaled_dot_product_attention(q, k, v, mask, enable_gqa=grouped, **options)
    return out.transpose(1, 2)


def _pad(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """Responses one after another, [tokens, heads, d], as padded rows [rows, t, heads, d].

    Padding stands behind the last token, where causality hides its keys.
    """
    if lengths[0] == lengths[-1]:
        return x.unflatten(0, (len(lengths), lengths[0]))
    return pad_sequence(x.split(list(lengths)), batch_first=True)


def _unpad(x: Tensor, lengths: Sequence[int]) -> Tensor:
    if lengths[0] == lengths[-1]:
        return x.flatten(0, 1)
    return torch.cat([row[:length] for row, length in zip(x, lengths, strict=True)])


AttentionInterface.register(NAME, packed_attention)
