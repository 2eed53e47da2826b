"""Shards from URLs, commands and compressed files become local ones, whole or not at all."""

from __future__ import annotations

import gzip
import itertools
import lzma
import multiprocessing
import os
import pickle
import socket
import tarfile
import time
from pathlib import Path

import pytest
from loopback import serving
from shard_files import make, pack, row

import datamodules.download
from datamodules import ReasoningDataModule, TaskConfig
from datamodules.remote import ShardCache, ShardFetchError
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.shards import write_shards
from sapo_vl.verifiers import NumberVerifier


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(tmp_path / "served") as running:
        yield running


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("datamodules.download._PAUSE", 0.01)


@pytest.fixture
def cache(tmp_path):
    return ShardCache(folder=str(tmp_path / "cache"), stall_seconds=20)


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


class TestOneBehaviour:
    def test_url_command_and_gz_give_the_samples_of_the_local_shards(self, server, cache, tmp_path):
        local = shards(server.folder)
        for path in local:
            with gzip.open(f"{path}.gz", "wb") as file:
                file.write(Path(path).read_bytes())
        expected = contents(local)
        numbers = "{000000..000002}"
        for pattern in (
            f"{server.url}/a-{numbers}.tar",
            f"{server.url}/a-{numbers}.tar.gz?token=secret",
            f"pipe:cat {server.folder}/a-{numbers}.tar",
            f"pipe:gunzip -c {server.folder}/a-{numbers}.tar.gz",
            f"{server.folder}/a-*.tar.gz",
            [local[0], f"pipe:cat {local[1]}", f"{server.url}/a-000002.tar"],
        ):
            assert contents(expand_shards(pattern, cache)) == expected, pattern
        assert contents(expand_shards(f"{server.folder}/a-*.tar", cache)) == expected
        assert "secret" not in "".join(
            path.read_text() for path in Path(cache.folder).rglob("source.txt")
        )

    def test_an_answer_without_a_file_is_refused(self, server, cache):
        Path(shards(server.folder, 2)[0]).rename(server.folder / "empty.tar")
        with pytest.raises(ShardFetchError, match="answered without a file"):
            expand_shards(f"{server.url}/empty.tar", cache)
        assert leftovers(cache) == []

    def test_a_proxys_tunnel_is_not_part_of_the_shard(self, server, cache, tmp_path, monkeypatch):
        """As for every https address behind a proxy."""
        [local] = shards(server.folder, 2)
        (tmp_path / ".curlrc").write_text(f'proxy = "{server.url}"\nproxytunnel\n')
        monkeypatch.setenv("CURL_HOME", str(tmp_path))
        monkeypatch.setenv("no_proxy", "")
        expected = contents([local])
        assert contents(expand_shards(f"{server.url}/a-000000.tar", cache)) == expected

    def test_other_packers_work_too(self, cache, tmp_path):
        (path,) = shards(tmp_path, 2)
        packed = tmp_path / "b.tar.xz"
        packed.write_bytes(lzma.compress(Path(path).read_bytes()))
        found = contents(expand_shards(str(packed), cache))
        assert [key for key, _ in found] == ["b.tar#0000", "b.tar#0001"]

    def test_a_shard_is_fetched_once(self, server, cache):
        shards(server.folder)
        pattern = f"{server.url}/a-{{000000..000002}}.tar"
        assert expand_shards(pattern, cache) == expand_shards(pattern, cache)
        assert len(server.asked) == 3

    def test_a_packed_file_that_was_changed_is_unpacked_again(self, cache, tmp_path):
        packed = tmp_path / "a.tar.gz"
        for answer in ("1", "22"):
            plain = Path(pack(tmp_path / "plain", [("x.json", row(answer))]))
            packed.write_bytes(gzip.compress(plain.read_bytes()))
            ((_, fields),) = contents(expand_shards(str(packed), cache))
            assert fields["json"] == row(answer)

    def test_a_plain_tar_whose_first_member_looks_packed_is_left_alone(self, cache, tmp_path):
        path = pack(tmp_path / "a.tar", [("BZh91.json", row())])
        assert expand_shards(path, cache) == [path]
        assert len(ShardIndex(path)) == 1

    def test_the_name_of_a_file_is_never_a_command(self, cache, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        bad = pack("pipe:touch ran;.tar", [("x.json", row())])
        packed = Path("pipe:touch ran; #.tar.gz")
        packed.write_bytes(gzip.compress(Path(bad).read_bytes()))
        for pattern in (bad, "*.tar", "*.tar.gz", str(packed)):
            assert len(ShardIndex(expand_shards(pattern, cache))) == 1
        assert not Path("ran").exists()

    def test_a_pickle_in_a_shard_is_never_loaded(self, server, cache, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "ran"),)

        bomb = pickle.dumps(Bomb())
        members = [(f"x.{kind}", bomb) for kind in ("pkl", "pickle", "pyd", "pth")]
        pack(server.folder / "p.tar", [("x.json", row()), *members])
        (fields,) = (fields for _, fields in contents(expand_shards(f"{server.url}/p.tar", cache)))
        assert fields["pkl"] == bomb
        assert not (tmp_path / "ran").exists()


