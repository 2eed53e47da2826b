"""A prompt as vLLM's token-in, token-out route takes it: ``POST /inference/v1/generate``.

Token ids and pixels are sent as the trainer made them. Nothing is templated, resized or expanded
again on the server, so the two sides cannot come to different prompts: with chat messages and image
files they do whenever pixel budgets or templates differ, and placeholders expanded twice are a
known way to train on other prompts than were answered.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import torch
from torch import Tensor

from sapo_vl.rollout.draws import Seed
from sapo_vl.types import PromptInputs, Sampling

NEVER = -1e9  # added to a banned token's logit; in float32 its probability is then exactly 0
RAW = 3  # vLLM's msgpack code for a tensor's bytes
BATCHED = ["batched", {"keep_on_cpu": True}]  # vLLM's field of a tensor that an item has one of


def generate_body(
    inputs: PromptInputs,
    sampling: Sampling,
    seed: int,
    *,
    banned: Sequence[int],
    eos: Sequence[int],
    merge: int,
    dtype: torch.dtype,
) -> dict[str, Any]:
    """The JSON of one prompt's request, ``sampling.group_size`` responses to it.

    Without a temperature all would be the same: one is asked for, since vLLM refuses more.

    Args:
        inputs: the prompt, placeholders expanded.
        sampling: how responses are drawn.
        seed: of the first response; vLLM counts on from it for the others.
        banned: token ids that are never drawn.
        eos: token ids that end a response.
        merge: patches a side of one vision token (``spatial_merge_size``).
        dtype: pixels are sent in; that which the server computes in.

    Raises:
        ValueError: placeholders and media of the prompt do not fit together.
    """
    body: dict[str, Any] = {
        "token_ids": inputs.input_ids_S.tolist(),
        "sampling_params": {
            "n": sampling.group_size if sampling.temperature else 1,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "presence_penalty": sampling.presence_penalty,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed,
            "logit_bias": {str(token): NEVER for token in banned},
            "stop_token_ids": list(eos),
            "ignore_eos": True,  # the ids above end a response, and no others
            "logprobs": 0,  # of the token that was drawn
            "detokenize": False,
        },
        "return_token_ids": True,
    }
    if inputs.media:
        body["features"] = _features(inputs, merge, dtype)
    return body


def prompt_seed(seed: Seed, index: int) -> int:
    """Seed of a prompt's group, from the run's seed, the iteration and the prompt's place.

    Groups lie so far apart that counting on within one does not reach the next.
    """
    state = np.random.SeedSequence([*seed, index]).generate_state(1, np.uint64)
    return int(state[0]) >> 2  # vLLM's seeds are signed


@dataclass(frozen=True, slots=True)
class _Item:
    """One image or video, and where its features go."""

    modality: str
    offset: int
    length: int  # tokens
    tensors: dict[str, Tensor]


def _features(inputs: PromptInputs, merge: int, dtype: torch.dtype) -> dict[str, Any]:
    features: dict[str, Any] = {"mm_hashes": {}, "mm_placeholders": {}, "kwargs_data": {}}
    for item in [*_images(inputs, merge, dtype), *_videos(inputs, merge, dtype)]:
        data = _packed(item.tensors)
        place = {"offset": item.offset, "length": item.length}
        # vLLM keeps features by this name: the same pixels are encoded once.
        name = hashlib.sha256(data).hexdigest()
        features["mm_hashes"].setdefault(item.modality, []).append(name)
        features["mm_placeholders"].setdefault(item.modality, []).append(place)
        encoded = base64.b64encode(data).decode()
        features["kwargs_data"].setdefault(item.modality, []).append(encoded)
    return features


def _images(inputs: PromptInputs, merge: int, dtype: torch.dtype) -> Iterator[_Item]:
    if "pixel_values" not in inputs.media:
        return
    grids, pixels = inputs.media["image_grid_thw"], inputs.media["pixel_values"]
    starts = _starts(inputs, 1, [int(grid.prod()) // merge**2 for grid in grids])
    sizes = [int(grid.prod()) for grid in grids]
    for (offset, length), grid, part in zip(starts, grids, pixels.split(sizes), strict=True):
        tensors = {"pixel_values": part.to(dtype), "image_grid_thw": grid}
        yield _Item("image", offset, length, tensors)


def _videos(inputs: PromptInputs, merge: int, dtype: torch.dtype) -> Iterator[_Item]:
    """Videos of Qwen2.5-VL whole; those of later families as one image for each pair of frames.

    Later families write the time before every pair of frames, so that a video's placeholders lie
    apart, which this route of vLLM's cannot say. Their vision tower looks at each pair by itself,
    and their positions are those of as many images: the two are the same computation.
    """
    if "pixel_values_videos" not in inputs.media:
        return
    media = inputs.media
    grids, pixels = media["video_grid_thw"], media["pixel_values_videos"].to(dtype)
    seconds = media.get("second_per_grid_ts")
    if seconds is None:
        one = torch.tensor([1], device=grids.device)
        grids = torch.cat([torch.cat([one, grid[1:]]).expand(int(grid[0]), 3) for grid in grids])
    starts = _starts(inputs, 2, [int(grid.prod()) // merge**2 for grid in grids])
    parts = pixels.split([int(grid.prod()) for grid in grids])
    for i, ((offset, length), grid, part) in enumerate(zip(starts, grids, parts, strict=True)):
        if seconds is None:
            frames = {"pixel_values": part, "image_grid_thw": grid}
            yield _Item("image", offset, length, frames)
        else:
            video = {"pixel_values_videos": part, "video_grid_thw": grid}
            video["second_per_grid_ts"] = seconds[i]
            yield _Item("video", offset, length, video)


def _starts(inputs: PromptInputs, kind: int, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Where the placeholders of each item of a kind begin, and how many there are."""
    places = (inputs.mm_token_type_ids_S == kind).nonzero().squeeze(-1).tolist()
    found, done = [], 0
    for length in lengths:
        own = places[done : done + length]
        if len(own) < length or own[-1] - own[0] != length - 1:
            raise ValueError(
                f"placeholders at {own[:1]} do not fit media of {length} tokens: is the processor "
                "that of the model (data.processor, patch and merge size)?"
            )
        found.append((own[0], length))
        done += length
    return found


def _packed(tensors: dict[str, Tensor]) -> bytes:
    """A ``MultiModalKwargsItem`` in vLLM's msgpack form, as its render route writes it."""
    item = {}
    for name, value in tensors.items():
        flat = name.startswith("pixel_values")
        where = [[[0, len(value), None]]] if flat else []
        field = ["flat", {"slices": where, "dim": 0, "keep_on_cpu": False}] if flat else BATCHED
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        dtype = str(value.dtype).removeprefix("torch.")
        data = [dtype, list(value.shape), msgpack.ExtType(RAW, raw)]
        item[name] = {"data": data, "field": field}
    packed: bytes = msgpack.packb(item)
    return packed
