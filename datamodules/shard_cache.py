"""The folder that keeps shards which are not plain local tars, shared by ranks and runs.

Each shard has a folder of its own in it: ``lock``, ``source.txt`` and the tar, which gets its name
only once it is whole. A process writes what it uses into a file under ``users`` and keeps that file
locked while it lives, so that making room never takes a shard from under a run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lightning.pytorch.utilities import rank_zero_info


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
        max_total_gb: above this the shards that were not used for longest are deleted, never those
            that a running process uses; null keeps all.
        stall_seconds: a source that sends nothing for so long is given up.
        parallel: shards fetched at a time.
        retries: how often a connection or command that broke is tried again. A connection goes on
            where it broke if the server takes ranges and says by a strong ETag, or Last-Modified,
            that the file is still the same; else it begins anew, as commands do.
    """

    folder: str = "~/.cache/sapo_vl/shards"
    max_shard_gb: float = 50.0
    max_total_gb: float | None = None
    stall_seconds: float = 300.0
    parallel: int = 4
    retries: int = 3

    def __post_init__(self) -> None:
        for name in ("max_shard_gb", "max_total_gb", "stall_seconds", "parallel"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"data.shard_cache.{name} is {value}; it must be above 0")
        if self.retries < 0:
            raise ValueError(f"data.shard_cache.retries is {self.retries}; it must be 0 or more")


def cached(
    identity: str, name: str, shown: str, cache: ShardCache, fill: Callable[[Path], None]
) -> str:
    """Give the path of the tar kept for ``identity``; ``fill`` writes it where there is none.

    Args:
        identity: what tells this shard from others.
        name: of the shard's file.
        shown: how messages call the shard.
        cache: where to keep it.
        fill: writes the plain tar to the path it is given.

    Raises:
        ShardFetchError: as ``fill`` does; or the cache can't be written or is too small.
    """
    root = Path(cache.folder).expanduser()
    folder = root / hashlib.sha256(identity.encode()).hexdigest()[:16]
    stem = re.sub(r"(\.tar)?(\.(gz|bz2|xz))?$", "", re.sub(r"[^\w.-]", "_", name)).lstrip(".")
    path, part = folder / f"{stem[:100] or 'shard'}.tar", folder / "plain.part"
    try:
        _use(root, folder.name)  # before the lock: who makes room looks with the lock in hand
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not path.exists():
                rank_zero_info(f"fetching the shard {shown} into {folder}")
                try:
                    fill(part)
                    _make_room(cache, root, part, shown)
                    (folder / "source.txt").write_text(f"{shown}\n")
                    part.replace(path)
                finally:
                    part.unlink(missing_ok=True)
            (folder / "source.txt").touch()  # last used now
    except ShardFetchError:
        raise
    except OSError as error:
        if path.exists():  # in a folder that we may only read, say
            return str(path)
        raise ShardFetchError(
            f"the shard {shown} can't be kept in {folder}: {error}; make room there, or set"
            " data.shard_cache.folder to another place"
        ) from error
    return str(path)


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[bool]:
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:  # let go when the file is closed or the process dies
            yield True


_users: dict[tuple[int, Path], IO[str]] = {}  # process and cache -> its locked file


def _use(root: Path, name: str) -> None:
    """Write down that this process uses a shard, until it ends."""
    file = _users.get((os.getpid(), root))
    if file is None:
        (root / "users").mkdir(parents=True, exist_ok=True)
        with _locked(root / "users.lock"):  # unlocked and new, it would look like a dead one's
            number, path = tempfile.mkstemp(dir=root / "users", text=True)
            file = _users[os.getpid(), root] = open(path, "a")  # noqa: SIM115 (while we live)
            os.close(number)
            fcntl.flock(file, fcntl.LOCK_EX)
    file.write(f"{name}\n")
    file.flush()


def _in_use(root: Path) -> set[str]:
    """Names of the shards' folders that living processes use."""
    names: set[str] = set()
    with _locked(root / "users.lock"):
        for path in (root / "users").iterdir():
            with _locked(path, wait=False) as dead:
                if dead:
                    path.unlink()
                else:
                    names.update(path.read_text().split())
    return names


def _make_room(cache: ShardCache, root: Path, part: Path, shown: str) -> None:
    """Delete what was not used for longest until ``part`` fits in as well."""
    if cache.max_total_gb is None:
        return
    with _locked(root / "room.lock"):
        kept = {tar.parent: tar for tar in root.glob("*/*.tar")}
        sizes = {folder: tar.stat().st_size for folder, tar in kept.items()}
        total = sum(sizes.values()) + part.stat().st_size
        limit = cache.max_total_gb * 1e9
        for folder in sorted(kept, key=_last_used):
            if total <= limit:
                break
            with _locked(folder / "lock", wait=False) as free:
                if free and folder.name not in _in_use(root):
                    kept[folder].unlink(missing_ok=True)
                    total -= sizes[folder]
        if total > limit:
            raise ShardFetchError(
                f"the shard {shown} does not fit into {root}: the shards in use and it take"
                f" {total / 1e9:.3g} GB, data.shard_cache.max_total_gb is {cache.max_total_gb:g};"
                " raise it, or use fewer shards"
            )


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return (folder / "source.txt").stat().st_mtime
    return 0.0
