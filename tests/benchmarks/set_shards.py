"""Shards of a benchmark, made from files of the published layout as the cards of its YAML say."""

from __future__ import annotations

from pathlib import Path

from eval_config import tasks
from published_sets import SETS

from datamodules.making import Writing, make_shards
from datamodules.sources.catalogue import Request, source_sets


def write_set_shards(name: str, root: Path) -> None:
    """Write the shards of every source and split of ``configs/eval/<name>.yaml`` to root/data."""
    cards = [task.card for task in tasks(name).values() if task.card is not None]
    for source, write in SETS[name].items():
        data = write(root / "published" / name / source)
        for words in sorted({c.source for c in cards if c.source.split()[0] == source}):
            split = words.partition("--split ")[2]
            (one,) = source_sets(source, Request(data=data, splits=(split,) if split else ()))
            make_shards(one, root / "data", Writing(skip_bad="--skip-bad" in words))
