"""Shards that are there are not made again; what an interrupted run left goes on."""

import multiprocessing
import os
import signal

import pytest
from counted_source import Odd, Source, contents
from shard_files import make

from datamodules import partial
from datamodules.making import Writing, make_shards
from datamodules.shards import check_shards


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_interrupted_run_goes_on_behind_its_finished_shards(tmp_path, shuffle):
    writing = Writing(max_samples=3, shuffle=shuffle)
    whole = Source(make(10))
    make_shards(whole.set(), tmp_path / "whole", writing)

    cut = Source(make(10), stop_at=None if shuffle else 8)
    calls = []

    def stop(done):
        calls.append(done)
        if shuffle and done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_shards(cut.set(), tmp_path / "cut", writing, progress=stop)
    assert not list((tmp_path / "cut").glob("*.tar"))  # nothing under a final name
    place = tmp_path / "cut" / ".a-train.partial"
    assert sorted(path.name for path in place.iterdir()) == [
        "a-train-000000.tar",
        "a-train-000001.tar",
        "progress.json",
    ]
    before = {path.name: path.stat().st_mtime_ns for path in place.glob("*.tar")}

    again = Source(make(10))
    make_shards(again.set(), tmp_path / "cut", writing)
    if not shuffle:
        assert again.given == [6, 7, 8, 9]  # the first two shards aren't made again
    after = {x: (tmp_path / "cut" / x).stat().st_mtime_ns for x in before}
    assert before == after
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not place.exists()


def test_a_killed_run_leaves_no_half_written_shard(tmp_path):
    def kill(done):
        if done == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    writing = Writing(max_samples=3)
    child = multiprocessing.get_context("fork").Process(
        target=make_shards,
        args=(Source(make(10)).set(), tmp_path, writing),
        kwargs={"progress": kill},
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not list(tmp_path.glob("*.tar"))
    assert (tmp_path / ".a-train.partial" / "a-train-000002.tar.part").is_file()
    again = Source(make(10))
    make_shards(again.set(), tmp_path, writing)
    assert again.given == [6, 7, 8, 9]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] + [".tar"] * 4
    assert check_shards(tmp_path)["ok"]


def test_a_finished_shard_that_was_changed_is_made_again(tmp_path):
    writing = Writing(max_samples=3)
    with pytest.raises(KeyboardInterrupt):
        make_shards(Source(make(10), stop_at=8).set(), tmp_path, writing)
    with open(tmp_path / ".a-train.partial" / "a-train-000001.tar", "ab") as file:
        file.write(b"x")
    again = Source(make(10))
    make_shards(again.set(), tmp_path, writing)
    assert again.given[0] == 0
    assert check_shards(tmp_path)["ok"]


def test_other_options_start_afresh(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make_shards(Source(make(10), stop_at=8).set(), tmp_path, Writing(max_samples=3))
    again = Source(make(10))
    make_shards(again.set(), tmp_path, Writing(max_samples=2))
    assert again.given == list(range(10))
    assert len(list(tmp_path.glob("*.tar"))) == 5


def test_a_run_that_was_stopped_while_shards_got_their_names(tmp_path, monkeypatch):
    writing = Writing(max_samples=3)
    replace = partial.os.replace

    def stop(source, target):
        if target == tmp_path / "a-train-000002.tar":
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(partial.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        make_shards(Source(make(10)).set(), tmp_path, writing)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.tar"))) == 2
    again = Source(make(10))
    make_shards(again.set(), tmp_path, writing)
    assert again.given == []
    assert check_shards(tmp_path)["samples"] == 10
    assert check_shards(tmp_path)["ok"]


def test_a_set_that_is_whole_is_not_made_again(tmp_path):
    make_shards(Source(make(4)).set(), tmp_path)
    again = Source(make(4))
    (made,) = make_shards(again.set(), tmp_path)
    assert (made.again, again.given) == (False, [])
    (tmp_path / "a-train-000000.tar").write_bytes(b"changed")
    (made,) = make_shards(again.set(), tmp_path)
    assert (made.again, len(again.given)) == (True, 4)


def test_a_divided_set_goes_on_after_an_interruption(tmp_path):
    samples = [{**one, "group": i % 7} for i, one in enumerate(make(60))]
    writing = Writing(group_by="group", val_share=0.4, max_samples=6)
    make_shards(Source(samples).set(), tmp_path / "whole", writing, verifier=Odd())
    with pytest.raises(KeyboardInterrupt):
        make_shards(Source(samples, stop_at=50).set(), tmp_path / "cut", writing, verifier=Odd())
    make_shards(Source(samples).set(), tmp_path / "cut", writing, verifier=Odd())
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
