"""Write WebDataset shards; finding, reading and checking them is offered here too.

``write_shards`` takes sample mappings: ``key``, ``images`` (encoded files, optional) and the JSON
fields that ``datamodules.samples`` describes.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from webdataset import TarWriter

from datamodules.samples import image_extension, read_sample
from datamodules.shard_check import check_shards
from datamodules.shard_index import ShardIndex, expand_shards

__all__ = ["ShardIndex", "check_shards", "expand_shards", "write_shards"]

_KEY = re.compile(r"(?!__)[\w-]+")
_NAME = re.compile(r"[\w-]+")
_BLOCK = 512


def write_shards(
    samples: Iterable[Mapping[str, Any]],
    out_dir: str | Path,
    name: str,
    *,
    max_samples: int = 10_000,
    max_bytes: int = 1_000_000_000,
) -> list[Path]:
    """Write ``NAME-000000.tar`` ... and ``NAME-shards.json`` (samples per shard).

    The same samples give the same bytes. Older shards of the name are replaced, once every sample
    is written.

    Args:
        samples: one mapping a sample; ``images`` is a list of encoded PNG, JPEG or WebP files.
        out_dir: made if it isn't there.
        name: letters, digits, "_" and "-".
        max_samples: a shard holds at most this many samples.
        max_bytes: a shard is closed before its content passes this size.

    Raises:
        ValueError: a bad name, a bad or repeated key, a sample that can't be read, or no sample.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f'shard name {name!r} may hold letters, digits, "_" and "-" only')
    if max_samples < 1 or max_bytes < 1:
        raise ValueError(
            f"max_samples ({max_samples}) and max_bytes ({max_bytes}) must be at least 1"
        )
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=out) as scratch:
        counts = _write(_encode_all(samples, name), Path(scratch), name, max_samples, max_bytes)
        if not counts:
            raise ValueError(f"{name}: the source gave no sample, so there is no shard to write")
        for old in out.glob(f"{name}-*.tar"):
            # Shards left from a longer run would be found by NAME-*.tar and mixed in.
            if re.fullmatch(re.escape(name) + r"-\d{6}\.tar", old.name):
                old.unlink()
        paths = [Path(shutil.move(Path(scratch) / shard, out / shard)) for shard in counts]
    summary = {"name": name, "samples": sum(counts.values()), "shards": counts}
    (out / f"{name}-shards.json").write_text(json.dumps(summary, indent=1) + "\n")
    return paths


def _write(
    samples: Iterable[dict[str, Any]], folder: Path, name: str, max_samples: int, max_bytes: int
) -> dict[str, int]:
    """Write the encoded samples; give the number of samples of each shard file."""
    counts: dict[str, int] = {}
    shard, size = "", 0
    with ExitStack() as stack:
        for sample in samples:
            added = _tar_size(sample)
            if not counts or counts[shard] == max_samples or size + added > max_bytes:
                stack.close()
                shard, size = f"{name}-{len(counts):06d}.tar", 0
                counts[shard] = 0
                # An open file, as webdataset reads a path as a URL and runs "pipe:" ones. PAX takes
                # keys of any length; the fixed mtime makes the bytes repeatable.
                file = stack.enter_context(open(folder / shard, "wb"))
                writer = TarWriter(file, encoder=False, mtime=0, format="PAX_FORMAT")
                stack.enter_context(writer)
            writer.write(sample)
            counts[shard] += 1
            size += added
    return counts


def _tar_size(sample: Mapping[str, Any]) -> int:
    contents = [content for field, content in sample.items() if field != "__key__"]
    return sum(_BLOCK + -(-len(content) // _BLOCK) * _BLOCK for content in contents)


def _encode_all(samples: Iterable[Mapping[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for place, sample in enumerate(samples):
        key = sample.get("key")
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(
                f"{name}, sample {place}: the key {key!r} can't be used; webdataset cuts keys at"
                ' dots, so use letters, digits, "_" and "-", and don\'t start with "__"'
            )
        if key in seen:
            raise ValueError(f"{name}, sample {place}: the key {key!r} is there twice")
        seen.add(key)
        try:
            fields = _encode(sample)
            read_sample(fields, key=key)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}, sample {place} (key {key!r}): {error}") from None
        yield {"__key__": key, **fields}


def _encode(sample: Mapping[str, Any]) -> dict[str, bytes]:
    images = list(sample.get("images") or ())
    data = {field: value for field, value in sample.items() if field not in ("key", "images")}
    fields = {"json": json.dumps(data, ensure_ascii=False, allow_nan=False).encode()}
    for number, image in enumerate(images):
        place = f"{number}." if len(images) > 1 else ""
        fields[f"{place}{image_extension(image)}"] = image
    return fields
