"""Prompt -> PromptInputs, through the model's processor and qwen-vl-utils, once per prompt."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from jinja2 import TemplateError
from PIL import Image
from qwen_vl_utils.vision_process import fetch_image, smart_resize

from datamodules.fields import SampleError
from sapo_vl.processor import load_processor
from sapo_vl.types import Prompt, PromptInputs

# What a shard may hold; Pillow's other readers stay shut (its EPS reader runs Ghostscript).
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP")
MEDIA_KEYS = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")


class Encoder:
    """Chat template, image sizes, tokens and pixels of one prompt.

    Args:
        processor: folder or hub name of the model whose processor to use.
        max_prompt_tokens: longer prompts are refused before their images are decoded.
        min_pixels: smaller images are enlarged to about this many pixels; a sample may say
            otherwise.
        max_pixels: larger images are shrunk to about this many pixels; a sample may say otherwise.
    """

    def __init__(
        self, processor: str, max_prompt_tokens: int, min_pixels: int, max_pixels: int
    ) -> None:
        if not 0 < min_pixels <= max_pixels:
            raise ValueError(
                f"data.min_pixels is {min_pixels} and data.max_pixels {max_pixels}; the first must"
                " be above 0 and no more than the second"
            )
        self.max_prompt_tokens = max_prompt_tokens
        self.pixels = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        self.processor: Any = load_processor(processor)
        image_processor = self.processor.image_processor
        self.patch_size: int = image_processor.patch_size
        self.factor: int = image_processor.patch_size * image_processor.merge_size

    def __call__(self, prompt: Prompt) -> PromptInputs:
        """Tokenize and load one prompt.

        Raises:
            SampleError: too_long, undecodable_media, image_count or bad_json.
        """
        text = self._render(prompt)
        elements = self._image_elements(prompt)
        self._check_length(text, elements)
        output = self._process(text, [self._decode(element) for element in elements])
        return PromptInputs(
            input_ids_S=output["input_ids"][0],
            mm_token_type_ids_S=output["mm_token_type_ids"][0],
            media={key: output[key] for key in MEDIA_KEYS if key in output},
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

    def _decode(self, element: dict[str, Any]) -> Image.Image:
        try:
            return fetch_image(element, image_patch_size=self.patch_size)
        except Exception as error:  # Pillow's decoders raise almost anything on broken data
            raise SampleError("undecodable_media", f"an image does not decode: {error}") from error

    def _image_elements(self, prompt: Prompt) -> list[dict[str, Any]]:
        """What qwen-vl-utils takes for each image: still undecoded, with its pixel budget."""
        parts = [
            part
            for message in prompt.messages
            if not isinstance(message["content"], str)
            for part in message["content"]
            if part["type"] == "image"
        ]
        elements = []
        for part, data in zip(parts, prompt.images, strict=True):
            own = {key: value for key, value in part.items() if key != "type"}
            elements.append({**self._budget(own), "image": _open(data)})
        return elements

    def _budget(self, own: Mapping[str, int]) -> dict[str, int]:
        """The sizes a sample asks for; ours where it says nothing, as far as they agree with it."""
        sizes = {**self.pixels, **own}
        if sizes["min_pixels"] > sizes["max_pixels"]:
            limit = own.get("max_pixels") or own["min_pixels"]
            sizes |= {"min_pixels": limit, "max_pixels": limit}
        return sizes

    def _check_length(self, text: str, elements: list[dict[str, Any]]) -> None:
        """Count the prompt's tokens from the text and the images' headers alone."""
        tokens = len(self.processor.tokenizer(text, add_special_tokens=False)["input_ids"])
        for element in elements:
            tokens += self._image_tokens(element) - 1  # the placeholder is in the text already
        if tokens > self.max_prompt_tokens:
            raise SampleError(
                "too_long",
                f"the prompt has {tokens} tokens; data.max_prompt_tokens is"
                f" {self.max_prompt_tokens}",
            )

    def _image_tokens(self, element: Mapping[str, Any]) -> int:
        width, height = element["image"].size
        try:
            if "resized_height" in element and "resized_width" in element:
                height, width = smart_resize(
                    element["resized_height"], element["resized_width"], self.factor
                )
            else:
                height, width = smart_resize(
                    height, width, self.factor, element["min_pixels"], element["max_pixels"]
                )
        except (ValueError, ArithmeticError) as error:
            raise SampleError("undecodable_media", f"an image cannot be used: {error}") from error
        tokens = (height // self.factor) * (width // self.factor)
        if not tokens:
            raise SampleError(
                "undecodable_media",
                f"an image of {element['image'].size} pixels vanishes within max_pixels"
                f" {element['max_pixels']}",
            )
        return int(tokens)

    def _process(self, text: str, images: list[Image.Image]) -> Mapping[str, Any]:
        try:
            output: Mapping[str, Any] = self.processor(
                text=[text], images=images or None, do_resize=False, return_tensors="pt"
            )
        except (ValueError, IndexError, StopIteration) as error:
            raise SampleError(
                "image_count", f"the processor refused the prompt: {error}"
            ) from error
        expected = sum(
            int(grid.prod()) * self.patch_size**2 // self.factor**2
            for grid in output.get("image_grid_thw", ())
        )
        kinds = output["mm_token_type_ids"]
        found, of_video = int((kinds == 1).sum()), int((kinds == 2).sum())
        if found != expected or of_video:
            raise SampleError(
                "image_count",
                f"the text holds {found} image and {of_video} video tokens, the images make"
                f" {expected}; is a placeholder token written in the question?",
            )
        return output


def _open(data: bytes) -> Image.Image:
    """Read an image's header; its pixels are decoded later."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(BytesIO(data), formats=IMAGE_FORMATS)
    except Exception as error:  # as in decoding
        raise SampleError("undecodable_media", f"an image does not open: {error}") from error