def test_a_run_reads_them_like_local_shards(server, cache, processor):
    local = shards(server.folder)
    for path in local:
        Path(f"{path}.gz").write_bytes(gzip.compress(Path(path).read_bytes()))

    def batches(pattern, workers=0):
        task = TaskConfig(name="t", shards=pattern, verifier=NumberVerifier())
        source = ReasoningDataModule(
            processor,
            tasks=[task],
            prompts_per_iteration=4,
            num_workers=workers,
            shard_cache=cache,
        )
        source.setup("fit")
        found = itertools.islice(source.train_dataloader(), 3)
        return [(batch.prompts, [x.input_ids_S.tolist() for x in batch.inputs]) for batch in found]

    expected = batches(local)
    assert batches(f"pipe:cat {server.folder}/a-{{000000..000002}}.tar", workers=2) == expected
    assert batches(f"{server.url}/a-{{000000..000002}}.tar.gz", workers=1) == expected


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


class TestFailures:
    def fails(self, pattern, cache, *words):
        with pytest.raises(ShardFetchError) as caught:
            expand_shards(pattern, cache)
        for word in words:
            assert word in str(caught.value)
        assert leftovers(cache) == []

    def test_not_found(self, server, cache):
        url = f"{server.url}/none.tar"
        self.fails(url, cache, url, "404", "check the URL")

    def test_passwords_do_not_show(self, server, cache):
        url = server.url.replace("//", "//me:hunter2@") + "/none.tar?X-Signature=abc"
        with pytest.raises(ShardFetchError, match=f"{server.url}/none.tar can't") as caught:
            expand_shards(url, cache)
        assert "hunter2" not in str(caught.value)
        assert "abc" not in str(caught.value)

    def test_connection_refused(self, cache, monkeypatch):
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/a.tar"
            self.fails(url, cache, url, "refused")

    def test_a_body_that_is_cut(self, server, cache):
        pack(server.folder / "cut.tar", [("x.json", row()), ("x.png", bytes(200_000))])
        self.fails(f"{server.url}/cut.tar", cache, "cut.tar", "broke before all was there")

    def test_a_cut_that_the_server_does_not_tell_is_a_damaged_shard(self, server, cache):
        members = [(f"{key}.json", row()) for key in "abcdefgh"]
        pack(server.folder / "cut-unsized.tar", members)
        index = ShardIndex(expand_shards(f"{server.url}/cut-unsized.tar", cache))
        assert [problem.why for problem in index.problems] == ["damaged_shard"]
        assert 0 < len(index) < 8

    def test_a_server_that_sends_nothing(self, server, tmp_path):
        pack(server.folder / "silent.tar", [("x.json", row())])
        cache = ShardCache(folder=str(tmp_path / "cache"), stall_seconds=0.3)
        self.fails(f"{server.url}/silent.tar", cache, "silent.tar", "sent nothing for 0.3 s")

    def test_a_page_instead_of_a_shard(self, server, cache):
        (server.folder / "a.tar").write_bytes(b"<!DOCTYPE html><html>please log in</html>" * 20)
        self.fails(f"{server.url}/a.tar", cache, f"{server.url}/a.tar is no tar", "DOCTYPE")

    def test_a_command_that_fails(self, cache, tmp_path):
        (path,) = shards(tmp_path, 2)
        self.fails(f"pipe:cat {path}; exit 3", cache, path, "exit status 3", "in a shell")
        self.fails("pipe:no-such-program a.tar", cache, "no-such-program", "exit status 127")
        self.fails("pipe:true", cache, "pipe:true", "it is empty")

    def test_too_large(self, server, tmp_path):
        tar = pack(server.folder / "a.tar", [("x.json", row()), ("x.png", bytes(3_000_000))])
        with gzip.open(f"{tar}.gz", "wb") as file:
            file.write(Path(tar).read_bytes())
        cache = ShardCache(folder=str(tmp_path / "cache"), max_shard_gb=0.001)
        for pattern in (f"{server.url}/a.tar", f"{tar}.gz", "pipe:cat /dev/zero"):
            self.fails(pattern, cache, "larger than 0.001 GB", "max_shard_gb")

    def test_a_packed_file_that_was_cut_keeps_the_samples_before_the_cut(self, cache, tmp_path):
        members = [
            (f"{key}.{kind}", os.urandom(3000)) for key in "abcd" for kind in ("json", "png")
        ]
        packed = gzip.compress(Path(pack(tmp_path / "plain", members)).read_bytes())
        (tmp_path / "a.tar.gz").write_bytes(packed[: len(packed) * 2 // 3])
        index = ShardIndex(expand_shards(str(tmp_path / "a.tar.gz"), cache))
        assert index.keys == ["a.tar#a", "a.tar#b"]
        assert [problem.why for problem in index.problems] == ["damaged_shard"]

    def test_a_packed_file_that_is_broken(self, cache, tmp_path):
        plain = pack(tmp_path / "plain", [("x.json", row()), ("x.png", os.urandom(3000))])
        packed = bytearray(gzip.compress(Path(plain).read_bytes()))
        packed[-8] ^= 1  # the checksum: what was unpacked can't be trusted
        (tmp_path / "a.tar.gz").write_bytes(packed)
        self.fails(str(tmp_path / "a.tar.gz"), cache, "a.tar.gz does not unpack (gzip)", "again")
        (tmp_path / "b.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))
        self.fails(str(tmp_path / "b.tar.zst"), cache, "b.tar.zst is packed with zstd", "gzip")

    def test_a_cache_that_cannot_be_written(self, server, tmp_path):
        shards(server.folder, 2)
        (tmp_path / "file").write_bytes(b"")
        cache = ShardCache(folder=str(tmp_path / "file" / "cache"))
        with pytest.raises(
            ShardFetchError, match=r"can't be kept .* set data\.shard_cache\.folder"
        ):
            expand_shards(f"{server.url}/a-000000.tar", cache)

    def test_commands_that_the_environment_forbids(self, cache, monkeypatch):
        monkeypatch.setattr("webdataset.utils.enforce_security", True)
        self.fails("pipe:cat a.tar", cache, "can't open the shard pipe:cat a.tar", "WDS_SECURE")

    @pytest.mark.parametrize("pattern", ["s3://bucket/a.tar", "gs://b/{0..3}.tar", "file:///a.tar"])
    def test_other_schemes_say_what_to_write(self, cache, pattern):
        scheme = pattern.partition(":")[0]
        with pytest.raises(ValueError, match=rf"{scheme}:// are not read .*pipe:COMMAND"):
            expand_shards(pattern, cache)

    @pytest.mark.parametrize("name", ["max_shard_gb", "max_total_gb", "stall_seconds", "parallel"])
    def test_limits_out_of_range(self, name):
        with pytest.raises(ValueError, match=rf"data\.shard_cache\.{name} is 0"):
            ShardCache(**{name: 0})
        with pytest.raises(ValueError, match=r"data\.shard_cache\.retries is -1"):
            ShardCache(retries=-1)


class TestAgainAndAtOnce:
    def test_a_connection_that_breaks_twice_is_begun_again_each_time(self, server, cache):
        pack(server.folder / "flaky-2.tar", [("x.json", row()), ("x.png", os.urandom(200_000))])
        with pytest.warns(UserWarning, match="broke before all was there.*; trying again"):
            (path,) = expand_shards(f"{server.url}/flaky-2.tar", cache)
        assert Path(path).read_bytes() == (server.folder / "flaky-2.tar").read_bytes()
        assert len(server.asked) == 3

    def test_one_that_breaks_each_time_is_given_up(self, server, tmp_path):
        pack(server.folder / "cut.tar", [("x.json", row()), ("x.png", bytes(200_000))])
        cache = ShardCache(folder=str(tmp_path / "cache"), retries=1)
        with pytest.raises(ShardFetchError, match="broke before"):
            expand_shards(f"{server.url}/cut.tar", cache)
        assert len(server.asked) == 2

    def test_what_is_not_there_is_asked_for_once(self, server, cache):
        with pytest.raises(ShardFetchError, match="404"):
            expand_shards(f"{server.url}/none.tar", cache)
        assert len(server.asked) == 1

    def test_a_command_that_fails_is_run_again(self, cache, tmp_path):
        (path,) = shards(tmp_path, 2)
        count = tmp_path / "count"
        command = f"pipe:echo >> {count}; test $(wc -l < {count}) -ge 3 && cat {path}"
        assert contents(expand_shards(command, cache))[0][1] == contents([path])[0][1]
        assert count.read_text() == "\n" * 3

    def test_some_are_fetched_at_a_time_and_no_more(self, server, tmp_path):
        shards(server.folder, 8, each=1)
        for path in server.folder.glob("a-*.tar"):
            path.rename(path.with_name(f"slow-{path.name[2:]}"))
        for parallel in (1, 4):
            cache = ShardCache(folder=str(tmp_path / f"cache{parallel}"), parallel=parallel)
            server.most = 0
            found = expand_shards(f"{server.url}/slow-{{000000..000007}}.tar", cache)
            assert [Path(path).name for path in found] == [f"slow-00000{i}.tar" for i in range(8)]
            assert server.most == parallel

    def test_one_failure_ends_the_other_fetches(self, server, cache):
        pack(server.folder / "silent.tar", [("x.json", row())])
        begun = time.monotonic()
        with pytest.raises(ShardFetchError, match=r"none\.tar"):
            expand_shards([f"{server.url}/silent.tar", f"{server.url}/none.tar"], cache)
        assert time.monotonic() - begun < 3  # the silent one would take longer


class TestGoingOn:
    """A file of which the server sends half of what is left and breaks; its name says how often."""

    def fetch(self, server, cache, name, versions):
        file = server.folder / name
        if not file.exists():
            pack(file, [("x.json", row()), ("x.png", os.urandom(300_000))])
        server.versions += versions
        (path,) = expand_shards(f"{server.url}/{name}", cache)
        assert Path(path).read_bytes() == file.read_bytes()
        assert server.versions == []
        return file.stat().st_size

    @pytest.mark.filterwarnings("ignore:.*trying again")
    @pytest.mark.parametrize(
        "version", [("ETag", '"a1"'), ("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")]
    )
    def test_every_byte_is_sent_once(self, server, cache, version):
        size = self.fetch(server, cache, "flaky-2-ranged.tar", [version] * 3)
        assert [status for status, *_ in server.sent] == [200, 206, 206]
        assert [start for _, start, _ in server.sent] == [0, size // 2, size // 2 + size // 4]
        assert sum(count for *_, count in server.sent) == size

    @pytest.mark.filterwarnings("ignore:.*trying again")
    @pytest.mark.parametrize(
        ("name", "versions"),
        [
            ("flaky-1-ranged.tar", [("ETag", '"a1"'), ("ETag", '"a2"')]),  # another file now
            ("flaky-1-ranged.tar", [("ETag", 'W/"a1"')] * 2),  # not the same byte for byte
            ("flaky-1-ranged.tar", [("X-Version", "1")] * 2),
            ("flaky-1-ranged-wrong.tar", [("ETag", '"a1"')] * 3),  # another part than asked for
        ],
    )
    def test_else_it_begins_again(self, server, cache, name, versions):
        size = self.fetch(server, cache, name, versions)
        assert server.sent[-1] == (200, 0, size)

    @pytest.mark.filterwarnings("ignore:.*trying again")
    def test_a_file_that_changed_is_not_joined_with_the_old_one(self, server, cache, monkeypatch):
        name = "flaky-1-ranged.tar"
        pack(server.folder / name, [("x.json", row()), ("x.png", os.urandom(300_000))])
        newer = pack(server.folder / "newer.tar", [("x.json", row("7")), ("x.png", bytes(300_000))])
        warn = datamodules.download.rank_zero_warn

        def change(message):
            Path(newer).replace(server.folder / name)
            warn(message)

        monkeypatch.setattr("datamodules.download.rank_zero_warn", change)
        self.fetch(server, cache, name, [("ETag", '"a1"'), ("ETag", '"a2"')])

    @pytest.mark.filterwarnings("ignore:.*trying again")
    def test_a_limit_counts_both_parts(self, server, tmp_path):
        name = "flaky-1-ranged.tar"
        pack(server.folder / name, [("x.json", row()), ("x.png", os.urandom(300_000))])
        server.versions += [("ETag", '"a1"')] * 2
        cache = ShardCache(folder=str(tmp_path / "cache"), max_shard_gb=2e-4)
        with pytest.raises(ShardFetchError, match=r"is larger than 0\.0002 GB"):
            expand_shards(f"{server.url}/{name}", cache)
        assert leftovers(cache) == []


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
