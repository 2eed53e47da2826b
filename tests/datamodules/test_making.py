import json

import pytest
from counted_source import Odd, Source, read_all
from published import picture
from shard_files import make

from datamodules.making import Writing, make_shards, split_of_group
from datamodules.recode import Recode
from datamodules.shards import check_shards
from datamodules.sources.table import Refusal


def test_shuffling_is_a_seeded_permutation(tmp_path):
    orders = {}
    for seed in (0, 1):
        for run in "ab":
            out = tmp_path / f"{seed}{run}"
            make_shards(Source(make(20)).set(), out, Writing(shuffle=True, seed=seed))
            orders[seed, run] = [key.split("#")[1] for key, _ in read_all(out)]
    assert orders[0, "a"] == orders[0, "b"] != orders[1, "a"]
    assert sorted(orders[0, "a"]) == sorted(orders[1, "a"]) == [f"{i:04d}" for i in range(20)]
    assert orders[0, "a"] != sorted(orders[0, "a"])
    assert dict(json.loads(read_all(tmp_path / "0a")[0][1]["json"]))["question"] == "Q?"


def test_variants_of_one_problem_never_cross_train_and_val(tmp_path):
    samples = [{**one, "meta": {"seed": i // 4}} for i, one in enumerate(make(200))]
    writing = Writing(group_by="meta.seed", val_share=0.3, max_samples=20)
    train, val = make_shards(Source(samples).set(), tmp_path, writing)
    groups = {
        name: {json.loads(fields["json"])["meta"]["seed"] for _, fields in read_all(tmp_path, name)}
        for name in ("a-train", "a-val")
    }
    assert not groups["a-train"] & groups["a-val"]
    assert groups["a-train"] | groups["a-val"] == set(range(50))
    assert 5 < len(groups["a-val"]) < 25
    assert train.manifest["samples"] + val.manifest["samples"] == 200
    assert check_shards(tmp_path)["ok"]

    # Another order, another seed and more samples leave every group where it is.
    more = Source([*reversed(samples), {**make(201)[200], "meta": {"seed": 3}}])
    again = Writing(group_by="meta.seed", val_share=0.3, shuffle=True, seed=5)
    make_shards(more.set(), tmp_path / "b", again)
    for name, expected in groups.items():
        found = read_all(tmp_path / "b", name)
        assert {json.loads(fields["json"])["meta"]["seed"] for _, fields in found} == expected


def test_split_of_group_follows_the_share():
    found = [split_of_group(str(i), 0.2) for i in range(2000)]
    assert found.count("val") / 2000 == pytest.approx(0.2, abs=0.04)
    grown = [split_of_group(str(i), 0.4) for i in range(2000)]
    assert all(b == "val" for a, b in zip(found, grown, strict=True) if a == "val")


def test_references_a_verifier_cannot_use_are_left_out_and_listed(tmp_path):
    rule = Odd()
    (made,) = make_shards(Source(make(6)).set(), tmp_path, verifier=rule, verifier_name="odd")
    assert [key.split("#")[1] for key, _ in read_all(tmp_path)] == ["0000", "0002", "0004"]
    refused = made.manifest["refused"]
    assert refused["why"] == {"unusable_reference": 3}
    assert refused["listed"][0] == {
        "why": "unusable_reference",
        "where": "a-train, sample 1 (key '0001')",
        "detail": "1 is odd",
    }
    assert made.manifest["options"]["verifier"] == "odd"
    assert rule.checked == [str(i) for i in range(6)]


BAD = [
    (Refusal(why="bad_image", where='x.jsonl, line 2, field "image"', detail="no"), "bad_image"),
    ({**make(1)[0], "key": "a.b"}, "bad_sample"),
    ({**make(1)[0], "key": "0000"}, "duplicate_key"),
    ({**make(2)[1], "answer": None}, "missing_answer"),
    ({**make(2)[1], "images": [b"GIF89a"]}, "bad_sample"),
    ({**make(2)[1], "level": float("nan")}, "bad_sample"),
    ({**make(2)[1], "question": "<image1> <image2>"}, "image_count"),
]


@pytest.mark.parametrize(
    ("item", "why"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bad_rows_stop_the_run_or_are_listed(tmp_path, item, why):
    samples = [*make(1), item, make(4)[3]]
    with pytest.raises(ValueError, match=r"x\.jsonl, line 2|a-train, sample 1 \(key"):
        make_shards(Source(samples).set(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    (made,) = make_shards(Source(samples).set(), tmp_path, Writing(skip_bad=True))
    assert made.manifest["samples"] == 2
    assert made.manifest["refused"]["why"] == {why: 1}


def test_what_a_set_itself_leaves_out_never_stops_a_run(tmp_path):
    left = Refusal(why="not_wanted", where="x", detail="no count", always=True)
    (made,) = make_shards(Source([left, *make(1)]).set(), tmp_path)
    assert made.manifest["refused"]["why"] == {"not_wanted": 1}


def test_the_manifest_says_what_is_there(tmp_path):
    samples = [{**one, "kind": "xy"[i % 2]} for i, one in enumerate(make(4))]
    (made,) = make_shards(
        Source(samples).set(by="kind", evaluation_only=True, origin="there"), tmp_path
    )
    manifest = json.loads((tmp_path / "a-train-manifest.json").read_text())
    assert manifest == json.loads(json.dumps(made.manifest))
    assert manifest["counts"] == {"kind": {"x": 2, "y": 2}}
    assert (manifest["licence"], manifest["evaluation_only"]) == ("MIT", True)
    assert manifest["source"] == {"name": "a", "origin": "there"}
    assert manifest["image_sides_up_to"] == {"8": 4}
    assert manifest["options"]["max_samples"] == 10_000
    assert check_shards(tmp_path)["evaluation_only"] == ["a-train"]


def test_images_are_re_encoded_on_the_way(tmp_path):
    writing = Writing(recode=Recode(max_side=4, format="webp"))
    make_shards(Source(make(2)).set(), tmp_path, writing)
    assert all(set(fields) == {"json", "webp"} for _, fields in read_all(tmp_path))
    assert check_shards(tmp_path)["summary"]["largest_image"] == [4, 4]
    assert picture() not in [fields["webp"] for _, fields in read_all(tmp_path)]


def test_bad_requests(tmp_path):
    with pytest.raises(ValueError, match="--group-by FIELD"):
        make_shards(Source(make(2)).set(), tmp_path, Writing(val_share=0.5))
    with pytest.raises(ValueError, match='no field "puzzle" to group by'):
        make_shards(Source(make(2)).set(group="puzzle"), tmp_path, Writing(val_share=0.5))
    with pytest.raises(ValueError, match=r"--val-share 0\.1"):
        Writing(group_by="x")
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        Writing(val_share=1.0)
    with pytest.raises(ValueError, match=r"a-val: the source gave no sample"):
        make_shards(Source(make(1)).set(group="key"), tmp_path, Writing(val_share=1e-9))
    with pytest.raises(ValueError, match=r"no sample.*the first refusal: a-train"):
        make_shards(Source(make(2)[1:]).set(), tmp_path, verifier=Odd())
