"""Encoded images for tests: whole ones and ones that are broken in a known way."""

import io
import struct
import zlib

from PIL import Image
from PIL.PngImagePlugin import PngInfo

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(size=(64, 64), mode="RGB", colour=0):
    return encode(Image.new(mode, size, colour))


def noise(size=(64, 64)):
    """An image whose pixels fill most of its file."""
    return Image.effect_noise(size, 100).convert("RGB")


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def header_only(width, height):
    """A PNG that tells its size and holds no pixel that can be decoded."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    broken = chunk(b"IDAT", b"these are no pixels")
    return SIGNATURE + chunk(b"IHDR", header) + broken + chunk(b"IEND", b"")


def text_bomb():
    """A small PNG with a comment that swells when unpacked."""
    info = PngInfo()
    info.add_text("comment", "a" * 5_000_000, zip=True)
    return encode(Image.new("RGB", (64, 64)), pnginfo=info)
