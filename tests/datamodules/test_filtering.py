import json

import pytest
from published import jsonl
from shard_files import make

from datamodules.filtering import PassFilter, filter_shards
from datamodules.samples import read_sample
from datamodules.shards import ShardIndex, check_shards, write_shards
from sapo_vl.callbacks.records import answers_record
from sapo_vl.types import Answers, Verdict

PASSES = {"0000": (0, 4), "0001": (1, 4), "0002": (2, 4), "0003": (4, 4)}  # 0004 has no answers


def record(key, right, n, sampling="avg4", **response):
    scores = [1.0] * right + [0.0] * (n - right)
    responses = [{"text": "t", "score": score, "status": "ok", **response} for score in scores]
    return {"key": key, "task": "a", "sampling": sampling, "responses": responses}


def answers_of(tmp_path, label="a-train-00000{}.tar", **more):
    rows = [
        record(f"{label.format(int(key) // 2)}#{key}", *counts) for key, counts in PASSES.items()
    ]
    return jsonl(tmp_path / "answers.jsonl", [*rows, *more.get("rows", [])])


@pytest.fixture
def shards(tmp_path):
    write_shards(make(5), tmp_path / "in", "a-train", max_samples=2)
    return tmp_path / "in"


def read(folder):
    paths = sorted(str(path) for path in folder.glob("*.tar"))
    index = ShardIndex(paths)
    return {key.split("#")[1]: index.read(i) for i, key in enumerate(index.keys)}


def test_what_is_always_or_never_solved_goes(tmp_path, shards):
    report = filter_shards(shards, [answers_of(tmp_path)], tmp_path / "out")
    kept = read(tmp_path / "out")
    assert list(kept) == ["0001", "0002"]
    assert json.loads(kept["0001"]["json"]) == {
        "question": "Q?",
        "answer": "1",
        "pass_rate": 0.25,
        "pass_n": 4,
    }
    assert kept["0001"]["png"] == read(shards)["0001"]["png"]
    assert report["kept"] == 2
    assert report["dropped"] == {"too_easy": 1, "too_hard": 1, "unanswered": 1}
    manifest = json.loads((tmp_path / "out" / "a-train-manifest.json").read_text())
    assert manifest["filter"]["dropped"] == report["dropped"]
    assert manifest["filter"]["answers"] == ["answers.jsonl"]
    assert manifest["refused"]["listed"][0]["detail"] == "pass rate 0.000 of 4"
    assert check_shards(tmp_path / "out")["ok"]
    meta = read_sample(kept["0002"], key="k").meta
    assert (meta["pass_rate"], meta["pass_n"]) == (0.5, 4)


def test_bounds_and_unanswered(tmp_path, shards):
    rule = PassFilter(min_pass=0.0, max_pass=0.25, unanswered="keep")
    report = filter_shards(shards, [answers_of(tmp_path)], tmp_path / "out", rule)
    kept = read(tmp_path / "out")
    assert list(kept) == ["0000", "0001", "0004"]
    assert "pass_rate" not in json.loads(kept["0004"]["json"])
    assert (report["dropped"], report["unanswered_kept"]) == ({"too_easy": 2}, 1)


def test_keys_with_folders_and_unknown_keys(tmp_path, shards):
    path = answers_of(tmp_path, "some/where/a-train-00000{}.tar", rows=[record("b.tar#9", 1, 2)])
    report = filter_shards(shards, [path], tmp_path / "out")
    assert (report["kept"], report["unmatched_answers"]) == (2, 1)
    mixed = answers_of(tmp_path, rows=[record("other/a-train-000000.tar#0001", 1, 2)])
    with pytest.raises(ValueError, match=r"several samples called a-train-000000\.tar#0001"):
        filter_shards(shards, [mixed], tmp_path / "mixed")


