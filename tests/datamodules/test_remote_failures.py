"""A fetch that fails says why and leaves nothing; one that may pass is tried again."""

from __future__ import annotations

import gzip
import os
import socket
import time
from pathlib import Path

import pytest
from remote_shards import contents, leftovers, shards
from shard_files import pack, row

from datamodules.remote import ShardCache, ShardFetchError
from datamodules.shard_index import ShardIndex, expand_shards

pytestmark = pytest.mark.usefixtures("short_pauses")


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
