import json
import sys

import pytest
from published import embedded, jsonl, parquet, picture, text64, tsv
from strict_sets import strict_sets
from table_prompts import fault, prompts

from datamodules.making import Writing, make_shards
from datamodules.shards import ShardIndex
from datamodules.sources.catalogue import Request, source_sets
from datamodules.sources.rows import read_rows


def text_of(prompt):
    return prompt.messages[-1]["content"][-1]["text"]


# parquet


def test_parquet_with_embedded_images(tmp_path):
    path = parquet(
        tmp_path / "a.parquet",
        [
            {"images": [embedded("red")], "problem": "<image>How many?", "answer": "3", "n": 1},
            {
                "images": [embedded("red"), embedded("blue", "JPEG")],
                "problem": "<image><image>Which?",
                "answer": "4",
                "n": 2,
            },
            {"images": [], "problem": "Text?", "answer": "5", "n": 3},
        ],
    )
    one, two, three = prompts("parquet", tmp_path, data=path)
    assert one.images == (picture("red"),)
    assert two.images == (picture("red"), picture("blue", "JPEG"))
    assert [part["type"] for part in two.messages[0]["content"]] == ["image", "image", "text"]
    assert (three.images, three.reference, three.meta) == ((), "5", {"n": 3})
    assert [p.key for p in (one, two, three)] == [
        f"mine-train-000000.tar#00000{i}" for i in (1, 2, 3)
    ]


def test_parquet_columns_are_named_or_found(tmp_path):
    rows = [
        {
            "uid": "q.1",
            "pic": embedded(),
            "ask": "What?",
            "right": "b",
            "ways": ["a", "b"],
            "answer": "no",
        }
    ]
    path = parquet(tmp_path / "a.parquet", rows)
    names = {"id": "uid", "images": "pic", "question": "ask", "answer": "right", "options": "ways"}
    (prompt,) = prompts("parquet", tmp_path, data=path, columns=tuple(names.items()))
    assert (prompt.reference, dict(prompt.options)) == ("B", {"A": "a", "B": "b"})
    assert prompt.key.endswith("#q_1")
    assert prompt.images == (picture(),)
    assert 'field "asked": missing' in fault("parquet", data=path, columns=(("question", "asked"),))
    assert "there are uid, pic, ask" in fault(
        "parquet", data=path, columns=(("question", "asked"),)
    )


def test_several_parquet_files_are_one_set(tmp_path):
    for name, count in (("train-00000-of-00002", 3), ("train-00001-of-00002", 2)):
        rows = [{"question": "Q?", "answer": str(i)} for i in range(count)]
        parquet(tmp_path / "data" / f"{name}.parquet", rows)
    found = prompts("parquet", tmp_path, data=tmp_path)
    assert [prompt.reference for prompt in found] == ["0", "1", "2", "0", "1"]
    assert len({prompt.key for prompt in found}) == 5


def test_parquet_faults(tmp_path, monkeypatch):
    path = parquet(
        tmp_path / "a.parquet",
        [{"image": {"bytes": b"GIF89a", "path": None}, "question": "Q?", "answer": "1"}],
    )
    assert fault("parquet", data=path).startswith(
        f'{path}, row 1, field "image": an image is not a PNG'
    )
    assert "--format png" in fault("parquet", data=path)
    path = parquet(
        tmp_path / "b.parquet",
        [{"image": {"bytes": None, "path": "no.png"}, "question": "Q?", "answer": "1"}],
    )
    assert "can't read" in fault("parquet", data=path)
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and no more")
    assert "can't be read as parquet" in fault("parquet", data=tmp_path / "c.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ModuleNotFoundError, match=r"sapo-vl\[convert\]"):
        list(read_rows(path))


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "a.csv").write_text("a,b")
    assert "one of .parquet, .tsv, .jsonl, .json" in fault("folder", data=tmp_path / "a.csv")


# TSV as VLMEvalKit writes it


def choice(index, **more):
    return {
        "index": index,
        "image": text64(picture("red")),
        "question": 'Which "one"?',
        "A": "left",
        "B": "right",
        "C": "",
        "D": "",
        "answer": "B",
        "hint": "",
        "category": "space",
        **more,
    }


