"""Shards to put on a web server, and what a fetch made of them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from shard_files import make

from datamodules.shard_index import ShardIndex
from datamodules.shards import write_shards


def shards(folder, count=6, each=2):
    return [str(path) for path in write_shards(make(count), folder, "a", max_samples=each)]


def contents(paths):
    index = ShardIndex(paths)
    assert index.problems == []
    return [(key, index.read(i)) for i, key in enumerate(index.keys)]


def leftovers(cache):
    """What failed fetches left behind, beside locks."""
    files = (path for path in Path(cache.folder).glob("*/*") if path.parent.name != "users")
    return [path.name for path in files if path.name != "lock"]


def in_another_process(work, *args):
    """Run in a process that lives on; gives it and a queue with what ``work`` gave."""
    context = multiprocessing.get_context("fork")
    results, done = context.Queue(), context.Event()

    def run():
        results.put(work(*args))
        done.wait(60)

    process = context.Process(target=run, daemon=True)
    process.start()
    found = results.get(timeout=60)
    return process, done, found
