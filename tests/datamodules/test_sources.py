import io
import json
import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image
from strict_sets import strict_sets

from datamodules.shards import ShardIndex, check_shards, expand_shards, write_shards
from datamodules.sources import easy_vqa, table
from datamodules.sources.catalogue import SOURCES, Request, locate, source_sets
from datamodules.sources.described import TableSet
from datamodules.sources.public import PUBLIC_SETS

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"


def picture(kind="PNG", mode="RGB"):
    buffer = io.BytesIO()
    Image.new(mode, (8, 8)).save(buffer, kind)
    return buffer.getvalue()


def write_rows(tmp_path, *rows):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def one(tmp_path, row, **described):
    (tmp_path / "1.png").write_bytes(picture())
    path = write_rows(tmp_path, {"question": "Q?", "answer": "3", "image": "1.png", **row})
    (sample,) = table.samples(path, TableSet(name="mine", **described))
    return sample


def test_a_users_own_lines(tmp_path):
    (tmp_path / "photo.png").write_bytes(picture("JPEG"))
    (tmp_path / "clear.png").write_bytes(picture(mode="RGBA"))
    rows = [
        {
            "id": "v1.5/x",
            "question": "<image2> or <image1>?",
            "answer": 2,
            "image": ["photo.png", "clear.png"],
        },
        "",
        {"question": "Text?", "answer": "3", "response": "So 3.", "max_pixels": 99, "level": 1},
    ]
    path = write_rows(tmp_path, *rows)
    shards = write_shards(table.samples(path), tmp_path / "out", "mine")
    index = ShardIndex([str(shard) for shard in shards])
    assert [key.split("#")[1] for key in index.keys] == ["v1_5_x", "000003"]
    assert sorted(index.read(0)) == ["0.jpg", "1.png", "json"]
    assert index.read(0)["1.png"] == picture(mode="RGBA")
    assert json.loads(index.read(0)["json"])["id"] == "v1.5/x"
    assert json.loads(index.read(1)["json"]) == rows[2]


@pytest.mark.parametrize(
    ("answer", "options", "form", "label"),
    [
        ("4", [6, 4], "auto", "B"),
        ("B", ["6", "4"], "auto", "B"),
        (" blue", ["red", "Blue"], "text", "B"),
        ("b", ["B", "b"], "text", "B"),
        ("A", ["B", "A"], "text", "B"),
        ("A", ["B", "A"], "label", "A"),
        ("A", ["A", "B"], "auto", "A"),
        ("yes", {"1": "yes", "2": "no"}, "text", "1"),
        ("12", [], "label", "12"),
    ],
)
def test_the_answer_of_a_choice_is_its_label(tmp_path, answer, options, form, label):
    assert one(tmp_path, {"answer": answer, "options": options}, answers=form)["answer"] == label


@pytest.mark.parametrize(
    ("row", "field", "mend"),
    [
        ({"answer": "A", "options": ["B", "A"]}, "answer", "several of the options"),
        ({"answer": "7", "options": ["6", "4"]}, "answer", "none of the options"),
        ({"answer": "6", "options": ["6", "6"]}, "answer", "several"),
        ({"answer": None}, "answer", "as a text"),
        ({"options": "AB"}, "options", "list of texts"),
        ({"image": "2.png"}, "image", "relative to the JSONL file"),
        ({"image": {"name": "1.png"}}, "image", "a path or a list"),
        ({"image": 3}, "image", "a path or a list"),
        ({"image": {"path": "2.png"}}, "image", "relative to the JSONL file"),
        ({"image": "samples.jsonl"}, "image", "convert it to PNG"),
        ({"question": None}, "question", "write a text"),
    ],
)
def test_errors_name_file_line_field_and_mend(tmp_path, row, field, mend):
    (tmp_path / "1.png").write_bytes(picture())
    good = {"question": "Q?", "answer": "3", "image": "1.png"}
    bad = {name: value for name, value in {**good, **row}.items() if value is not None}
    path = write_rows(tmp_path, good, bad)
    with pytest.raises(ValueError, match=rf'samples\.jsonl, line 2, field "{field}": .*{mend}'):
        list(table.samples(path))


def test_a_broken_line_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"line 1.*one object a line"):
        list(table.samples(write_rows(tmp_path, "{")))
    with pytest.raises(ValueError, match=r"line 1.*one object a line"):
        list(table.samples(write_rows(tmp_path, "[3]")))


def test_ids_that_fall_together_are_an_error(tmp_path):
    rows = [{"id": name, "question": "Q?", "answer": "3"} for name in ("a.b", "a_b")]
    with pytest.raises(ValueError, match=r"a_b.*there twice"):
        write_shards(table.samples(write_rows(tmp_path, *rows)), tmp_path, "mine")


