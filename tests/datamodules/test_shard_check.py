import json

import pytest
from clips import clip
from shard_files import make, pack, picture, row

from datamodules.shard_check import summary_lines
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
    assert report["shards"][0]["counts"] == {"count": 1, "hash": 1}
    assert report["problems"] == 3


def test_the_check_compares_hashes(tmp_path):
    _, second = write_shards(make(4), tmp_path, "a", max_samples=2)
    report = check_shards(tmp_path)
    assert (report["hashes"], [shard["hash"] for shard in report["shards"]]) == (2, ["ok", "ok"])
    data = bytearray(second.read_bytes())
    data[data.index(b"Q?")] ^= 1  # still readable: nothing but the hash can tell
    second.write_bytes(data)
    report = check_shards(tmp_path)
    assert (report["ok"], report["hashes"], report["samples"]) == (False, 1, 4)
    assert report["shards"][1]["hash"] == "differs"
    assert report["shards"][1]["counts"] == {"hash": 1}

    pack(tmp_path / "a-000007.tar", [("x.json", row())])
    assert "delete it" in check_shards(tmp_path)["shards"][2]["problems"][0]["detail"]
    (tmp_path / "a-manifest.json").write_text("{")
    report = check_shards(tmp_path)
    assert report["shards"][0]["counts"] == {"manifest": 1}
    assert "no manifest" in report["shards"][0]["problems"][0]["detail"]


def test_shards_of_an_older_version_are_checked_by_their_counts(tmp_path):
    (path,) = write_shards(make(2), tmp_path, "a")
    (tmp_path / "a-manifest.json").unlink()
    (tmp_path / "a-shards.json").write_text(json.dumps({"name": "a", "shards": {path.name: 2}}))
    report = check_shards(tmp_path)
    assert (report["ok"], report["shards"][0]["hash"]) == (True, "unknown")


def test_the_check_summarises(tmp_path):
    write_shards([*make(3), {**make(4)[3], "options": ["a", "b"], "answer": "A"}], tmp_path, "a")
    summary = check_shards(tmp_path)["summary"]
    assert summary["answers"]["with_options"] == 1
    assert summary["answers"]["commonest"] == {"0": 1, "1": 1, "2": 1, "A": 1}
    assert summary["image_sides_up_to"] == {"8": 4}
    assert summary["smallest_image"] == summary["largest_image"] == [8, 8]
    assert "<= 8: 4" in "\n".join(summary_lines(summary))


def test_an_empty_folder_cannot_be_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no \.tar"):
        check_shards(tmp_path)


def test_videos_are_decoded(tmp_path):
    film = clip(frames=4)
    members = [("a.json", row()), ("a.mp4", film), ("b.json", row()), ("b.mp4", film[:-50])]
    pack(tmp_path / "s-000000.tar", members)
    report = check_shards(tmp_path)
    assert (report["samples"], report["problems"]) == (1, 1)
    assert report["shards"][0]["problems"][0]["why"] == "undecodable_media"
