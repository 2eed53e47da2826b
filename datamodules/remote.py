"""Shards that are not plain local tars, made local once: http(s), ``pipe:`` and compressed ones.

webdataset's gopen opens a source; its bytes go, unpacked, into a cache folder. After that it is a
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
import select
import tarfile
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from lightning.pytorch.utilities import rank_zero_warn
from webdataset.gopen import gopen

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
_CURL = {
    3: "the URL is malformed",
    6: "the host name is unknown",
    7: "the connection was refused",
    18: "the connection broke before all was there",
    22: "the server answered with an error, such as 404 not found or 403 forbidden",
    28: "the server did not answer in time",
    56: "the connection broke before all was there",
    60: "the server's certificate can't be checked",
    92: "the connection broke before all was there",
}
# Trying again may help; that a server is busy (429, 5xx) webdataset's curl bears with by itself.
_CURL_AGAIN = (6, 7, 18, 28, 52, 55, 56, 92)
_PAUSE = 1.0  # seconds before the first retry, doubled for each one after


class _BrokenError(ShardFetchError):
    """A source broke in a way that may not last."""


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
            f"shards of {scheme}:// are not read (in {_shown(source)}); name a command that writes"
            f' the shard, like "pipe:COMMAND {scheme}://...", an http(s) URL or a path'
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
    shown = _shown(source)
    if source.startswith("pipe:"):
        name = (re.findall(r"[\w.-]+\.tar\b", source) or ["pipe"])[-1]
    else:
        name = os.path.basename(urlsplit(source).path)

    def fill(path: Path) -> None:
        raw = path.with_name("raw.part")
        try:
            _download(source, raw, cache, stop)
            if compression(raw) is None:
                raw.replace(path)
            else:
                _write(_unpacked(raw, shown), path, cache, shown, stop)
            _require_tar(path, shown)
        finally:
            raw.unlink(missing_ok=True)

    return cached(source, name, shown, cache, fill)


def _download(source: str, path: Path, cache: ShardCache, stop: Event) -> None:
    """Write what a source gives; one that breaks is begun again from its start."""
    for retry in range(cache.retries + 1):
        try:
            pieces = _pieces(source, cache.stall_seconds, stop)
            _write(pieces, path, cache, _shown(source), stop)
            break
        except _BrokenError as error:
            if retry == cache.retries or stop.is_set():
                raise
            rank_zero_warn(f"{error}; trying again")
            stop.wait(_PAUSE * 2**retry)


def _unpack(path: str, cache: ShardCache, stop: Event) -> str:
    if compression(path) is None:
        return path
    stat = os.stat(path)  # a file that was changed is unpacked again
    identity = f"{os.path.realpath(path)} {stat.st_size} {stat.st_mtime_ns}"

    def fill(plain: Path) -> None:
        _write(_unpacked(Path(path), path), plain, cache, path, stop)
        _require_tar(plain, path)

    return cached(identity, os.path.basename(path), path, cache, fill)


def _write(
    pieces: Generator[bytes, None, None], path: Path, cache: ShardCache, shown: str, stop: Event
) -> None:
    size = 0
    with open(path, "wb") as file, closing(pieces):
        for piece in pieces:
            if stop.is_set():
                raise ShardFetchError(f"the shard {shown} is no longer wanted: another one failed")
            size += len(piece)
            if size > cache.max_shard_gb * 1e9:
                raise ShardFetchError(
                    f"the shard {shown} is larger than {cache.max_shard_gb:g} GB; split it, or"
                    " raise data.shard_cache.max_shard_gb"
                )
            file.write(piece)


def _pieces(source: str, stall_seconds: float, stop: Event) -> Generator[bytes, None, None]:
    """The bytes of a URL or command, as webdataset opens it."""
    try:
        stream = gopen(source, "rb", bufsize=_CHUNK)
    except (OSError, ValueError) as error:  # no curl here; or WDS_SECURE forbids commands
        raise ShardFetchError(
            f"webdataset can't open the shard {_shown(source)}: {error}; URLs need the program"
            " curl, and pipe: must not be forbidden by WDS_SECURE"
        ) from error
    file: BinaryIO = getattr(stream, "stream", stream)
    try:
        while True:
            deadline = time.monotonic() + stall_seconds
            while not select.select([file], [], [], min(0.5, stall_seconds))[0]:
                if time.monotonic() < deadline and not stop.is_set():
                    continue
                raise _BrokenError(
                    f"the shard {_shown(source)} sent nothing for {stall_seconds:g} s; try again"
                    " later, or raise data.shard_cache.stall_seconds"
                )
            piece = file.read1(_CHUNK)  # type: ignore[attr-defined]  # whatever is there
            if not piece:
                break
            yield piece
        status = stream.proc.wait() if hasattr(stream, "proc") else 0
    finally:
        _end(stream)
    if status:
        again = source.startswith("pipe:") or status in _CURL_AGAIN
        raise (_BrokenError if again else ShardFetchError)(_failure(source, status))


def _end(stream: Any) -> None:
    """Close a stream; a command that still runs is ended, so that nothing waits for it."""
    if hasattr(stream, "proc") and stream.proc.poll() is None:
        stream.proc.kill()
    with suppress(OSError):  # its exit status, which we judge ourselves
        stream.close()


def _failure(source: str, status: int) -> str:
    if source.startswith("pipe:"):
        return (
            f"the command of the shard {_shown(source)} ended with exit status {status}; run it in"
            " a shell to see why"
        )
    return (
        f"the shard {_shown(source)} can't be fetched: {_CURL.get(status, 'curl failed')} (curl"
        f" exit status {status}); check the URL with curl -fI, and whether it needs a login"
    )


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


def _shown(source: str) -> str:
    """A source as messages and logs may show it: passwords and signatures of URLs left out."""
    return re.sub(r"(https?://)(?:[^/\s@]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?", r"\1\2", source)
