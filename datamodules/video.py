"""A video as the model takes it: which frames, at what size, and then their pixels.

Frames and sizes are those of qwen-vl-utils' fetch_video. It is not called itself: it reads files by
path through torchcodec, decord or an older torchvision, none of which must be there, and a list of
frames it resizes twice. PyAV, which qwen-vl-utils brings along, reads the bytes of the shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import av
import numpy as np
import torch
from PIL import Image
from qwen_vl_utils.vision_process import (
    FRAME_FACTOR,
    VIDEO_MAX_TOKEN_NUM,
    smart_nframes,
    smart_resize,
)
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import resize
from transformers.video_utils import VideoMetadata

from datamodules.fields import SampleError
from sapo_vl import still


@dataclass(frozen=True, kw_only=True)
class VideoLimits:
    """How much of a video is taken; a sample may say otherwise. Names are qwen-vl-utils'.

    Args:
        fps: frames taken for each second.
        min_frames: frames taken at least, if there are as many.
        max_frames: frames taken at most.
        min_pixels: smaller frames are enlarged to about this many pixels.
        max_pixels: larger frames are shrunk to about this many pixels.
        total_pixels: twice the frame's pixels times the pairs of frames stay below it, as far as
            ``min_pixels`` lets them: with 32 pixels a side to a token, total_pixels / 1024 tokens.
    """

    fps: float = 2.0
    min_frames: int = 4
    max_frames: int = 64
    min_pixels: int = 16384
    max_pixels: int = 262144
    total_pixels: int = 2097152

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"data.video.{name} is {value}; it must be above 0")
        for low, high in (("min_frames", "max_frames"), ("min_pixels", "max_pixels")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(
                    f"data.video.{low} is {getattr(self, low)} and data.video.{high}"
                    f" {getattr(self, high)}; the first must be no more than the second"
                )
        if self.max_frames < FRAME_FACTOR:
            raise ValueError(f"data.video.max_frames is {self.max_frames}; it must be at least 2")


@dataclass(frozen=True, slots=True)
class Clip:
    """What is taken of a video, said by its header alone.

    Example: a file of 60 frames, 30 a second, 640 x 480: ``Clip(data, frames=60, fps=30.0,
    indices=(0, 20, 39, 59), height=352, width=480, tokens=330)``.
    """

    data: bytes
    frames: int  # of the file
    fps: float  # of the file
    indices: tuple[int, ...]  # of the frames taken
    height: int  # of a frame as the model takes it
    width: int
    tokens: int

    @property
    def metadata(self) -> VideoMetadata:
        """What a processor needs to know to tell times."""
        return VideoMetadata(
            total_num_frames=self.frames, fps=self.fps, frames_indices=list(self.indices)
        )

    def grid(self, patch_size: int) -> list[int]:
        """Patches in time, height and width, as the header tells them."""
        pairs = len(self.indices) // FRAME_FACTOR
        return [pairs, self.height // patch_size, self.width // patch_size]


def plan_clip(data: bytes, limits: VideoLimits, own: Mapping[str, Any], factor: int) -> Clip:
    """Read a video's header and decide what is taken of it; no frame is decoded.

    Args:
        data: an mp4 file.
        limits: where the sample says nothing.
        own: the sample's own limits.
        factor: pixels a side of a token.

    Raises:
        SampleError: undecodable_media.
    """
    with _opened(data) as (container, stream):
        frames = stream.frames or sum(1 for packet in container.demux(stream) if packet.size)
        fps = float(stream.average_rate or stream.guessed_rate or 0)
        height, width = stream.codec_context.height, stream.codec_context.width
    if not (frames and fps and height and width):
        raise SampleError("undecodable_media", "a video's header tells no frames, rate or size")
    if height * width > (Image.MAX_IMAGE_PIXELS or np.inf):
        raise SampleError("undecodable_media", f"a video's frames have {width} x {height} pixels")
    asked = {**asdict(limits), **own}
    if "nframes" in own:
        del asked["fps"]
    try:
        count = smart_nframes(asked, frames, fps)
        height, width = _frame_size(asked, count, height, width, factor)
    except (ValueError, ArithmeticError, AssertionError) as error:
        raise SampleError("undecodable_media", f"a video cannot be used: {error}") from error
    tokens = count // FRAME_FACTOR * (height // factor) * (width // factor)
    if not tokens:
        raise SampleError("undecodable_media", f"a video vanishes within its limits {asked}")
    indices = torch.linspace(0, frames - 1, count).round().long().tolist()
    return Clip(data, frames, fps, tuple(indices), height, width, tokens)


def _frame_size(
    asked: Mapping[str, Any], count: int, height: int, width: int, factor: int
) -> tuple[int, int]:
    """The size fetch_video gives each frame."""
    most = min(VIDEO_MAX_TOKEN_NUM * factor**2, asked["total_pixels"] / count * FRAME_FACTOR)
    least = asked["min_pixels"]
    most = min(asked["max_pixels"], max(most, int(least * 1.05)))
    return smart_resize(height, width, factor, min(least, most), most)


def load_clip(clip: Clip) -> Tensor:
    """Decode the frames of a clip: float32 [frames, 3, height, width], values 0 to 255, upright.

    Raises:
        SampleError: undecodable_media.
    """
    wanted = set(clip.indices)
    found: dict[int, Tensor] = {}
    with _opened(clip.data) as (container, stream):
        for number, frame in enumerate(container.decode(stream)):
            if frame.is_corrupt:
                raise SampleError("undecodable_media", f"frame {number} of a video is broken")
            if number in wanted:
                found[number] = _pixels(frame, clip)
            if len(found) == len(wanted):
                break
    if len(found) < len(wanted):
        raise SampleError(
            "undecodable_media",
            f"a video holds fewer frames than its header says ({clip.frames}); it was cut",
        )
    return torch.stack([found[number] for number in clip.indices])


def middle_frame(data: bytes) -> Image.Image:
    """Decode the frame in the middle of an mp4, upright and at its own size, for people to look at.

    Raises:
        SampleError: undecodable_media.
    """
    _require_whole(data)
    try:
        return still.middle_frame(data)
    except ValueError as error:
        raise SampleError("undecodable_media", str(error)) from error


def _pixels(frame: av.VideoFrame, clip: Clip) -> Tensor:
    # A phone writes how it was held; the angle is counterclockwise, as rot90's.
    turns = round(frame.rotation / 90)
    pixels = np.rot90(frame.to_ndarray(format="rgb24"), turns)
    size = [clip.height, clip.width] if not turns % 2 else [clip.width, clip.height]
    tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1)
    return resize(tensor, size, InterpolationMode.BICUBIC, antialias=True).float()


@contextmanager
def _opened(data: bytes) -> Iterator[tuple[Any, Any]]:
    """An mp4 and its video stream; whatever fails inside is the sample's fault."""
    _require_whole(data)
    try:
        # The format is said, so that no playlist can name other files. Edit lists would hide frames
        # that the header counts.
        with av.open(
            BytesIO(data), format="mp4", options={"ignore_editlist": "1"}, metadata_errors="ignore"
        ) as container:
            if not container.streams.video:
                raise SampleError("undecodable_media", "an .mp4 holds no video stream")
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1  # the loader's workers share the cores already
            yield container, stream
    except SampleError:
        raise
    except Exception as error:  # as with images, almost anything on broken data
        raise SampleError("undecodable_media", f"a video does not decode: {error}") from error


def _require_whole(data: bytes) -> None:
    """Walk an mp4's boxes: a reader gives what is there of a file that was cut, and no error."""
    place = 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if size == 1:  # the size stands after the name, in 8 bytes
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        elif size == 0:  # to the end of the file
            size = len(data) - place
        if size < 8 or place + size > len(data) or (not place and data[4:8] != b"ftyp"):
            break
        place += size
    if not data or place != len(data):
        raise SampleError(
            "undecodable_media",
            f"an .mp4 of {len(data)} bytes is no mp4 or was cut at or after byte {place}",
        )
