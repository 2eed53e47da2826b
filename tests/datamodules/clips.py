"""Encoded videos for tests, made on the spot."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import av
import numpy as np


def clip(frames=12, fps=6, size=(64, 48), rotation=None, **options):
    """An mp4 of noise that gets brighter, with a green top left corner.

    Options are the mp4 writer's, such as ``movflags="faststart"``.
    """
    width, height = size
    noise = np.random.default_rng(frames).integers(0, 60, (height, width, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mp4"  # a file, as faststart reads it again
        with av.open(str(path), "w", format="mp4", options=options) as container:
            stream = container.add_stream("mpeg4", rate=fps)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            if rotation is not None:
                stream.set_display_rotation(rotation)
            for number in range(frames):
                picture = noise + np.uint8(150 * number // max(1, frames - 1))
                picture[: height // 3, : width // 3] = (0, 250, 0)
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        return path.read_bytes()


def sound():
    """An mp4 with sound alone."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()
