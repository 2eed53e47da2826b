"""Lay unpadded prompts (and responses) out as the padded tensors a forward pass takes.

Shape letters: P prompts, S prompt tokens (padded), B rows, T response tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sapo_vl.types import PromptInputs

# media key of the pixels -> (name in mm_encoder_outputs, key of the grid)
PIXELS = {
    "pixel_values": ("image", "image_grid_thw"),
    "pixel_values_videos": ("video", "video_grid_thw"),
}


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows of token ids with their attention mask and M-RoPE positions."""

    input_ids: Tensor  # int64 [rows, length]
    mask: Tensor  # int64 [rows, length], 1 on real tokens
    positions: Tensor  # int64 [3, rows, length]: temporal, height, width
    next_position: Tensor  # int64 [rows]: the position of the token after the last real one


def prompt_positions(backbone: Any, inputs: PromptInputs) -> Tensor:
    """M-RoPE positions of one prompt, int64 [3, S], from the model's own rule."""
    grids = {k: v for k, v in inputs.media.items() if k not in PIXELS}
    positions, _ = backbone.get_rope_index(
        input_ids=inputs.input_ids_S[None],
        mm_token_type_ids=inputs.mm_token_type_ids_S[None],
        **grids,
    )
    return positions[:, 0]


def pad_left(backbone: Any, prompts: Sequence[PromptInputs], pad_id: int) -> Padded:
    """Prompts that end together at the last column, ready to be continued."""
    lengths = [len(p.input_ids_S) for p in prompts]
    width, device = max(lengths), prompts[0].input_ids_S.device
    input_ids = torch.full((len(prompts), width), pad_id, device=device)
    mask = torch.zeros_like(input_ids)
    positions = torch.zeros(3, len(prompts), width, dtype=torch.long, device=device)
    next_position = torch.zeros(len(prompts), dtype=torch.long, device=device)
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        start = width - length
        input_ids[row, start:] = prompt.input_ids_S
        mask[row, start:] = 1
        own = prompt_positions(backbone, prompt)
        positions[:, row, start:] = own
        next_position[row] = own.max() + 1
    return Padded(input_ids, mask, positions, next_position)


def join_right(
    backbone: Any,
    prompts: Sequence[PromptInputs],
    prompt_of_row_B: Tensor,
    response_ids_BT: Tensor,
    mask_BT: Tensor,
    pad_id: int,
) -> Padded:
    """Whole sequences, prompt and response together, padded on the right."""
    lengths = [len(p.input_ids_S) for p in prompts]
    rows, t = response_ids_BT.shape
    width, device = max(lengths) + t, response_ids_BT.device
    own = [prompt_positions(backbone, p) for p in prompts]
    input_ids = torch.full((rows, width), pad_id, device=device)
    mask = torch.zeros_like(input_ids)
    positions = torch.zeros(3, rows, width, dtype=torch.long, device=device)
    next_position = torch.zeros(rows, dtype=torch.long, device=device)
    steps = torch.arange(t, device=device)
    for row, index in enumerate(prompt_of_row_B.tolist()):
        s = lengths[index]
        input_ids[row, :s] = prompts[index].input_ids_S
        input_ids[row, s : s + t] = response_ids_BT[row]
        mask[row, :s] = 1
        mask[row, s : s + t] = mask_BT[row].long()
        positions[:, row, :s] = own[index]
        next_position[row] = own[index].max() + 1
        positions[:, row, s : s + t] = next_position[row] + steps
    return Padded(input_ids, mask, positions, next_position)


def encode_media(
    backbone: Any, prompts: Sequence[PromptInputs], order: Sequence[int]
) -> dict[str, Any]:
    """Run the vision tower once over the prompts' images and videos; lay out in row order.

    One call for both: under strategies that split weights all ranks have to make as many. ``order``
    names the prompt of each row, so that a group's rows share one pass through the tower (their
    gradients add up). Returns what the model takes as ``mm_encoder_outputs``; empty without
    media.
    """
    items = [
        (name, i, prompts[i].media[pixels], prompts[i].media[grid])
        for pixels, (name, grid) in PIXELS.items()
        for i in sorted(set(order))
        if pixels in prompts[i].media
    ]
    if not items:
        return {}
    # To the tower an image is a video of one frame; every family says so (get_video_features).
    features = backbone.get_image_features(
        torch.cat([pixels for _, _, pixels, _ in items]),
        torch.cat([grid for _, _, _, grid in items]),
        return_dict=True,
    )
    places: dict[str, dict[int, range]] = {}  # of a prompt's images (videos) among all of them
    start = 0
    for name, i, _, grid in items:
        places.setdefault(name, {})[i] = range(start, start + len(grid))
        start += len(grid)
    return {
        name: _select(features, [k for i in order for k in of.get(i, ())])
        for name, of in places.items()
    }


def _select(features: Any, wanted: Sequence[int]) -> Any:
    """The tower's output for some of the images that it saw, in this order."""
    levels = {"pooler_output": [features.pooler_output[k] for k in wanted]}
    if getattr(features, "deepstack_features", None):
        levels["deepstack_features"] = [
            [layer[k] for k in wanted] for layer in features.deepstack_features
        ]
    return replace(features, **levels)


def vision_anchor(backbone: Any) -> Tensor:
    """Zero that depends on every weight of the vision tower: a blank image's features, times 0.

    Text alone leaves the tower out. Strategies that split gradients or weights over ranks wait for
    it all the same: ranks with images would hang on ranks without, or mix their gradients up.
    """
    config = backbone.config.vision_config
    merge, temporal = config.spatial_merge_size, config.temporal_patch_size
    channels = getattr(config, "in_channels", 3)
    weight = next(backbone.visual.parameters())
    pixels = weight.new_zeros(merge**2, channels * temporal * config.patch_size**2)
    grid = torch.tensor([[1, merge, merge]], device=weight.device)
    features = backbone.get_image_features(pixels, grid, return_dict=True)
    levels = [features.pooler_output, *(getattr(features, "deepstack_features", None) or [])]
    return sum((image.sum() for level in levels for image in level), weight.new_zeros(())) * 0
