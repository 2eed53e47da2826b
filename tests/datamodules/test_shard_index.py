import io
import json
import pickle
import tarfile

import pytest
import webdataset
from shard_files import make, pack, picture, row
from torch.utils.data import DataLoader, Dataset

from datamodules.shards import ShardIndex, expand_shards, write_shards


def whys(problems):
    return [problem.why for problem in problems]


def test_webdataset_and_the_index_see_the_same_samples(tmp_path):
    samples = make(4)
    samples[1]["images"] = [picture("blue"), picture("green", "JPEG")]
    samples[2]["images"] = []
    samples[3]["key"] = "k" * 150
    paths = [str(path) for path in write_shards(samples, tmp_path, "a", max_samples=3)]
    index = ShardIndex(paths)
    assert index.problems == []
    assert index.keys[:2] == ["a-000000.tar#0000", "a-000000.tar#0001"]
    seen = list(webdataset.WebDataset(paths, shardshuffle=False, empty_check=False))
    assert len(seen) == len(index) == 4
    for i, sample in enumerate(seen):
        theirs = {name: data for name, data in sample.items() if not name.startswith("__")}
        assert index.read(i) == theirs
        assert index.keys[i].endswith(f"#{sample['__key__']}")
    assert list(index.read(1)) == ["0.png", "1.jpg", "json"]


def test_patterns(tmp_path):
    paths = [str(path) for path in write_shards(make(4), tmp_path, "a", max_samples=1)]
    assert expand_shards(f"{tmp_path}/a-*.tar") == paths
    assert expand_shards(f"{tmp_path}/a-{{000001..000002}}.tar") == paths[1:3]
    assert expand_shards([paths[2], f"{tmp_path}/a-00000[0-2].tar"]) == [paths[2], *paths[:2]]
    odd = tmp_path / "b{1"
    odd.write_bytes(b"")
    assert expand_shards(str(odd)) == [str(odd)]


@pytest.mark.parametrize("pattern", ["no-*.tar", "a-{000000..000001}.tar", ""])
def test_a_pattern_that_finds_nothing_names_itself(tmp_path, monkeypatch, pattern):
    monkeypatch.chdir(tmp_path)
    write_shards(make(1), ".", "a")
    with pytest.raises(FileNotFoundError, match="make_shards") as caught:
        expand_shards(pattern)
    assert pattern in str(caught.value)


def test_no_pattern_and_a_folder_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="at least one"):
        expand_shards([])
    with pytest.raises(FileNotFoundError, match="is a folder"):
        expand_shards(str(tmp_path))


def test_grouping_follows_webdataset(tmp_path):
    members = [
        ("README", b"x"),
        ("__meta__/x.json", b"x"),
        ("d/a.JSON", row()),
        ("d/a.0.PNG", b"0"),
        ("d/.hidden", b"x"),
        ("d/a.1.png", b"1"),
        ("v1.5_x.json", row()),
    ]
    index = ShardIndex(pack(tmp_path / "s.tar", members))
    assert index.keys == ["s.tar#d/a"]
    assert index.read(0) == {"json": row(), "0.png": b"0", "1.png": b"1"}
    assert [(p.why, p.where) for p in index.problems] == [("missing_json", "s.tar#v1")]


def test_duplicates_and_missing_json_are_left_out(tmp_path):
    members = [
        ("a.json", row("1")),
        ("b.png", b"x"),
        ("c.json", row("3")),
        ("c.json", row("4")),
        ("a.png", b"late"),
        ("d.json", row("5")),
    ]
    index = ShardIndex(pack(tmp_path / "s.tar", members))
    assert index.keys == ["s.tar#a", "s.tar#d"]
    assert sorted(whys(index.problems)) == ["duplicate_key", "duplicate_key", "missing_json"]
    assert any("side by side" in problem.detail for problem in index.problems)


def test_a_link_in_place_of_an_image_is_no_text_only_sample(tmp_path):
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("a", "b"):
            info = tarfile.TarInfo(f"{name}.json")
            info.size = len(row())
            tar.addfile(info, io.BytesIO(row()))
        link = tarfile.TarInfo("b.png")
        link.type, link.linkname = tarfile.LNKTYPE, "a.png"
        tar.addfile(link)
    index = ShardIndex(str(path))
    assert index.keys == ["s.tar#a"]
    assert whys(index.problems) == ["unknown_media"]


