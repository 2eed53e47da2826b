"""An image as the model takes it: opened by its header, sized, and then its pixels."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from qwen_vl_utils.vision_process import fetch_image, smart_resize

from datamodules.fields import SampleError

# What a shard may hold; Pillow's other readers stay shut (its EPS reader runs Ghostscript).
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP")
_ORIENTATION = 0x0112  # EXIF: how the camera was held
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def open_image(data: bytes) -> Image.Image:
    """Read an image's header; its pixels are decoded later.

    Raises:
        SampleError: undecodable_media; an animation, too, since nobody said which frame is meant.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(BytesIO(data), formats=IMAGE_FORMATS)
    except UnidentifiedImageError as error:
        detail = f"no PNG, JPEG or WebP (it starts with {data[:12]!r}); convert it to PNG"
        raise SampleError("undecodable_media", f"an image does not open: {detail}") from error
    except Exception as error:  # Pillow's decoders raise almost anything on broken data
        raise SampleError("undecodable_media", f"an image does not open: {error}") from error
    if image.format == "PNG":
        _require_sums(data)
    # MPO is what many cameras write: a JPEG with a preview behind it.
    if getattr(image, "is_animated", False) and image.format != "MPO":
        raise SampleError(
            "undecodable_media",
            "an image is an animation; write it as KEY.mp4, or the frame that is meant",
        )
    return image


def _require_sums(data: bytes) -> None:
    """Check a PNG's checksums: Pillow skips some, and a flipped bit would pass as a picture."""
    view = memoryview(data)
    place, name = 8, b""
    while name != b"IEND":
        length = int.from_bytes(view[place : place + 4], "big")
        end = place + 12 + length
        if end > len(data):
            raise SampleError("undecodable_media", "an image was cut before its end")
        name = bytes(view[place + 4 : place + 8])
        if zlib.crc32(view[place + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            raise SampleError("undecodable_media", f"an image has a wrong checksum in {name!r}")
        place = end


def image_tokens(element: Mapping[str, Any], factor: int) -> int:
    """Tokens of an image, from its header; ``factor`` is the pixels a side of a token.

    Turning an image upright swaps its sides and leaves the count as it is.

    Raises:
        SampleError: undecodable_media.
    """
    width, height = element["image"].size
    try:
        if "resized_height" in element and "resized_width" in element:
            height, width = smart_resize(
                element["resized_height"], element["resized_width"], factor
            )
        else:
            height, width = smart_resize(
                height, width, factor, element["min_pixels"], element["max_pixels"]
            )
    except (ValueError, ArithmeticError) as error:
        raise SampleError("undecodable_media", f"an image cannot be used: {error}") from error
    tokens = (height // factor) * (width // factor)
    if not tokens:
        raise SampleError(
            "undecodable_media",
            f"an image of {element['image'].size} pixels vanishes within max_pixels"
            f" {element['max_pixels']}",
        )
    return int(tokens)


def load_image(element: Mapping[str, Any], patch_size: int) -> Image.Image:
    """Decode an image, upright, RGB, transparent places white, at the size its element says.

    Raises:
        SampleError: undecodable_media.
    """
    try:
        element["image"].load()
        image = to_rgb(_upright(element["image"]))
        return fetch_image({**element, "image": image}, image_patch_size=patch_size)
    except Exception as error:  # as in opening
        raise SampleError("undecodable_media", f"an image does not decode: {error}") from error


def _upright(image: Image.Image) -> Image.Image:
    """Turn a photo as people see it; the question is about what they see."""
    try:
        with warnings.catch_warnings(action="ignore"):
            turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # broken EXIF data says nothing about the pixels
        return image
    return image.transpose(turn) if turn is not None else image


def to_rgb(image: Image.Image) -> Image.Image:
    """Give the colours a viewer shows, on white; Pillow alone makes 16-bit grey white."""
    if image.mode == "I" or image.mode.startswith("I;16"):
        grey = np.asarray(image).astype(np.int64)
        if isinstance(image.info.get("transparency"), int):
            grey[grey == image.info["transparency"]] = 65535
        return Image.fromarray((grey.clip(0, 65535) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
