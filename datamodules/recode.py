"""Make images smaller or of another format while shards are written."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageOps

from datamodules.samples import image_extension

ImageFormat = Literal["png", "jpg", "webp"]

# What may be read. Pillow's other readers stay shut: its EPS reader runs Ghostscript.
_READ = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
_PIL = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}
_QUALITY = {"png": {}, "jpg": {"quality": 92}, "webp": {"quality": 90}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recode:
    """Keep images within a size and in one format; one that fits already keeps its bytes.

    Args:
        max_side: longest side in pixels.
        max_pixels: width x height.
        format: png, jpg or webp; None: keep each image's own (others become PNG).

    Raises:
        ValueError: a limit below 1, or an unknown format.
    """

    max_side: int | None = None
    max_pixels: int | None = None
    format: ImageFormat | None = None

    def __post_init__(self) -> None:
        for name, value in (("--max-side", self.max_side), ("--max-pixels", self.max_pixels)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        if self.format is not None and self.format not in _PIL:
            raise ValueError(f"--format is {self.format!r}; it must be one of {', '.join(_PIL)}")

    @property
    def changes(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.max_side or self.max_pixels or self.format)

    def __call__(self, data: bytes) -> bytes:
        """Give the image as asked.

        Raises:
            ValueError: an image that can't be decoded, or an animation.
        """
        try:
            own: str | None = image_extension(data)
        except ValueError:
            own = None
        try:
            with Image.open(io.BytesIO(data), formats=_READ) as image:
                # MPO is what many cameras write: a JPEG with a preview behind it.
                if getattr(image, "is_animated", False) and image.format != "MPO":
                    raise ValueError("an animation; write the frame that is meant")
                size = self._fit(image.size)
                target = self.format or own or "png"
                if size == image.size and target == own:
                    return data
                return _encode(image, size, target)
        except Exception as error:  # PIL raises many kinds, struct.error and SyntaxError among them
            raise ValueError(
                f"an image can't be decoded ({type(error).__name__}: {error}); replace it"
            ) from None

    def _fit(self, size: tuple[int, int]) -> tuple[int, int]:
        width, height = size
        scale = min(
            1.0,
            (self.max_side or math.inf) / max(width, height),
            math.sqrt((self.max_pixels or math.inf) / (width * height)),
        )
        return (max(1, int(width * scale)), max(1, int(height * scale))) if scale < 1 else size


def _encode(image: Image.Image, size: tuple[int, int], target: str) -> bytes:
    # The camera's rotation lies in the EXIF data, which isn't written again.
    changed = _plain_mode(ImageOps.exif_transpose(image), transparency=target != "jpg")
    if size != image.size:
        turned = changed.size != image.size
        changed = changed.resize(size[::-1] if turned else size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    changed.save(buffer, _PIL[target], **_QUALITY[target])
    return buffer.getvalue()


def _plain_mode(image: Image.Image, transparency: bool) -> Image.Image:
    """Give an image as L, RGB or RGBA: what a reader of the shard would see."""
    # Imported here: it brings torchvision, which drawing figures needn't wait for.
    from datamodules.images import to_rgb

    if image.mode in ("1", "L") and not image.has_transparency_data:
        return image.convert("L")
    if transparency and image.has_transparency_data and not image.mode.startswith("I"):
        return image.convert("RGBA")
    return to_rgb(image)
