"""Encode samples and write them into tar shards, each under its name only once it is whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from webdataset import TarWriter

from datamodules.fields import image_extension, is_mp4

_KEY = re.compile(r"(?!__)[\w-]+")
_NAME = re.compile(r"[\w-]+")
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """What is known of a whole shard.

    Example: ``ShardInfo(samples=2, bytes=10240, sha256="5a0d...")``.
    """

    samples: int
    bytes: int
    sha256: str


def check_limits(name: str, max_samples: int, max_bytes: int) -> None:
    """Refuse a shard name or limits that can't be used.

    Raises:
        ValueError: says which and what is possible.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f'shard name {name!r} may hold letters, digits, "_" and "-" only')
    if max_samples < 1 or max_bytes < 1:
        raise ValueError(
            f"max_samples ({max_samples}) and max_bytes ({max_bytes}) must be at least 1"
        )


def check_key(key: Any) -> str:
    """Give a key that webdataset and tar take.

    Raises:
        ValueError: says what a key may hold.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(
            f"the key {key!r} can't be used; webdataset cuts keys at dots, so use letters, digits,"
            ' "_" and "-", and don\'t start with "__"'
        )
    return key


def encode_sample(sample: Mapping[str, Any], images: Iterable[bytes]) -> dict[str, bytes]:
    """Give the members of a sample: ``json`` and its media (``png``, or ``0.png``, ...; ``mp4``).

    Raises:
        ValueError: a value JSON can't hold, an image that is no PNG, JPEG or WebP, or a video that
            is no mp4.
        TypeError: a value JSON can't hold.
    """
    data = {
        field: value for field, value in sample.items() if field not in ("key", "images", "videos")
    }
    fields = {"json": json.dumps(data, ensure_ascii=False, allow_nan=False).encode()}
    images = list(images)
    for number, image in enumerate(images):
        place = f"{number}." if len(images) > 1 else ""
        fields[f"{place}{image_extension(image)}"] = image
    videos = list(sample.get("videos") or ())
    for number, video in enumerate(videos):
        if not is_mp4(video):
            raise ValueError(
                f"video {number} is no mp4 (it starts with {video[:8]!r}); convert it with ffmpeg"
            )
        fields[f"{number}.mp4" if len(videos) > 1 else "mp4"] = video
    return fields


class ShardWriter:
    """Writes ``NAME-000000.tar``, ``NAME-000001.tar``, ... into a folder.

    The shard in work is called ``NAME-000000.tar.part``. The same samples give the same bytes.

    Args:
        folder: where to.
        name: letters, digits, "_" and "-".
        max_samples: a shard holds at most this many samples.
        max_bytes: a shard is closed before its content passes this size.
        done: shards of an earlier run that this one goes on from.
        on_shard: called when a shard is whole.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        max_samples: int,
        max_bytes: int,
        done: Mapping[str, ShardInfo] | None = None,
        on_shard: Callable[[], None] | None = None,
    ) -> None:
        check_limits(name, max_samples, max_bytes)
        self.name = name
        self.shards = dict(done or {})
        self._folder = folder
        self._max_samples = max_samples
        self._max_bytes = max_bytes
        self._on_shard = on_shard
        self._open: _OpenShard | None = None

    def add(self, key: str, fields: Mapping[str, bytes]) -> None:
        """Write one encoded sample; a shard that would get too large is finished before."""
        added = sum(_BLOCK + -(-len(content) // _BLOCK) * _BLOCK for content in fields.values())
        shard = self._open
        if shard is not None and (
            shard.samples == self._max_samples or shard.size + added > self._max_bytes
        ):
            self.finish()
            shard = None
        if shard is None:
            shard = self._open = _OpenShard(
                self._folder / f"{self.name}-{len(self.shards):06d}.tar"
            )
        shard.write({"__key__": key, **fields}, added)

    def finish(self) -> None:
        """Close the shard in work, if there is one, and give it its name."""
        if self._open is None:
            return
        shard, self._open = self._open, None
        self.shards[shard.path.name] = shard.finish()
        if self._on_shard is not None:
            self._on_shard()

    def abandon(self) -> None:
        """Close the shard in work and delete it."""
        if self._open is not None:
            shard, self._open = self._open, None
            shard.abandon()


class _OpenShard:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples = 0
        self.size = 0
        self._part = path.with_name(f"{path.name}.part")
        self._stack = ExitStack()
        # An open file, as webdataset reads a path as a URL and runs "pipe:" ones.
        self._file = _HashedFile(self._stack.enter_context(self._part.open("wb")))
        # PAX takes keys of any length; the fixed mtime makes the bytes repeatable.
        writer = TarWriter(self._file, encoder=False, mtime=0, format="PAX_FORMAT")
        self._writer = self._stack.enter_context(writer)

    def write(self, sample: Mapping[str, Any], added: int) -> None:
        self._writer.write(sample)
        self.samples += 1
        self.size += added

    def finish(self) -> ShardInfo:
        self._stack.close()
        os.replace(self._part, self.path)
        return ShardInfo(
            samples=self.samples, bytes=self._file.bytes, sha256=self._file.hash.hexdigest()
        )

    def abandon(self) -> None:
        self._stack.close()
        self._part.unlink(missing_ok=True)


class _HashedFile:
    """Hashes what is written while it is written: the shard needn't be read again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.bytes

    def close(self) -> None:
        self._file.close()


def sha256_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
