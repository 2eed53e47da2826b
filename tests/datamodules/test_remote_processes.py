"""Processes that want the same shards, or the room that they take."""

from __future__ import annotations

import multiprocessing
import tarfile
from pathlib import Path

import pytest
from remote_shards import contents, in_another_process, shards
from shard_files import pack, row

from datamodules.remote import ShardCache, ShardFetchError
from datamodules.shard_index import expand_shards

pytestmark = pytest.mark.usefixtures("short_pauses")


def fetch_in_process(pattern, cache, results):
    results.put(expand_shards(pattern, cache))


def test_processes_that_want_the_same_shard_fetch_it_once(server, cache):
    local = shards(server.folder)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    pattern = f"{server.url}/a-{{000000..000002}}.tar"
    workers = [
        context.Process(target=fetch_in_process, args=(pattern, cache, results)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert found[0] == found[1] == found[2]
    assert contents(found[0]) == contents(local)
    assert sorted(server.asked) == [f"/a-00000{i}.tar" for i in range(3)]


class TestRoom:
    """Shards of about 60 kB, fetched one after another by processes that end."""

    @pytest.fixture
    def urls(self, server):
        for name in "abcd":
            pack(server.folder / f"{name}.tar", [("x.json", row()), ("x.png", bytes(50_000))])
        return {name: f"{server.url}/{name}.tar" for name in "abcd"}

    @pytest.fixture
    def small(self, tmp_path):
        return ShardCache(folder=str(tmp_path / "cache"), max_total_gb=150e-6)  # two shards

    def fetch(self, url, cache):
        process, done, (path,) = in_another_process(expand_shards, url, cache)
        done.set()
        process.join()
        return Path(path)

    def test_what_was_not_used_for_longest_goes_first(self, urls, small, server):
        kept = {name: self.fetch(urls[name], small) for name in "ab"}
        assert self.fetch(urls["a"], small).exists()  # used again, so b is the older one
        kept["c"] = self.fetch(urls["c"], small)
        assert [name for name, path in kept.items() if path.exists()] == ["a", "c"]
        self.fetch(urls["b"], small)
        assert [name for name, path in kept.items() if path.exists()] == ["b", "c"]
        assert server.asked == ["/a.tar", "/b.tar", "/c.tar", "/b.tar"]

    def test_a_shard_in_use_stays_and_the_error_says_so(self, urls, small):
        process, _, (first,) = in_another_process(expand_shards, urls["a"], small)
        others = [self.fetch(urls[name], small) for name in "bc"]
        assert Path(first).exists()
        assert [path.exists() for path in others] == [False, True]
        (own,) = expand_shards(urls["d"], small)  # this process holds it until its end
        with pytest.raises(ShardFetchError, match=r"in use and it take .*max_total_gb is 0.00015"):
            expand_shards(urls["b"], small)
        assert Path(own).exists()
        assert Path(first).exists()
        process.kill()  # no goodbye
        process.join()
        assert Path(*expand_shards(urls["b"], small)).exists()
        assert not Path(first).exists()

    def test_without_a_limit_all_stay(self, urls, tmp_path):
        cache = ShardCache(folder=str(tmp_path / "cache"))
        assert all(self.fetch(url, cache).exists() for url in urls.values())
        assert len(list(Path(cache.folder).glob("*/*.tar"))) == 4


def test_a_fetch_that_was_killed_is_begun_again(server, cache):
    shards(server.folder, 2)
    (folder,) = {Path(path).parent for path in expand_shards(f"{server.url}/a-000000.tar", cache)}
    (folder / "a-000000.tar").rename(folder / "plain.part")
    (folder / "plain.part").write_bytes(b"half")
    (path,) = expand_shards(f"{server.url}/a-000000.tar", cache)
    with tarfile.open(path) as tar:
        assert len(tar.getmembers()) == 4
