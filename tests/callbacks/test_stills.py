"""A video leaves its middle frame beside the answers; a broken one leaves none."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
from PIL import Image

from sapo_vl.callbacks.records import write_stills
from sapo_vl.types import Prompt


def clip(greys: list[int]) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=4)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for grey in greys:
            pixels = np.full((48, 64, 3), grey, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return buffer.getvalue()


def test_the_frame_in_the_middle_is_written_once(tmp_path: Path) -> None:
    video = clip([0, 0, 0, 200, 0, 0])
    prompt = Prompt(reference="1", videos=(video, b"no video", video))
    names = write_stills(prompt, tmp_path)
    assert len(names) == 2
    assert len(set(names)) == 1
    with Image.open(tmp_path / names[0]) as image:
        assert image.size == (64, 48)
        assert image.convert("L").getpixel((30, 20)) > 150