def test_locate(tmp_path):
    path = write_rows(tmp_path, "{}")
    assert locate(path) == locate(tmp_path) == (path,)
    assert locate(tmp_path.parent, tmp_path.name) == (path,)
    assert locate(f"{tmp_path}/*.jsonl") == (path,)
    with pytest.raises(FileNotFoundError, match=r"samples\.jsonl"):
        locate(tmp_path / "no", "x")


def test_locate_takes_the_files_of_the_split(tmp_path):
    names = ["train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"]
    (tmp_path / "data").mkdir()
    for name in names:
        (tmp_path / "data" / f"{name}.parquet").touch()
    assert [path.stem for path in locate(tmp_path, "x", "train")] == names[:2]
    assert [path.stem for path in locate(tmp_path, "x", "val")] == names[2:]
    with pytest.raises(FileNotFoundError, match="a glob"):
        locate(tmp_path, "x", "test")
    (tmp_path / "x_test.tsv").touch()
    assert [path.name for path in locate(tmp_path, "x", "test")] == ["x_test.tsv"]


PREPARED = [one for one in PUBLIC_SETS if (DATA / one.name / "samples.jsonl").is_file()]


@pytest.mark.parametrize("described", PREPARED, ids=lambda described: described.name)
def test_public_sets_become_clean_shards(tmp_path, described):
    ((name, samples),) = strict_sets(described.name, Request(data=DATA, count=60))
    samples = list(samples)
    assert name == f"{described.name}-{described.split}"
    assert len(samples) == 60
    for sample in samples:
        if sample.get("options"):
            assert sample["answer"] in "ABCDE"[: len(sample["options"])]
    write_shards(samples, tmp_path, name)
    report = check_shards(tmp_path)
    assert report["ok"], report["shards"][0]["problems"][:3]
    assert report["samples"] == 60


def test_every_line_of_the_public_sets_has_its_label():
    if not DATA.is_dir():
        pytest.skip("the prepared sets are not beside this checkout")
    for described in PREPARED:
        (path,) = locate(DATA, described.name)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        samples = list(table.samples(path, described))
        assert len(samples) == len(rows)
        for row, sample in zip(rows, samples, strict=True):
            if row.get("options") and described.answers == "text":
                assert str(row["options"]["ABCDE".index(sample["answer"])]) == row["answer"]
            else:
                assert sample["answer"] == row["answer"]


def test_easy_vqa_splits_share_no_image():
    pytest.importorskip("easy_vqa", reason="the package easy-vqa is not installed")
    images = {}
    for split, count in (("train", 38575), ("val", 4847), ("test", 4826)):
        names = [sample["image"] for sample in easy_vqa.samples(split)]
        assert len(names) == count
        images[split] = set(names)
    assert not images["val"] & images["test"]
    assert len(images["val"] | images["test"]) == 1000
    assert all(name.startswith("train/") for name in images["train"])
    with pytest.raises(ValueError, match="train, val, test"):
        next(easy_vqa.samples("dev"))


def test_easy_vqa_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "easy_vqa", None)
    with pytest.raises(ModuleNotFoundError, match="pip install easy-vqa"):
        next(easy_vqa.samples("train"))


def test_requests_that_cannot_be_filled():
    with pytest.raises(ValueError, match="figures, easy_vqa, folder"):
        source_sets("flickr", Request())
    with pytest.raises(ValueError, match="--data"):
        list(source_sets("nlvr", Request()))
    with pytest.raises(ValueError, match="one split"):
        list(source_sets("nlvr", Request(data=DATA, splits=("train", "val"))))
    assert {
        "figures",
        "easy_vqa",
        "folder",
        "puzzlevqa",
        "algopuzzlevqa",
        "nlvr",
        "mathvision",
    } <= set(SOURCES)


def test_the_script_makes_and_checks(tmp_path, capsys):
    main = runpy.run_path(str(ROOT / "scripts" / "make_shards.py"))["main"]
    out = tmp_path / "out"
    figures = ["figures", "--tasks", "count_colour", "--split", "train,val", "--count", "3"]
    assert main([*figures, str(out)]) == 0
    assert "count_colour-val-000000.tar: 3 samples" in capsys.readouterr().out
    assert len(ShardIndex(expand_shards(f"{out}/count_colour-train-*.tar"))) == 3
    assert main(["--check", str(out)]) == 0

    with open(out / "count_colour-train-000000.tar", "r+b") as file:
        file.truncate(2000)
    assert main(["--check", str(out), "--json", str(tmp_path / "report.json")]) == 1
    assert "damaged_shard" in capsys.readouterr().out
    assert not json.loads((tmp_path / "report.json").read_text())["ok"]

    assert main(["nlvr", str(out)]) == 1
    assert "--data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["figures"])