def test_lines_of_one_prompt_count_together_and_failures_do_not(tmp_path, shards):
    rows = [
        record("a-train-000000.tar#0000", 1, 4),  # 1 of 8 with the four of PASSES
        record("a-train-000000.tar#0001", 0, 9, status="error"),
        record("a-train-000002.tar#0004", 0, 2, status="unparsable_reference"),
        {"key": "a-train-000001.tar#0002", "sampling": "avg4", "responses": [{"text": "t"}]},
    ]
    filter_shards(shards, [answers_of(tmp_path, rows=rows)], tmp_path / "out")
    kept = {key: json.loads(fields["json"]) for key, fields in read(tmp_path / "out").items()}
    assert {key: (one["pass_rate"], one["pass_n"]) for key, one in kept.items()} == {
        "0000": (0.125, 8),
        "0001": (0.25, 4),
        "0002": (0.5, 4),
    }


def test_one_sampling_is_chosen(tmp_path, shards):
    path = answers_of(tmp_path, rows=[record("a-train-000000.tar#0000", 1, 1, "greedy")])
    with pytest.raises(ValueError, match=r"avg4, greedy.*--sampling NAME"):
        filter_shards(shards, [path], tmp_path / "out")
    report = filter_shards(shards, [path], tmp_path / "out", PassFilter(sampling="avg4"))
    assert report["kept"] == 2
    with pytest.raises(ValueError, match="no answers drawn with 'x'"):
        filter_shards(shards, [path], tmp_path / "out", PassFilter(sampling="x"))


def test_the_lines_an_evaluation_writes(tmp_path, shards):
    index = ShardIndex([str(path) for path in sorted(shards.glob("*.tar"))])
    rows = []
    for i in range(2):
        prompt = read_sample(index.read(i), key=index.keys[i], task="a")
        answers = Answers(
            prompt,
            "avg2",
            texts=("1", "2"),
            verdicts=(Verdict(score=1.0), Verdict(score=float(i))),
            lengths=(1, 1),
            finished=(True, True),
        )
        rows.append(answers_record(answers, tmp_path, "test", 0))
    path = jsonl(tmp_path / "answers.jsonl", rows)
    filter_shards(shards, [path], tmp_path / "out")
    assert list(read(tmp_path / "out")) == ["0000"]


def test_the_licence_stays_with_the_samples(tmp_path, shards):
    path = shards / "a-train-manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "licence": "MIT", "evaluation_only": True}))
    filter_shards(shards, [answers_of(tmp_path)], tmp_path / "out")
    after = json.loads((tmp_path / "out" / "a-train-manifest.json").read_text())
    assert (after["licence"], after["evaluation_only"]) == ("MIT", True)


def test_requests_that_cannot_be_filled(tmp_path, shards):
    answers = answers_of(tmp_path)
    with pytest.raises(ValueError, match="another folder"):
        filter_shards(shards, [answers], shards)
    with pytest.raises(ValueError, match="no sample stays"):
        filter_shards(shards, [answers], tmp_path / "out", PassFilter(min_pass=0.9, max_pass=0.95))
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(ValueError, match="smaller one first"):
        PassFilter(min_pass=0.9, max_pass=0.1)
    (tmp_path / "bad.jsonl").write_text("{\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1: no JSON"):
        filter_shards(shards, [tmp_path / "bad.jsonl"], tmp_path / "out")
    with pytest.raises(ValueError, match=r'line 1: no "key" and "responses"'):
        filter_shards(shards, [jsonl(tmp_path / "bad.jsonl", [{"id": 1}])], tmp_path / "out")


def test_a_set_of_which_nothing_stays_does_not_keep_the_others_from_being_written(tmp_path, shards):
    write_shards(make(2), shards, "b-train")
    rows = [record(f"b-train-000000.tar#000{i}", 4, 4) for i in range(2)]
    report = filter_shards(shards, [answers_of(tmp_path, rows=rows)], tmp_path / "out")
    assert report["empty"] == {"b-train": {"too_easy": 2}}
    assert report["dropped"] == {"too_easy": 3, "too_hard": 1, "unanswered": 1}
    assert list(read(tmp_path / "out")) == ["0001", "0002"]
    assert not list((tmp_path / "out").glob("b-*"))
