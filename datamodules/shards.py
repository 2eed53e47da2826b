"""Write WebDataset shards; finding, reading and checking them is offered here too.

``write_shards`` takes sample mappings: ``key``, ``images`` and ``videos`` (encoded files, optional)
and the JSON fields that ``datamodules.samples`` describes. ``datamodules.making`` writes the shards
of a source, with all its options.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from datamodules.making import Writing, make_shards
from datamodules.shard_check import check_shards
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.sources.catalogue import SourceSet
from datamodules.sources.described import TableSet

__all__ = ["ShardIndex", "check_shards", "expand_shards", "write_shards"]


def write_shards(
    samples: Iterable[Mapping[str, Any]],
    out_dir: str | Path,
    name: str,
    *,
    max_samples: int = 10_000,
    max_bytes: int = 1_000_000_000,
) -> list[Path]:
    """Write ``NAME-000000.tar`` ... and ``NAME-manifest.json``.

    The same samples give the same bytes. Older shards of the name are replaced, once every sample
    is written.

    Args:
        samples: one mapping a sample; ``images`` is a list of encoded PNG, JPEG or WebP files,
            ``videos`` one of mp4 files.
        out_dir: made if it isn't there.
        name: letters, digits, "_" and "-".
        max_samples: a shard holds at most this many samples.
        max_bytes: a shard is closed before its content passes this size.

    Raises:
        ValueError: a bad name, a bad or repeated key, a sample that can't be read, or no sample.
    """

    def items(start: int) -> Iterator[Mapping[str, Any]]:
        return itertools.islice(samples, start, None)

    source = SourceSet(name=name, split="", items=items, described=TableSet(name=name))
    writing = Writing(max_samples=max_samples, max_bytes=max_bytes)
    (made,) = make_shards(source, out_dir, writing, resumable=False)
    return made.paths
