"""One picture of a video, for people to look at."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image


def middle_frame(data: bytes) -> Image.Image:
    """Decode the frame in the middle of an mp4, upright and at its own size.

    Raises:
        ValueError: the video does not decode.
    """
    import av  # heavy, and most runs see no video

    # The format is said, so that no playlist can name other files.
    source: dict[str, Any] = {
        "format": "mp4",
        "options": {"ignore_editlist": "1"},
        "metadata_errors": "ignore",
    }
    try:
        with av.open(BytesIO(data), **source) as container:
            stream = container.streams.video[0]
            count = stream.frames or sum(1 for packet in container.demux(stream) if packet.size)
        with av.open(BytesIO(data), **source) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1  # workers share the cores already
            for number, frame in enumerate(container.decode(stream)):
                if number >= count // 2:
                    pixels = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
                    return Image.fromarray(pixels.copy())
    except Exception as error:  # as with images, almost anything on broken data
        raise ValueError(f"a video does not decode: {error}") from error
    raise ValueError(f"a video holds no frame {count // 2}")