def test_tsv_with_base64_images(tmp_path):
    rows = [
        choice(7),
        choice(8, image="7", C="both", hint="Look."),
        choice(
            9, A="", B="", answer="12", image=str([text64(picture("red")), text64(picture("blue"))])
        ),
    ]
    one, two, three = prompts("tsv", tmp_path, data=tsv(tmp_path / "a.tsv", rows))
    assert one.key.endswith("#7")
    assert (one.reference, dict(one.options)) == ("B", {"A": "left", "B": "right"})
    assert one.images == two.images == (picture("red"),)
    assert dict(two.options) == {"A": "left", "B": "right", "C": "both"}
    assert (one.meta["category"], two.meta["hint"]) == ("space", "Look.")
    assert three.images == (picture("red"), picture("blue"))
    assert (three.reference, dict(three.options)) == ("12", {})
    assert text_of(one) == 'Which "one"?\nA. left\nB. right'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "not base64!" * 20}, 'row 2, field "image": bad base64'),
        ({"image": text64(b"GIF89a" * 20)}, "an image is not a PNG"),
        ({"image": "99"}, "can't read"),
        ({"answer": "E"}, 'row 2, field "answer": .*none of the options'),
        ({"answer": ""}, 'row 2, field "answer"'),
        ({"question": ""}, 'row 2, field "question": missing'),
    ],
)
def test_tsv_faults_name_the_row_and_the_field(tmp_path, change, message):
    import re

    path = tsv(tmp_path / "a.tsv", [choice(1), choice(2, **change)])
    assert re.search(message, fault("tsv", data=path))
    assert fault("tsv", data=path).startswith(f"{path}, row 2")


def test_two_rows_of_one_id(tmp_path):
    (one,) = source_sets("tsv", Request(data=tsv(tmp_path / "a.tsv", [choice(1), choice(1)])))
    with pytest.raises(ValueError, match=r"key '1'\): duplicate_key: .*there twice"):
        make_shards(one, tmp_path / "out")


# JSON


def test_json_in_its_forms(tmp_path):
    path = tmp_path / "a.json"
    row = {"question": "Q?", "answer": "1"}
    for text in (
        json.dumps([row, row]),
        json.dumps({"info": {"a": 1}, "questions": [row, row]}),
        json.dumps({"1": row, "2": row}),
        json.dumps(row) + "\n" + json.dumps(row) + "\n",
    ):
        path.write_text(text)
        ((_, samples),) = strict_sets("folder", Request(data=path))
        assert [sample["question"] for sample in samples] == ["Q?", "Q?"]
    path.write_text("[1")
    assert "is no JSON" in fault("folder", data=path)
    path.write_text("[1]")
    assert "entry 1, field" in fault("folder", data=path)
    path.write_text("3")
    assert "list of objects" in fault("folder", data=path)


def test_image_root(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "1.png").write_bytes(picture())
    path = jsonl(tmp_path / "a.jsonl", [{"question": "Q?", "answer": "1", "image": "1.png"}])
    (prompt,) = prompts("folder", tmp_path, data=path, image_root=tmp_path / "pictures")
    assert prompt.images == (picture(),)
    assert "--image-root" in fault("folder", data=path)


def test_values_json_cannot_hold(tmp_path):
    import datetime

    rows = [
        {
            "question": "Q?",
            "answer": "1",
            "when": datetime.date(2026, 1, 2),
            "score": float("nan"),
            "raw": b"x",
        }
    ]
    (prompt,) = prompts("parquet", tmp_path, data=parquet(tmp_path / "a.parquet", rows))
    assert prompt.meta == {"when": "2026-01-02", "score": None, "raw": None}


def test_videos_go_along(tmp_path):
    film = b"\x00\x00\x00\x18ftypmp42 and so on"
    (tmp_path / "1.mp4").write_bytes(film)
    row = {"question": "<video>Which falls?", "answer": "red", "video": "1.mp4", "fps": 1}
    path = jsonl(tmp_path / "a.jsonl", [row])
    (prompt,) = prompts("folder", tmp_path, data=path)
    assert (prompt.videos, prompt.images) == ((film,), ())
    (one,) = source_sets("folder", Request(name="shuffled", data=path))
    (made,) = make_shards(one, tmp_path / "out", Writing(shuffle=True))
    assert ShardIndex(str(made.paths[0])).read(0)["mp4"] == film
    (tmp_path / "1.mp4").write_bytes(b"no film")
    assert "no mp4" in fault("folder", data=path)
