"""Find shards and read single samples out of them by their place, without unpacking."""

from __future__ import annotations

import glob
import itertools
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from braceexpand import braceexpand

from datamodules.remote import ShardCache, compression, is_remote, make_local
from sapo_vl.types import Skip

# As webdataset groups members: the key ends at the first dot of the base name.
_MEMBER = re.compile(r"((?:.*/|)[^./]+)\.([^/]*)")
_META = re.compile(r"__[^/]*__($|/)")


class _Field(NamedTuple):
    name: str
    offset: int
    size: int
    readable: bool  # a plain file; links and sparse members hold their bytes elsewhere


class _Damage(Exception):
    """The tar can't be read any further."""


def expand_shards(
    pattern: str | Sequence[str],
    cache: ShardCache = ShardCache(),  # noqa: B008 (frozen)
) -> list[str]:
    """List the shard files that one or several patterns name, each once, in order.

    Args:
        pattern: a path, a glob (``data/count-*.tar``) or braces
            (``data/count-{000000..000003}.tar``) of tars, plain or packed (``.tar.gz``); an http(s)
            URL or a command that writes a tar (``pipe:aws s3 cp s3://... -``), braces allowed.
        cache: where what isn't a plain local tar is kept, fetched now if it isn't there.

    Returns:
        Paths of plain local tars.

    Raises:
        FileNotFoundError: a pattern finds nothing, or a file it names isn't there.
        ValueError: a URL of a scheme that is not read.
        ShardFetchError: a shard could not be fetched or unpacked.
    """
    patterns = [pattern] if isinstance(pattern, str) else pattern
    found: dict[str, tuple[str, bool]] = {}
    for shard, remote in (shard for one in patterns for shard in _expand(str(one))):
        # However a file is written, ./a.tar or through a link, its samples count once.
        found.setdefault(shard if remote else os.path.realpath(shard), (shard, remote))
    if not found:
        raise FileNotFoundError(
            "no shard pattern was given; name at least one, like data/NAME-*.tar"
        )
    return make_local(list(found.values()), cache)


def _expand(pattern: str) -> list[tuple[str, bool]]:
    """The shards of a pattern, and whether each is remote: no file's name makes it a command."""
    if os.path.isfile(pattern):
        return [(pattern, False)]
    if os.path.isdir(pattern):
        raise FileNotFoundError(
            f"{pattern} is a folder; name its shards, like {pattern}/NAME-*.tar"
        )
    try:
        parts = list(braceexpand(pattern))
    except ValueError:  # unbalanced braces belong to the name itself
        parts = [pattern]
    if is_remote(pattern):
        return [(part, True) for part in parts]
    found: list[tuple[str, bool]] = []
    for part in parts:
        matches = sorted(glob.glob(part)) if glob.has_magic(part) else [part]
        if not matches or not os.path.isfile(matches[0]):
            named = "" if part == pattern else f" (from the pattern {pattern})"
            raise FileNotFoundError(
                f"no shard at {part}{named}; check the path, or make the shards with"
                " scripts/make_shards.py"
            )
        found += [(match, False) for match in matches]
    return found


class ShardIndex:
    """The samples of local, uncompressed tar shards, each readable by its place.

    Made by one pass over the headers. Holds no open file, so it can be pickled, forked and read
    from many workers. Samples that can't be read whole are left out and listed in ``problems``.

    Args:
        shards: one or several paths, in the order in which their samples count.

    Raises:
        ValueError: a shard is compressed, or no sample at all was found.
    """

    def __init__(self, shards: str | Sequence[str]) -> None:
        self.shards = [shards] if isinstance(shards, str) else [str(path) for path in shards]
        self.keys: list[str] = []  # "<shard>#<key>"
        self.problems: list[Skip] = []
        self._places: list[tuple[int, tuple[_Field, ...]]] = []
        self._versions: list[tuple[int, int]] = []
        names = [Path(path).name for path in self.shards]
        times = Counter(names)
        for number, path in enumerate(self.shards):
            # Two folders may hold shards of one name; the keys of the run must still be unique.
            label = names[number] if times[names[number]] == 1 else path
            self._versions.append(_version(os.stat(path)))
            samples, problems = _scan(path, label)
            self.problems += problems
            self.keys += [f"{label}#{key}" for key, _ in samples]
            self._places += [(number, fields) for _, fields in samples]
        if not self._places:
            faults = "; ".join(f"{p.where}: {p.why}: {p.detail}" for p in self.problems[:3])
            named = ", ".join(self.shards[:5]) or "no shards"
            raise ValueError(
                f"no sample in {named} ({faults or 'no members'}); make the shards again and look"
                " at them with scripts/make_shards.py --check"
            )

    def __len__(self) -> int:
        return len(self._places)

    def read(self, i: int) -> dict[str, bytes]:
        """Read sample ``i``: field name (``json``, ``png``, ``0.png``, ...) -> content.

        Raises:
            OSError: the shard is gone, or not the file that was indexed.
        """
        number, fields = self._places[i]
        descriptor = os.open(self.shards[number], os.O_RDONLY)
        try:
            same = _version(os.fstat(descriptor)) == self._versions[number]
            content = {
                field.name: os.pread(descriptor, field.size, field.offset) for field in fields
            }
        finally:
            os.close(descriptor)
        if not same or any(len(content[field.name]) != field.size for field in fields):
            raise OSError(
                f"{self.keys[i]}: the shard {self.shards[number]} was changed since this run"
                " indexed it; start again, and write new shards under new names"
            )
        return content


