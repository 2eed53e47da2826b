import hashlib
import json

import pytest
from clips import clip
from shard_files import make

from datamodules.shards import ShardIndex, check_shards, write_shards


def test_shards_roll_over_and_are_counted(tmp_path):
    paths = write_shards(make(5), tmp_path / "new", "count-train", max_samples=2)
    assert [path.name for path in paths] == [f"count-train-00000{i}.tar" for i in range(3)]
    manifest = json.loads((tmp_path / "new" / "count-train-manifest.json").read_text())
    assert (manifest["name"], manifest["samples"], manifest["images"]) == ("count-train", 5, 5)
    assert list(manifest["shards"]) == [path.name for path in paths]
    assert [shard["samples"] for shard in manifest["shards"].values()] == [2, 2, 1]
    for path, shard in zip(paths, manifest["shards"].values(), strict=True):
        assert shard["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert shard["bytes"] == path.stat().st_size
    assert sorted(path.suffix for path in (tmp_path / "new").iterdir()) == [".json"] + [".tar"] * 3


def test_a_shard_closes_before_it_passes_max_bytes(tmp_path):
    paths = write_shards(make(6), tmp_path, "a", max_bytes=5000)
    assert len(paths) == 3  # a sample is four 512-byte blocks
    assert all(path.stat().st_size <= 10240 for path in paths)


def test_same_samples_same_bytes(tmp_path):
    one = write_shards(make(5, scene=[{"é": 1}]), tmp_path / "1", "a", max_samples=3)
    two = write_shards(make(5, scene=[{"é": 1}]), tmp_path / "2", "a", max_samples=3)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_writing_again_leaves_no_old_shard(tmp_path):
    write_shards(make(5), tmp_path, "a", max_samples=1)
    (tmp_path / "a-b-000000.tar").write_bytes(b"")
    write_shards(make(1), tmp_path, "a", max_samples=1)
    assert sorted(path.name for path in tmp_path.glob("*.tar")) == [
        "a-000000.tar",
        "a-b-000000.tar",
    ]


def test_a_failed_write_leaves_the_old_shards(tmp_path):
    write_shards(make(2), tmp_path, "a")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="there twice"):
        write_shards(make(2) + make(1), tmp_path, "a")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("key", ["v1.5", "a/b", "", "__x__", "a b", None, 3])
def test_keys_that_webdataset_would_cut_are_refused(tmp_path, key):
    with pytest.raises(ValueError, match=r"sample 0 \(key .*\): the key"):
        write_shards([{**make(1)[0], "key": key}], tmp_path, "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": None}, "missing_answer"),
        ({"question": "<image1> <image2>"}, "image_count"),
        ({"images": [b"GIF89a"]}, "convert it to PNG"),
        ({"level": float("nan")}, "JSON"),
        ({"level": {1, 2}}, "set"),
    ],
)
def test_samples_that_could_not_be_read_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=rf"a, sample 0 \(key '0000'\): .*{message}"):
        write_shards([{**make(1)[0], **change}], tmp_path, "a")


def test_bad_arguments_of_the_writer(tmp_path):
    with pytest.raises(ValueError, match="shard name"):
        write_shards(make(1), tmp_path, "../a")
    with pytest.raises(ValueError, match="no sample"):
        write_shards([], tmp_path, "a")
    with pytest.raises(ValueError, match="max_samples"):
        write_shards(make(1), tmp_path, "a", max_samples=0)


def test_videos_are_written_counted_and_checked(tmp_path):
    film, other = clip(frames=4), clip(frames=6)
    samples = [
        {"key": "a", "question": "Q?", "answer": "1", "videos": [film], "fps": 1},
        {"key": "b", "question": "Q?", "answer": "1", "videos": [film, other]},
        {**make(1)[0], "key": "c", "videos": [other]},
    ]
    index = ShardIndex([str(path) for path in write_shards(samples, tmp_path, "v")])
    assert [set(index.read(i)) for i in range(3)] == [
        {"json", "mp4"},
        {"json", "0.mp4", "1.mp4"},
        {"json", "png", "mp4"},
    ]
    assert index.read(1)["1.mp4"] == other
    report = check_shards(tmp_path)
    assert (report["ok"], report["samples"], report["videos"], report["images"]) == (True, 3, 4, 1)
    assert json.loads((tmp_path / "v-manifest.json").read_text())["videos"] == 4
    with pytest.raises(ValueError, match=r"key 'x'.*video 0 is no mp4"):
        write_shards([{**samples[0], "key": "x", "videos": [b"GIF89a"]}], tmp_path / "bad", "v")
