"""Make the shards of a source: route, encode, check, write, and go on after an interruption.

Until a set is whole its finished shards lie in ``OUT/.NAME.partial`` with ``progress.json``; the
next run with the same source and options checks them by hash and goes on behind them. Then they
get their names in ``OUT``, older shards of these names go, and the manifests are written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import datamodules
from datamodules.manifest import build_manifest, intact, manifest_path, read_manifest
from datamodules.partial import Partial, publish
from datamodules.recode import Recode
from datamodules.samples import SampleError, read_sample
from datamodules.shard_writer import check_key, check_limits, encode_sample
from datamodules.sources.catalogue import SourceSet
from datamodules.sources.table import Item, Refusal
from datamodules.spool import shuffled
from sapo_vl.protocols import ChecksReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How shards are to be written.

    Args:
        max_samples: a shard holds at most this many samples.
        max_bytes: a shard is closed before its content passes this size.
        shuffle: write in an order drawn from ``seed`` instead of the source's.
        seed: of that order.
        group_by: field that variants of one problem share; "key": every sample is its own.
        val_share: share of the groups that goes to NAME-val; 0: no division.
        recode: make images smaller or of another format.
        skip_bad: leave unusable rows out and list them, instead of stopping.

    Raises:
        ValueError: a value out of range.
    """

    max_samples: int = 10_000
    max_bytes: int = 1_000_000_000
    shuffle: bool = False
    seed: int = 0
    group_by: str = ""
    val_share: float = 0.0
    recode: Recode = field(default_factory=Recode)
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.val_share < 1:
            raise ValueError(f"--val-share is {self.val_share}; it must lie in [0, 1)")
        if self.group_by and not self.val_share:
            raise ValueError("--group-by divides train from val; say how much: --val-share 0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A set of shards that is there now. ``again`` is False where it was whole already."""

    paths: list[Path]
    manifest: Mapping[str, Any]
    again: bool = True


def make_shards(
    source: SourceSet,
    out_dir: str | Path,
    writing: Writing | None = None,
    *,
    verifier: ChecksReference | None = None,
    verifier_name: str = "",
    resumable: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[Made]:
    """Write the shards and manifest of a source set (of train and val where it is divided).

    Args:
        source: the samples.
        out_dir: made if it isn't there.
        writing: how.
        verifier: samples whose reference it can't use are left out and listed.
        verifier_name: how the manifest calls it.
        resumable: keep finished shards on an interruption, and go on from them; a set that is
            whole and unchanged isn't made again.
        progress: called with the number of rows gone through.

    Raises:
        ValueError: a row or sample that can't be used (unless ``writing.skip_bad``), a repeated
            key, or no sample for a set.
    """
    writing = writing or Writing()
    job = _Job(source, Path(out_dir), writing, verifier, verifier_name)
    digest = job.digest() if resumable else ""
    if digest and (there := job.whole(digest)):
        return there
    partial = Partial(job.out, job.names[0], digest)
    try:
        job.write(partial, progress or (lambda _: None))
        made = job.manifests(partial, digest)
        paths = publish(partial, made)
    finally:
        partial.close()
    return [Made(paths=one, manifest=two) for one, two in zip(paths, made, strict=True)]


def split_of_group(group: str, val_share: float) -> str:
    """Give train or val; the group's own content decides, whatever the order, seed or set."""
    digest = hashlib.blake2b(group.encode(), digest_size=8).digest()
    return "val" if int.from_bytes(digest, "big") < val_share * 2**64 else "train"


class _Job:
    def __init__(
        self,
        source: SourceSet,
        out: Path,
        writing: Writing,
        verifier: ChecksReference | None,
        verifier_name: str,
    ) -> None:
        self.source, self.out, self.writing = source, out, writing
        self._verifier, self._verifier_name = verifier, verifier_name
        self._group = writing.group_by or source.described.group
        if writing.val_share and not self._group:
            raise ValueError(
                f"--val-share needs the field that variants of one problem share: --group-by FIELD"
                f" (or --group-by key, if no two samples of {source.name} belong together)"
            )
        if writing.val_share and source.split != "train":
            raise ValueError(f"--val-share divides train; {source.name} is {source.split}")
        splits = (source.split, "val") if writing.val_share else (source.split,)
        self.names = [f"{source.name}-{split}" if split else source.name for split in splits]
        for name in self.names:
            check_limits(name, writing.max_samples, writing.max_bytes)
        out.mkdir(parents=True, exist_ok=True)

    def digest(self) -> str:
        """Hash everything the shards depend on: options, source files and this package."""
        stats = [(str(x), x.stat().st_size, x.stat().st_mtime_ns) for x in self.source.files]
        writing = asdict(self.writing)
        parts = [self.names, writing, repr(self.source.request), stats, self._verifier_name]
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode())
        for path in sorted(Path(datamodules.__file__).parent.rglob("*.py")):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def whole(self, digest: str) -> list[Made]:
        """Give what is there, if a run with the same digest finished it and nothing has changed."""
        made = []
        for name in self.names:
            manifest = read_manifest(manifest_path(self.out, name))
            shards = manifest.get("shards", {})
            if manifest.get("digest") != digest or not intact(self.out, shards):
                return []
            made.append(Made(paths=[self.out / x for x in shards], manifest=manifest, again=False))
        return made

    def write(self, partial: Partial, progress: Callable[[int], None]) -> None:
        """Write every shard into the partial folder."""
        for name in self.names:
            partial.add_writer(
                name,
                self.source.described.by,
                max_samples=self.writing.max_samples,
                max_bytes=self.writing.max_bytes,
            )
        start = partial.start()
        for position, item in enumerate(self._items(start, partial.folder), start=start):
            if isinstance(item, Refusal):
                self._refuse(partial, position, item)
            else:
                self._take(partial, position, item)
            partial.position = position + 1
            progress(position + 1)
        partial.finish()
        for name in self.names:
            if not partial.tallies[name].samples:
                why = "; the first refusal: " + str(next(iter(partial.refused.values()), "none"))
                raise ValueError(
                    f"{name}: the source gave no sample, so there is no shard to write{why}"
                )

    def _items(self, start: int, folder: Path) -> Iterator[Item]:
        if not self.writing.shuffle:
            yield from self.source.items(start)
            return
        seed = f"{self.writing.seed} {self.names[0]}"
        for position, item in enumerate(shuffled(self.source.items(0), folder, seed)):
            if position >= start:
                yield item

    def _take(self, partial: Partial, position: int, sample: Mapping[str, Any]) -> None:
        key = sample.get("key")
        where = f"{self.names[0]}, sample {position} (key {key!r})"
        try:
            name = self._route(sample)
            if position < partial.positions[name] or position in partial.refused:
                return  # an earlier run has dealt with it
            key = check_key(key)
            if key in partial.keys:
                raise SampleError("duplicate_key", f"the key {key!r} is there twice")
            fields = encode_sample(sample, self._images(sample))
            prompt = read_sample(fields, key=key)
        except (ValueError, TypeError) as error:
            why = error.why if isinstance(error, SampleError) else "bad_sample"
            self._refuse(partial, position, Refusal(why=why, where=where, detail=str(error)))
            return
        fault = self._verifier.check_reference(prompt) if self._verifier is not None else None
        if fault is not None:
            partial.refused[position] = Refusal(
                why="unusable_reference", where=where, detail=fault, always=True
            )
            return
        partial.keys.add(key)
        partial.add(name, key, fields, prompt)

    def _route(self, sample: Mapping[str, Any]) -> str:
        if not self.writing.val_share:
            return self.names[0]
        value: Any = sample
        for part in self._group.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            fields = ", ".join(name for name in sample if name != "images")
            raise ValueError(
                f'it has no field "{self._group}" to group by; --group-by one of {fields}'
            )
        group = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return self.names[split_of_group(group, self.writing.val_share) == "val"]

    def _images(self, sample: Mapping[str, Any]) -> Iterable[bytes]:
        images = sample.get("images") or ()
        return map(self.writing.recode, images) if self.writing.recode.changes else images

    def _refuse(self, partial: Partial, position: int, refusal: Refusal) -> None:
        if not (self.writing.skip_bad or refusal.always):
            raise ValueError(str(refusal))
        partial.refused[position] = refusal

    def manifests(self, partial: Partial, digest: str) -> list[dict[str, Any]]:
        """Give the manifest of each set."""
        request = self.source.request
        asked = {
            "count": request and request.count,
            "size": request and request.size,
            "columns": dict(request.columns) if request else {},
            "files": [path.name for path in self.source.files],
        }
        options = {**asdict(self.writing), **asked, "verifier": self._verifier_name}
        return [
            build_manifest(
                name,
                partial.shards(name),
                partial.tallies[name],
                described=self.source.described,
                refused=dict(sorted(partial.refused.items())).values(),
                options=options,
                digest=digest,
            )
            for name in self.names
        ]
