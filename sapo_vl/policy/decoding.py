"""Continue groups of responses token by token after their prompts have been read.

Shape letters: P prompts, S prompt tokens (padded on the left), B rows (responses still being
drawn), D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from sapo_vl.policy.group_cache import GroupCache, group_attention


@dataclass(frozen=True, slots=True)
class Prefix:
    """Prompts that the model has read: its cache and what is needed to go on."""

    cache: Any  # of transformers
    mask_PS: Tensor  # int64, 1 on real tokens
    next_position_P: Tensor  # int64
    last_hidden_PD: Tensor  # predicts the first response token


class Decoder(Protocol):
    """Responses that are being drawn."""

    hidden_BD: Tensor  # predicts each row's next token

    def step(self, token_B: Tensor) -> None:
        """Read one more token of every row."""
        ...

    def keep(self, alive_B: Tensor) -> Tensor:
        """Drop the other rows; returns which row is now where, int64 [rows left]."""
        ...


class GroupDecoder:
    """Attends to one copy of each prompt: for models whose layers all keep keys and values."""

    def __init__(self, text_model: Any, prefix: Prefix, prompt_B: Tensor, max_tokens: int) -> None:
        self.hidden_BD = prefix.last_hidden_PD[prompt_B]
        self._model = text_model
        self._cache = GroupCache(prefix.cache, prefix.mask_PS.bool(), prompt_B, max_tokens)
        self._position_B = prefix.next_position_P[prompt_B]

    def step(self, token_B: Tensor) -> None:
        """Read one more token of every row."""
        self._cache.make_room()
        with group_attention(self._model.config):
            output = self._model(
                input_ids=token_B[:, None],
                position_ids=self._position_B[:, None].expand(3, -1, -1),
                cache=self._cache,
                group_cache=self._cache,
                use_cache=True,
            )
        self._cache.tokens += 1
        self._position_B = self._position_B + 1
        self.hidden_BD = output.last_hidden_state[:, -1]

    def keep(self, alive_B: Tensor) -> Tensor:
        """Drop the other rows; the last ones move into their places."""
        order = self._cache.keep(alive_B)
        self._position_B, self.hidden_BD = self._position_B[order], self.hidden_BD[order]
        return order


class RowDecoder:
    """Copies each prompt's cache to its rows: for every model, linear attention included."""

    def __init__(self, text_model: Any, prefix: Prefix, prompt_B: Tensor) -> None:
        self.hidden_BD = prefix.last_hidden_PD[prompt_B]
        self._model = text_model
        prefix.cache.reorder_cache(prompt_B)
        self._cache, self._mask_BS = prefix.cache, prefix.mask_PS[prompt_B]
        self._position_B = prefix.next_position_P[prompt_B]

    def step(self, token_B: Tensor) -> None:
        """Read one more token of every row."""
        self._mask_BS = torch.nn.functional.pad(self._mask_BS, (0, 1), value=1)
        output = self._model(
            input_ids=token_B[:, None],
            attention_mask=self._mask_BS,
            position_ids=self._position_B[:, None].expand(3, -1, -1),
            cache=self._cache,
            use_cache=True,
        )
        self._position_B = self._position_B + 1
        self.hidden_BD = output.last_hidden_state[:, -1]

    def keep(self, alive_B: Tensor) -> Tensor:
        """Drop the other rows; the order stays."""
        order = alive_B.nonzero().squeeze(-1)
        self._cache.reorder_cache(order)
        self._mask_BS, self._position_B = self._mask_BS[order], self._position_B[order]
        self.hidden_BD = self.hidden_BD[order]
        return order
