"""Lay prompts and the responses to them out as one row without padding, each prompt once.

A row reads: prompt 1, its responses, prompt 2, its responses, and so on. Nothing is predicted from
a response's last token, so that it is left out. Shape letters: B responses, T response tokens,
S prompt tokens, N tokens of the row, M response tokens that are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sapo_vl.policy.inputs import prompt_positions
from sapo_vl.types import PromptInputs

# Responses attend together when padding them to the longest adds at most about a third. Only
# attention sees that padding; every other layer runs on the tokens alone.
NEAR = 0.75


@dataclass(frozen=True, slots=True)
class Group:
    """How a prompt and its responses lie in the row, in tokens."""

    prompt: int
    batches: tuple[tuple[int, ...], ...]  # lengths of responses that attend together, longest first


@dataclass(frozen=True, slots=True)
class Packed:
    """One row of tokens, and where to read the predictions off it."""

    input_ids: Tensor  # int64 [1, N]
    positions: Tensor  # int64 [3, 1, N]: temporal, height, width; go on from the prompt's
    groups: tuple[Group, ...]
    order: tuple[int, ...]  # the prompts of the row
    index_M: Tensor  # int64: the place that predicts each scored token, response after response


def pack(
    backbone: Any,
    prompts: Sequence[PromptInputs],
    prompt_of_row_B: Tensor,
    response_ids_BT: Tensor,
    mask_BT: Tensor,
) -> Packed:
    """Pack the prompts that have responses, and these; ``index_M`` follows ``mask_BT``'s order.

    Without any row the first prompt is packed alone.
    """
    device = response_ids_BT.device
    tokens_B = mask_BT.sum(1).tolist()
    rows_of: dict[int, list[int]] = {} if len(mask_BT) else {0: []}
    for row, prompt in enumerate(prompt_of_row_B.tolist()):
        rows_of.setdefault(prompt, []).append(row)
    input_ids, positions, groups, place = [], [], [], 0
    before_B, first_B = torch.zeros(2, len(mask_BT), dtype=torch.long).unbind()
    for prompt, rows in rows_of.items():
        rows.sort(key=lambda row: -tokens_B[row])
        own = prompt_positions(backbone, prompts[prompt])
        input_ids.append(prompts[prompt].input_ids_S)
        positions.append(own)
        place += own.shape[1]
        last, lengths = place - 1, [max(0, tokens_B[row] - 1) for row in rows]
        steps = own.max() + 1 + torch.arange(max(lengths, default=0), device=device)
        for row, length in zip(rows, lengths, strict=True):
            input_ids.append(response_ids_BT[row, :length])
            positions.append(steps[:length].expand(3, -1))
            before_B[row], first_B[row] = last, place
            place += length
        groups.append(Group(own.shape[1], _batches(lengths)))
    index_BT = first_B[:, None] + torch.arange(mask_BT.shape[1]) - 1
    index_BT[:, 0] = before_B
    return Packed(
        input_ids=torch.cat(input_ids)[None],
        positions=torch.cat(positions, dim=1)[:, None],
        groups=tuple(groups),
        order=tuple(rows_of),
        index_M=index_BT.to(device)[mask_BT],
    )


def _batches(lengths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Cut falling lengths, those of 0 left out, where they get too short to attend together."""
    batches: list[list[int]] = []
    for length in filter(None, lengths):
        if not batches or length < NEAR * batches[-1][0]:
            batches.append([])
        batches[-1].append(length)
    return tuple(map(tuple, batches))
