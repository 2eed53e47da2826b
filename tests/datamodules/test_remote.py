"""Shards from URLs, commands and compressed files become local ones, whole or not at all."""

from __future__ import annotations

import gzip
import itertools
import lzma
import os
import pickle
from pathlib import Path

import pytest
from remote_shards import contents, leftovers, shards
from shard_files import pack, row

import datamodules.download
from datamodules import ReasoningDataModule, TaskConfig
from datamodules.remote import ShardCache, ShardFetchError
from datamodules.shard_index import ShardIndex, expand_shards
from sapo_vl.verifiers import NumberVerifier

pytestmark = pytest.mark.usefixtures("short_pauses")


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
