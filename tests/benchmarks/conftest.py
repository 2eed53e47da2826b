"""Shards of every benchmark, made from files of the published layouts as its YAML says."""

from __future__ import annotations

from pathlib import Path

import pytest
from eval_config import BENCHMARKS, tasks
from published_sets import SETS

from datamodules.making import Writing, make_shards
from datamodules.sources.catalogue import Request, source_sets


@pytest.fixture(scope="session")
def benchmark_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the shards, by the names that the YAMLs give them; do not write to it."""
    root = tmp_path_factory.mktemp("benchmarks")
    for name, writers in SETS.items():
        assert name in BENCHMARKS
        for source, write in writers.items():
            data = write(root / "published" / name / source)
            cards = [task.card for task in tasks(name).values() if task.card is not None]
            for words in sorted({c.source for c in cards if c.source.split()[0] == source}):
                split = words.partition("--split ")[2]
                request = Request(data=data, splits=(split,) if split else ())
                (one,) = source_sets(source, request)
                make_shards(one, root / "data", Writing(skip_bad="--skip-bad" in words))
    return root / "data"