FOUR = [
    (f"{key}.{kind}", row() if kind == "json" else b"x" * 700)
    for key in "abcd"
    for kind in ("json", "png")
]
SAMPLE = 1024 + 1536  # bytes of one sample in the tar


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        (2 * SAMPLE + 100, ["a"]),  # inside the third sample's first header
        (2 * SAMPLE + 1024, ["a", "b"]),  # between the third sample's json and its image
        (2 * SAMPLE + 1024 + 600, ["a", "b"]),  # inside the image
        (3 * SAMPLE, ["a", "b"]),  # between two samples: the third can't be proved whole
    ],
)
def test_a_cut_shard_keeps_the_samples_before_the_cut(tmp_path, size, kept):
    path = pack(tmp_path / "s.tar", FOUR)
    with open(path, "r+b") as file:
        file.truncate(size)
    index = ShardIndex(path)
    assert index.keys == [f"s.tar#{key}" for key in kept]
    assert whys(index.problems) == ["damaged_shard"]
    assert "left out" in index.problems[0].detail


def test_garbage_over_a_header_keeps_the_samples_before_it(tmp_path):
    path = pack(tmp_path / "s.tar", FOUR)
    with open(path, "r+b") as file:
        file.seek(2 * SAMPLE)
        file.write(bytes(range(256)) * 2)
    index = ShardIndex(path)
    assert index.keys == ["s.tar#a"]
    assert "invalid" in index.problems[0].detail


def test_an_empty_file_is_a_problem_and_alone_an_error(tmp_path):
    good = pack(tmp_path / "good.tar", FOUR)
    (tmp_path / "bad.tar").write_bytes(b"")
    index = ShardIndex([str(tmp_path / "bad.tar"), good])
    assert len(index) == 4
    assert [(p.why, p.where) for p in index.problems] == [("damaged_shard", "bad.tar")]
    with pytest.raises(ValueError, match=r"bad\.tar.*empty"):
        ShardIndex(str(tmp_path / "bad.tar"))


def test_shards_without_a_sample_or_compressed_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"s\.tar.*missing_json"):
        ShardIndex(pack(tmp_path / "s.tar", [("a.png", b"x")]))
    with pytest.raises(ValueError, match=r"e\.tar"):
        ShardIndex(pack(tmp_path / "e.tar", []))
    with tarfile.open(tmp_path / "z.tar", "w:gz"):
        pass
    with pytest.raises(ValueError, match="gzip"):
        ShardIndex(str(tmp_path / "z.tar"))


def test_keys_stay_unique_when_two_folders_hold_a_shard_of_one_name(tmp_path):
    paths = [str(write_shards(make(1), tmp_path / place, "a")[0]) for place in "xy"]
    assert len(set(ShardIndex(paths).keys)) == 2


def test_a_shard_that_shrank_is_an_error_at_reading(tmp_path):
    path = pack(tmp_path / "s.tar", FOUR)
    index = ShardIndex(path)
    with open(path, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match=r"s\.tar#d: the shard .* was changed"):
        index.read(3)


class Answers(Dataset):
    def __init__(self, index):
        self.index = index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        return json.loads(self.index.read(i)["json"])["answer"]


def test_the_index_is_read_by_workers_and_pickled(tmp_path):
    write_shards(make(20), tmp_path, "a", max_samples=7)
    index = ShardIndex(expand_shards(f"{tmp_path}/a-*.tar"))
    index.read(0)
    copy = pickle.loads(pickle.dumps(index))
    assert copy.read(19) == index.read(19)
    loader = DataLoader(Answers(copy), batch_size=None, num_workers=2)
    assert list(loader) == [str(i) for i in range(20)]


def test_a_shard_that_was_replaced_is_an_error_even_at_the_same_size(tmp_path):
    path = pack(tmp_path / "a.tar", [("x.json", row("1"))])
    index = ShardIndex(path)
    assert index.read(0)["json"] == row("1")
    pack(tmp_path / "b.tar", [("x.json", row("2"))])
    (tmp_path / "b.tar").replace(path)
    with pytest.raises(OSError, match=r"a\.tar#x: the shard .*a\.tar was changed since this run"):
        index.read(0)


def test_one_file_under_two_names_counts_once(tmp_path, monkeypatch):
    path = pack(tmp_path / "a.tar", [("x.json", row())])
    (tmp_path / "link.tar").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for patterns in (["a.tar", "./a.tar"], [path, "a.tar"], "*.tar", ["{a,a}.tar", "link.tar"]):
        assert len(expand_shards(patterns)) == 1, patterns
