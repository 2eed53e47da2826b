"""Samples of a source for tests: none may be refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from datamodules.sources.catalogue import Request, SourceSet, source_sets
from datamodules.sources.table import Refusal


def strict_sets(source: str, request: Request) -> Iterator[tuple[str, Iterator[Mapping[str, Any]]]]:
    """The shards' name and the samples of each set of a source.

    Raises:
        ValueError: while the samples are read, a row that can't be used.
    """
    return ((f"{one.name}-{one.split}", _samples(one)) for one in source_sets(source, request))


def _samples(made: SourceSet) -> Iterator[Mapping[str, Any]]:
    for item in made.items(0):
        if not isinstance(item, Refusal):
            yield item
        elif not item.always:
            raise ValueError(str(item))
