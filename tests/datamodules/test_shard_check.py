import json

import pytest
from shard_files import make, pack, picture, row

from datamodules.shards import check_shards, write_shards


def test_a_clean_folder_passes_the_check(tmp_path):
    write_shards(make(3), tmp_path, "a", max_samples=2)
    report = check_shards(tmp_path)
    assert report["ok"]
    assert (report["samples"], report["images"], report["problems"]) == (3, 3, 0)
    assert report == check_shards(str(tmp_path)) == json.loads(json.dumps(report))
    assert check_shards(f"{tmp_path}/a-000000.tar")["samples"] == 2


def test_the_check_finds_each_kind_of_fault(tmp_path):
    jpeg = picture(kind="JPEG")
    members = [
        ("a.json", row()),
        ("a.jpg", jpeg[:-200]),  # cut: PIL's verify alone passes it
        ("b.json", b"{"),
        ("c.json", b'{"question": "Q?"}'),
        ("d.png", picture()),
        ("e.json", row()),
        ("e.png", picture()),
        ("a.json", row()),
    ]
    pack(tmp_path / "s-000000.tar", members)
    (tmp_path / "t-000000.tar").write_bytes(b"no tar at all" * 100)
    report = check_shards(tmp_path)
    assert not report["ok"]
    assert report["shards"][0]["counts"] == {
        "bad_json": 1,
        "duplicate_key": 1,
        "missing_answer": 1,
        "missing_json": 1,
        "undecodable_media": 1,
    }
    assert (report["shards"][0]["samples"], report["shards"][0]["images"]) == (1, 1)
    assert report["shards"][1]["counts"] == {"no_sample": 1}
    assert report["problems"] == 6


def test_the_check_compares_with_what_was_written(tmp_path):
    first, second = write_shards(make(4), tmp_path, "a", max_samples=2)
    second.unlink()
    pack(first, [("x.json", row())])
    report = check_shards(tmp_path)
    assert report["missing_shards"] == ["a-000001.tar"]
    assert report["shards"][0]["counts"] == {"count": 1}
    assert report["problems"] == 2


def test_an_empty_folder_cannot_be_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no \.tar"):
        check_shards(tmp_path)
