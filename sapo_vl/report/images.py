"""Embed images as data URIs, within a budget.

Images belong to a data set, so they are treated as untrusted: only files inside the samples' own
folder, only bitmap formats known by their first bytes.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
KEEP_BYTES = 40_000  # a file up to this size is embedded as it is
SIDE = 640  # larger ones are shrunk to this many pixels


@dataclass(slots=True)
class ImageBudget:
    """Hands out data URIs until ``count`` images or ``size`` bytes are spent.

    An image asked for twice is paid for twice: the page cannot share a data URI.
    """

    count: int
    size: int
    spent: int = field(default=0, init=False)

    def embed(self, folder: Path, name: str) -> str | None:
        """The data URI of an image inside ``folder``.

        None when it lies elsewhere, is missing or no image, or when the budget is spent.
        """
        if self.count <= 0 or "\0" in name:
            return None
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            return None
        encoded = _encode(path)
        if encoded is None:
            return None
        kind, data = encoded
        uri = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
        if self.spent + len(uri) > self.size:
            return None
        self.count -= 1
        self.spent += len(uri)
        return uri


def _encode(path: Path) -> tuple[str, bytes] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    kind = next((kind for signature, kind in SIGNATURES if data.startswith(signature)), None)
    if kind is not None and len(data) <= KEEP_BYTES:
        return kind, data
    try:
        return _shrink(data)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # what Pillow raises for damaged or monstrous files


def _shrink(data: bytes) -> tuple[str, bytes]:
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP", "BMP")) as image:
        image.thumbnail((SIDE, SIDE))
        rgba = image.convert("RGBA")
    flat = Image.new("RGB", rgba.size, "white")  # JPEG knows no transparency
    flat.paste(rgba, mask=rgba)
    buffer = io.BytesIO()
    flat.save(buffer, "JPEG", quality=82)
    return "image/jpeg", buffer.getvalue()
