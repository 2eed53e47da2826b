"""Prompt -> PromptInputs, through the model's processor and qwen-vl-utils, once per prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jinja2 import TemplateError
from PIL import Image
from torch import Tensor

from datamodules.fields import SampleError
from datamodules.images import image_tokens, load_image, open_image
from datamodules.video import Clip, VideoLimits, load_clip, plan_clip
from sapo_vl.processor import load_processor
from sapo_vl.types import Prompt, PromptInputs

_KINDS = ("image", "video")
CHARACTERS_A_TOKEN = 3  # roughly, in English and formulas
MEDIA_KEYS = (
    "pixel_values",
    "image_grid_thw",
    "pixel_values_videos",
    "video_grid_thw",
    "second_per_grid_ts",  # Qwen2.5-VL: seconds between a video's pairs of frames, [videos]
)


class Encoder:
    """Chat template, image sizes, tokens and pixels of one prompt.

    Args:
        processor: folder or hub name of the model whose processor to use.
        max_prompt_tokens: longer prompts are refused before their images are decoded.
        min_pixels: smaller images are enlarged to about this many pixels; a sample may say
            otherwise.
        max_pixels: larger images are shrunk to about this many pixels; a sample may say otherwise.
        video: how much of a video is taken.
    """

    def __init__(
        self,
        processor: str,
        max_prompt_tokens: int,
        min_pixels: int,
        max_pixels: int,
        video: VideoLimits = VideoLimits(),  # noqa: B008 (frozen)
    ) -> None:
        if not 0 < min_pixels <= max_pixels:
            raise ValueError(
                f"data.min_pixels is {min_pixels} and data.max_pixels {max_pixels}; the first must"
                " be above 0 and no more than the second"
            )
        self.max_prompt_tokens = max_prompt_tokens
        self.pixels = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        self.video = video
        self.processor: Any = load_processor(processor)
        image_processor = self.processor.image_processor
        self.patch_size: int = image_processor.patch_size
        self.factor: int = image_processor.patch_size * image_processor.merge_size
        if hasattr(self.processor.video_processor, "cap_pixels_per_frame"):
            # We size the frames; unset, transformers warns that it does not cap them.
            self.processor.video_processor.cap_pixels_per_frame = False

    def __call__(self, prompt: Prompt) -> PromptInputs:
        """Tokenize and load one prompt.

        Raises:
            SampleError: too_long, undecodable_media, image_count or bad_json.
        """
        text = self._render(prompt)
        elements = [
            {**self._budget(own), "image": open_image(data)}
            for own, data in zip(_parts(prompt, "image"), prompt.images, strict=True)
        ]
        clips = [
            plan_clip(data, self.video, own, self.factor)
            for own, data in zip(_parts(prompt, "video"), prompt.videos, strict=True)
        ]
        self._check_length(text, elements, clips)
        images = [load_image(element, self.patch_size) for element in elements]
        output = self._process(text, images, clips)
        return PromptInputs(
            input_ids_S=output["input_ids"][0],
            mm_token_type_ids_S=output["mm_token_type_ids"][0],
            media={key: torch.as_tensor(output[key]) for key in MEDIA_KEYS if key in output},
        )

    def estimate(self, prompt: Prompt) -> int:
        """About how many tokens a prompt has, from its text's length and its images' headers.

        Raises:
            SampleError: an image cannot be read.
        """
        texts = [part for message in prompt.messages for part in _texts(message["content"])]
        images = zip(_parts(prompt, "image"), prompt.images, strict=True)
        return sum(map(len, texts)) // CHARACTERS_A_TOKEN + sum(
            image_tokens({**self._budget(own), "image": open_image(data)}, self.factor)
            for own, data in images
        )

    def _render(self, prompt: Prompt) -> str:
        try:
            return str(
                self.processor.apply_chat_template(
                    list(prompt.messages), tokenize=False, add_generation_prompt=True
                )
            )
        except TemplateError as error:
            raise SampleError(
                "bad_json", f"the model's chat template refused the messages: {error}"
            ) from error

    def _budget(self, own: Mapping[str, int]) -> dict[str, int]:
        """The sizes a sample asks for; ours where it says nothing, as far as they agree with it."""
        sizes = {**self.pixels, **own}
        if sizes["min_pixels"] > sizes["max_pixels"]:
            limit = own.get("max_pixels") or own["min_pixels"]
            sizes |= {"min_pixels": limit, "max_pixels": limit}
        return sizes

    def _check_length(
        self, text: str, elements: Sequence[Mapping[str, Any]], clips: Sequence[Clip]
    ) -> None:
        """Count the prompt's tokens from the text and the media's headers alone."""
        tokens = sum(image_tokens(element, self.factor) - 1 for element in elements)
        # A placeholder is in the text already; a model may add the times of frames to those.
        least = tokens + self._text_tokens(text) + sum(clip.tokens - 1 for clip in clips)
        if clips and least <= self.max_prompt_tokens:
            text = self._with_videos(text, clips)
            least = tokens + self._text_tokens(text)
        if least > self.max_prompt_tokens:
            raise SampleError(
                "too_long",
                f"the prompt has {least} tokens; data.max_prompt_tokens is"
                f" {self.max_prompt_tokens}",
            )

    def _text_tokens(self, text: str) -> int:
        return len(self.processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _with_videos(self, text: str, clips: Sequence[Clip]) -> str:
        """The text with the videos' placeholders as the processor will write them."""
        inputs = {
            "video_grid_thw": torch.tensor([clip.grid(self.patch_size) for clip in clips]),
            "video_metadata": [clip.metadata for clip in clips],
        }
        pieces = re.split(re.escape(self.processor.video_token), text)
        if len(pieces) != len(clips) + 1:
            raise SampleError(
                "image_count",
                f"the text holds {len(pieces) - 1} video placeholders, the prompt {len(clips)}"
                " videos; is a placeholder token written in the question?",
            )
        videos = [self.processor.replace_video_token(inputs, i) for i in range(len(clips))]
        return pieces[0] + "".join(
            video + piece for video, piece in zip(videos, pieces[1:], strict=True)
        )

    def _process(
        self, text: str, images: list[Image.Image], clips: Sequence[Clip]
    ) -> Mapping[str, Any]:
        videos: dict[str, Any] = {}
        if clips:
            videos = {
                "videos": [load_clip(clip) for clip in clips],
                "video_metadata": [clip.metadata for clip in clips],
                "do_sample_frames": False,
            }
        try:
            output: Mapping[str, Any] = self.processor(
                text=[text], images=images or None, do_resize=False, return_tensors="pt", **videos
            )
        except (ValueError, IndexError, StopIteration) as error:
            raise SampleError(
                "image_count", f"the processor refused the prompt: {error}"
            ) from error
        kinds = output["mm_token_type_ids"]
        found = [int((kinds == number).sum()) for number in (1, 2)]
        expected = [self._tokens_of(output.get(f"{kind}_grid_thw", ())) for kind in _KINDS]
        if found != expected:
            raise SampleError(
                "image_count",
                f"the text holds {found[0]} image and {found[1]} video tokens, the media make"
                f" {expected[0]} and {expected[1]}; is a placeholder token written in the"
                " question?",
            )
        return output

    def _tokens_of(self, grids: Sequence[Tensor]) -> int:
        return sum(int(grid.prod()) * self.patch_size**2 // self.factor**2 for grid in grids)


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [p["text"] for p in content if "text" in p]


def _parts(prompt: Prompt, kind: str) -> list[dict[str, Any]]:
    """What each media part of one kind says of its size."""
    return [
        {key: value for key, value in part.items() if key != "type"}
        for message in prompt.messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] == kind
    ]
