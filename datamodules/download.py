"""Bytes of a shard from a URL, by curl, or from a command, by webdataset's gopen, into a file."""

from __future__ import annotations

import itertools
import re
import select
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from lightning.pytorch.utilities import rank_zero_warn
from webdataset.gopen import Pipe, gopen, rewrite_url

from datamodules.http_range import Head, curl_command, read_head
from datamodules.shard_cache import ShardCache, ShardFetchError

_CHUNK = 1 << 20
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


def download(source: str, path: Path, cache: ShardCache, stop: Event) -> None:
    """Write what a URL or command gives; where it breaks, go on with it or begin again.

    Raises:
        ShardFetchError: it can't be reached, broke once too often or is too large; or ``stop``.
    """
    path.unlink(missing_ok=True)  # of a process that was killed
    address = rewrite_url(source)  # gopen's GOPEN_REWRITE
    url = _Url(address, path) if urlsplit(address).scheme in ("http", "https") else None
    for retry in range(cache.retries + 1):
        try:
            if url is not None:
                url.fetch(cache, stop)
            else:
                connect = partial(gopen, source, "rb", bufsize=_CHUNK)
                with closing(_pieces(source, connect, cache, stop)) as pieces:
                    write(pieces, path, cache, displayed(source), stop)
            break
        except _BrokenError as error:
            if retry == cache.retries or stop.is_set():
                raise
            rank_zero_warn(f"{error}; trying again")
            stop.wait(_PAUSE * 2**retry)


class _Url:
    """A file behind a URL, and how much of it is there."""

    def __init__(self, source: str, path: Path) -> None:
        self._source, self._path = source, path
        self._head: Head | None = None  # of the answer that began what is there

    def fetch(self, cache: ShardCache, stop: Event) -> None:
        """Fetch what is missing, or everything where the server does not go on."""
        before, have, name = self._head, self._have(), displayed(self._source)
        if before is not None and have and have == before.total:
            return
        command = curl_command(self._source, before, have)
        connect = partial(Pipe, command, mode="rb", bufsize=_CHUNK)
        with closing(_pieces(self._source, connect, cache, stop)) as pieces:
            head, begun = read_head(pieces)
            if not head.status:
                raise ShardFetchError(
                    f"the server answered without a file for the shard {name} (status other than"
                    " 200 and 206); look at it with curl -i"
                )
            if head.status != 206:
                self._head, have = head, 0
            elif before is None or (head.start, head.total) != (have, before.total):
                self._head = None  # begin anew
                raise _BrokenError(f"the shard {name} came in other parts than asked for")
            write(itertools.chain([begun], pieces), self._path, cache, name, stop, have)
        total = None if self._head is None else self._head.total
        if total is not None and self._path.stat().st_size != total:
            raise _BrokenError(f"a part of the shard {name} is missing")

    def _have(self) -> int:
        """Bytes that can be gone on from."""
        known = self._head is not None and self._head.validator and self._head.total
        return self._path.stat().st_size if known and self._path.exists() else 0


def write(
    pieces: Iterator[bytes], path: Path, cache: ShardCache, name: str, stop: Event, start: int = 0
) -> None:
    """Write the pieces to a file, from ``start`` on.

    Raises:
        ShardFetchError: the file would be larger than a shard may be, or ``stop`` is set.
    """
    size = start
    with open(path, "ab" if start else "wb") as file:
        for piece in pieces:
            if stop.is_set():
                raise ShardFetchError(f"the shard {name} is no longer wanted: another one failed")
            size += len(piece)
            if size > cache.max_shard_gb * 1e9:
                raise ShardFetchError(
                    f"the shard {name} is larger than {cache.max_shard_gb:g} GB; split it, or"
                    " raise data.shard_cache.max_shard_gb"
                )
            file.write(piece)


def _pieces(
    source: str, connect: Callable[[], Any], cache: ShardCache, stop: Event
) -> Generator[bytes, None, None]:
    """The bytes of a URL or command; ``connect`` gives the stream."""
    stall_seconds = cache.stall_seconds
    try:
        stream = connect()
    except (OSError, ValueError) as error:  # no curl here; or WDS_SECURE forbids commands
        raise ShardFetchError(
            f"can't open the shard {displayed(source)}: {error}; URLs need the program"
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
                    f"the shard {displayed(source)} sent nothing for {stall_seconds:g} s; try again"
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
            f"the command of the shard {displayed(source)} ended with exit status {status}; run it"
            " in a shell to see why"
        )
    return (
        f"the shard {displayed(source)} can't be fetched: {_CURL.get(status, 'curl failed')} (curl"
        f" exit status {status}); check the URL with curl -fI, and whether it needs a login"
    )


def displayed(source: str) -> str:
    """A source as messages and logs may show it: passwords and signatures of URLs left out."""
    return re.sub(r"(https?://)(?:[^/\s@]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?", r"\1\2", source)
