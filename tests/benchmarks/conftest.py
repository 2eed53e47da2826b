"""Shards of every benchmark, made from files of the published layouts as its YAML says."""

from __future__ import annotations

from pathlib import Path

import pytest
from eval_config import BENCHMARKS
from published_sets import SETS
from set_shards import write_set_shards


@pytest.fixture(scope="session")
def benchmark_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the shards, by the names that the YAMLs give them; do not write to it."""
    root = tmp_path_factory.mktemp("benchmarks")
    for name in SETS:
        assert name in BENCHMARKS
        write_set_shards(name, root)
    return root / "data"
