"""Shards that are not plain local tars, made local once: http(s), ``pipe:`` and compressed ones.

webdataset's gopen opens a source; its bytes go, unpacked, into a cache folder. After that it is a
local shard like any other, and order, mixture and position stay pure functions of (seed, index).
Streaming it with a replayed position would read everything before the position again at each
resume, shuffle no further than its buffer, and let order and quotas depend on the workers.
"""

from __future__ import annotations

import bz2
import fcntl
import gzip
import hashlib
import lzma
import os
import re
import select
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from lightning.pytorch.utilities import rank_zero_info
from webdataset.gopen import gopen

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
}


class ShardFetchError(OSError):
    """A shard could not be made local; the message says which, why and what to do."""


@dataclass(frozen=True, kw_only=True)
class ShardCache:
    """Where shards that are not plain local tars are kept, and what is too much.

    A shard stays as it was fetched: delete its folder to fetch it again. Ranks and runs may share
    the folder; one of them fetches, the others wait for it.

    Args:
        folder: made if missing; needs room for the unpacked shards.
        max_shard_gb: a shard that is larger than this, packed or unpacked, is refused.
        stall_seconds: a source that sends nothing for so long is given up.
    """

    folder: str = "~/.cache/sapo_vl/shards"
    max_shard_gb: float = 50.0
    stall_seconds: float = 300.0

    def __post_init__(self) -> None:
        for name in ("max_shard_gb", "stall_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"data.shard_cache.{name} is {getattr(self, name)}; it must be above 0"
                )


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


def fetch_shard(source: str, cache: ShardCache) -> str:
    """Give the path of a plain tar with what a URL or command gives, fetched now if need be.

    Args:
        source: http(s) URL, or ``pipe:`` command whose output is the shard; no braces.
        cache: where to keep it.

    Raises:
        ShardFetchError: the source can't be reached or is cut, broken, no tar or too large, or the
            cache can't be written.
    """
    shown = _shown(source)
    if source.startswith("pipe:"):
        name = (re.findall(r"[\w.-]+\.tar\b", source) or ["pipe"])[-1]
    else:
        name = os.path.basename(urlsplit(source).path)

    def fill(path: Path) -> None:
        raw = path.with_name("raw.part")
        try:
            _write(_pieces(source, cache.stall_seconds), raw, cache, shown)
            if compression(raw) is None:
                raw.replace(path)
            else:
                _write(_unpacked(raw, shown), path, cache, shown)
        finally:
            raw.unlink(missing_ok=True)

    return _cached(source, name, shown, cache, fill)


def unpack_shard(path: str, cache: ShardCache) -> str:
    """Give the path of a plain tar with the content of a local shard: itself, if it is one.

    Raises:
        ShardFetchError: the file is broken, no tar or too large, or the cache can't be written.
    """
    if compression(path) is None:
        return path
    stat = os.stat(path)  # a file that was changed is unpacked again
    identity = f"{os.path.realpath(path)} {stat.st_size} {stat.st_mtime_ns}"
    return _cached(
        identity,
        os.path.basename(path),
        path,
        cache,
        lambda plain: _write(_unpacked(Path(path), path), plain, cache, path),
    )


def _cached(
    identity: str, name: str, shown: str, cache: ShardCache, fill: Callable[[Path], None]
) -> str:
    """The file kept for ``identity``; made under another name, so what has its name is whole."""
    folder = Path(cache.folder).expanduser() / hashlib.sha256(identity.encode()).hexdigest()[:16]
    stem = re.sub(r"(\.tar)?(\.(gz|bz2|xz))?$", "", re.sub(r"[^\w.-]", "_", name)).lstrip(".")
    path, part = folder / f"{stem[:100] or 'shard'}.tar", folder / "plain.part"
    if path.exists():
        return str(path)
    rank_zero_info(f"fetching the shard {shown} into {folder}")
    try:
        with _locked(folder):
            if not path.exists():  # another rank may have made it meanwhile
                try:
                    fill(part)
                    _require_tar(part, shown)
                    (folder / "source.txt").write_text(f"{shown}\n")
                    part.replace(path)
                finally:
                    part.unlink(missing_ok=True)
    except ShardFetchError:
        raise
    except OSError as error:
        raise ShardFetchError(
            f"the shard {shown} can't be kept in {folder}: {error}; make room there, or set"
            " data.shard_cache.folder to another place"
        ) from error
    return str(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed or the process dies
        yield


def _write(pieces: Generator[bytes, None, None], path: Path, cache: ShardCache, shown: str) -> None:
    size = 0
    with open(path, "wb") as file, closing(pieces):
        for piece in pieces:
            size += len(piece)
            if size > cache.max_shard_gb * 1e9:
                raise ShardFetchError(
                    f"the shard {shown} is larger than {cache.max_shard_gb:g} GB; split it, or"
                    " raise data.shard_cache.max_shard_gb"
                )
            file.write(piece)


def _pieces(source: str, stall_seconds: float) -> Generator[bytes, None, None]:
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
            if not select.select([file], [], [], stall_seconds)[0]:
                raise ShardFetchError(
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
        raise ShardFetchError(_failure(source, status))


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
