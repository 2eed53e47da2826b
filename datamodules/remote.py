"""Shards that are not plain local tars, made local once: http(s), ``pipe:`` and compressed ones.

curl or webdataset's gopen open a source; its bytes go, unpacked, into a cache folder. Then it is a
local shard like any other, and order, mixture and position stay pure functions of (seed, index).
Streaming it with a replayed position would read everything before the position again at each
resume, shuffle no further than its buffer, and let order and quotas depend on the workers.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from datamodules.download import displayed, download, write
from datamodules.shard_cache import ShardCache, ShardFetchError, cached

__all__ = ["ShardCache", "ShardFetchError", "compression", "is_remote", "make_local"]

_CHUNK = 1 << 20
_REMOTE = re.compile(r"(pipe):|([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("pipe", "http", "https")
_MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&SY"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_UNPACK: dict[str, Callable[..., Any]] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
}


def is_remote(source: str) -> bool:
    """Tell a URL or ``pipe:`` command from a path.

    Raises:
        ValueError: a URL of a scheme that is not read.
    """
    match = _REMOTE.match(source)
    if match is None:
        return False
    scheme = (match[1] or match[2]).lower()
    if scheme not in _SCHEMES:
        raise ValueError(
            f"shards of {scheme}:// are not read (in {displayed(source)}); name a command that"
            f' writes the shard, like "pipe:COMMAND {scheme}://...", an http(s) URL or a path'
        )
    return True


def compression(path: str | Path) -> str | None:
    """Name the compression of a file, by its first bytes."""
    with open(path, "rb") as file:
        start = file.read(16)
    return next((name for name, magic in _MAGIC.items() if magic.match(start)), None)


def make_local(shards: Sequence[tuple[str, bool]], cache: ShardCache) -> list[str]:
    """Give the paths of plain tars with the shards' content, fetched or unpacked now if need be.

    Args:
        shards: path, URL or ``pipe:`` command of each, no braces, and whether it is remote.
        cache: where to keep what isn't a plain local tar; says how many are made at a time.

    Raises:
        ShardFetchError: a source can't be reached or is cut, broken, no tar or too large, or the
            cache can't be written; the other fetches are ended.
    """
    stop = Event()
    pool = ThreadPoolExecutor(cache.parallel, thread_name_prefix="shards")
    try:
        made = [pool.submit(_make_local, *one, cache, stop) for one in shards]
        failed = [one for one in wait(made, return_when=FIRST_EXCEPTION).done if one.exception()]
        return [one.result() for one in failed or made]
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _make_local(shard: str, remote: bool, cache: ShardCache, stop: Event) -> str:
    if remote:
        return _fetch(shard, cache, stop)
    return _unpack(shard, cache, stop)


def _fetch(source: str, cache: ShardCache, stop: Event) -> str:
    shown = displayed(source)
    if source.startswith("pipe:"):
        name = (re.findall(r"[\w.-]+\.tar\b", source) or ["pipe"])[-1]
    else:
        name = os.path.basename(urlsplit(source).path)

    def fill(path: Path) -> None:
        raw = path.with_name("raw.part")
        try:
            download(source, raw, cache, stop)
            if compression(raw) is None:
                raw.replace(path)
            else:
                with closing(_unpacked(raw, shown)) as pieces:
                    write(pieces, path, cache, shown, stop)
            _require_tar(path, shown)
        finally:
            raw.unlink(missing_ok=True)

    return cached(source, name, shown, cache, fill)


def _unpack(path: str, cache: ShardCache, stop: Event) -> str:
    if compression(path) is None:
        return path
    stat = os.stat(path)  # a file that was changed is unpacked again
    identity = f"{os.path.realpath(path)} {stat.st_size} {stat.st_mtime_ns}"

    def fill(plain: Path) -> None:
        with closing(_unpacked(Path(path), path)) as pieces:
            write(pieces, plain, cache, path, stop)
        _require_tar(plain, path)

    return cached(identity, os.path.basename(path), path, cache, fill)


def _unpacked(path: Path, shown: str) -> Generator[bytes, None, None]:
    """The content of a compressed file; of one that was cut, what stands before the cut."""
    kind = compression(path) or ""
    if kind not in _UNPACK:
        raise ShardFetchError(f"the shard {shown} is packed with {kind}; use gzip or none")
    with _UNPACK[kind](path, "rb") as file:
        while True:
            try:
                piece = file.read1(_CHUNK)
            except EOFError:  # cut: the index finds no end marker and reports it
                return
            except (OSError, zlib.error, lzma.LZMAError) as error:
                # What was unpacked before can be wrong as well.
                raise ShardFetchError(
                    f"the shard {shown} does not unpack ({kind}): {error}; copy or make it again"
                ) from error
            if not piece:
                return
            yield piece


def _require_tar(path: Path, shown: str) -> None:
    with open(path, "rb") as file:
        block = file.read(tarfile.BLOCKSIZE)
    try:
        if block.strip(b"\0") or not block:
            tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        found = f"it starts with {block[:24]!r}" if block else "it is empty"
        raise ShardFetchError(
            f"the shard {shown} is no tar: {found}; check the URL or command, a page that"
            " asks for a login looks like this"
        ) from None