def _version(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def _scan(path: str, label: str) -> tuple[list[tuple[str, tuple[_Field, ...]]], list[Skip]]:
    """List the whole samples of a shard with their keys, and what is wrong with the others."""
    members: list[tuple[str, _Field]] = []
    problems: list[Skip] = []
    damage = ""
    try:
        for member in _named_members(path):
            members.append(member)
    except _Damage as error:
        damage = str(error)
    groups = [
        (key, tuple(field for _, field in group))
        for key, group in itertools.groupby(members, key=lambda member: member[0])
    ]
    if damage:
        # What stands last may lack members: an image lost that way would leave a text-only prompt.
        last = f"; the last sample, {groups.pop()[0]}, is left out" if groups else ""
        problems.append(Skip(why="damaged_shard", where=label, detail=f"{damage}{last}"))
    seen: set[str] = set()
    samples = []
    for key, fields in groups:
        why, detail = _fault(fields, known=key in seen)
        seen.add(key)
        if why:
            problems.append(Skip(why=why, where=f"{label}#{key}", detail=detail))
        else:
            samples.append((key, fields))
    return samples, problems


def _fault(fields: Sequence[_Field], known: bool) -> tuple[str, str]:
    names = [field.name for field in fields]
    if known:
        return "duplicate_key", (
            "this key came before in the shard; the members of a sample must stand side by side"
            " (tar --sort=name) and keys must be unique"
        )
    if len(set(names)) < len(names):
        return "duplicate_key", f"a member is there twice: {', '.join(names)}"
    links = [field.name for field in fields if not field.readable]
    if links:
        return "unknown_media", f"{', '.join(links)} is a link or sparse; pack plain files"
    if "json" not in names:
        dots = "; webdataset ends a key at its first dot, so keys must hold none"
        hint = dots if any(name.endswith(".json") for name in names) else ""
        return "missing_json", f"the sample has no .json, only {', '.join(names)}{hint}"
    return "", ""


def _named_members(path: str) -> Iterator[tuple[str, _Field]]:
    for member in _members(path):
        match = _MEMBER.fullmatch(member.name)
        if member.isdir() or match is None or _META.match(member.name):
            continue
        yield (
            match[1],
            _Field(
                name=match[2].lower(),
                offset=member.offset_data,
                size=member.size,
                readable=member.isreg() and not member.issparse(),
            ),
        )


def _members(path: str) -> Iterator[tarfile.TarInfo]:
    """Walk the headers of a tar; raise _Damage where it can't be followed to its end marker."""
    packed = compression(path)
    if packed:
        raise ValueError(
            f"{path} is compressed ({packed}); unpack it to a plain .tar, or find it with"
            " expand_shards, which does"
        )
    with open(path, "rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                last = -1
                while (member := tar.next()) is not None:
                    if member.offset_data <= last or member.size < 0:
                        raise _Damage(f"the header at byte {member.offset} points backwards")
                    last = member.offset_data
                    tar.members.clear()  # type: ignore[attr-defined]  # else every header stays in memory
                    yield member
                end = tar.offset
        except (tarfile.TarError, ValueError, OverflowError, OSError) as error:
            raise _Damage(f"the tar can't be read on: {error}") from None
        # tarfile ends quietly at a cut between members and at a broken header alike.
        file.seek(end)
        block = file.read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE:
            raise _Damage(f"the file ends at byte {end} without an end marker, so it was cut")
        if block.strip(b"\0"):
            raise _Damage(f"the header at byte {end} is invalid")
