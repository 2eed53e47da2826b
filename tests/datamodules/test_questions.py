from __future__ import annotations

import json

import pytest
from clips import clip
from pictures import encode, noise, png
from PIL import Image

from datamodules.questions import QuestionDataset


@pytest.fixture
def questions(tmp_path, encoder):
    """Make the dataset of a file with these rows or lines, beside a.png and b.jpg."""
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.jpg").write_bytes(encode(noise((32, 32)), "JPEG"))

    def make(*rows):
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path = tmp_path / "q.jsonl"
        path.write_bytes(b"\n".join(lines))
        return QuestionDataset(path, encoder)

    return make


def test_a_question_without_an_answer(questions):
    item = questions({"id": "x", "question": "How many?", "images": ["a.png"]})[0]
    assert (item.prompt.key, item.prompt.task, item.prompt.index) == ("x", "questions", 0)
    assert item.prompt.reference == ""
    assert item.prompt.verifier is None
    assert item.inputs.media["image_grid_thw"].tolist() == [[1, 8, 8]]


@pytest.mark.parametrize(
    ("answer", "reference"), [("3", "3"), (3, "3"), (0, "0"), (None, ""), ("", "")]
)
def test_answers(questions, answer, reference):
    item = questions({"question": "Q?", "answer": answer})[0]
    assert item.prompt.reference == reference


def test_images_lie_beside_the_file_and_keep_their_order(questions, tmp_path):
    names = ["sub/b.jpg", str(tmp_path / "a.png")]
    item = questions({"question": "Q?", "images": names})[0]
    assert item.inputs.media["image_grid_thw"].tolist() == [[1, 4, 4], [1, 8, 8]]


def test_lines(questions):
    dataset = questions(
        b'\xef\xbb\xbf{"question": "first"}\r',
        b"",
        '{"question": "one\u2028line\u0085only"}'.encode(),
        {"question": "Welche Färbung?", "options": ["rot", "grün"], "level": 3},
    )
    assert len(dataset) == 3
    prompts = [dataset[i].prompt for i in range(3)]
    assert [prompt.key for prompt in prompts] == ["0", "1", "2"]
    assert prompts[1].messages[0]["content"][0]["text"] == "one\u2028line\u0085only"
    assert prompts[2].options == {"A": "rot", "B": "grün"}
    assert prompts[2].meta == {"level": 3}


@pytest.mark.parametrize("line", [b"{", b"[1]", b"3", b'{"question": "\xff"}', b"[" * 100_000])
def test_a_bad_line_is_named(questions, line):
    with pytest.raises(ValueError, match=r"q\.jsonl, line 2: (no JSON|.*not an object)"):
        questions({"question": "Q?"}, line)


def test_no_file_and_no_question(questions, tmp_path, encoder):
    with pytest.raises(FileNotFoundError, match=r"data\.questions: no file .*none\.jsonl"):
        QuestionDataset(tmp_path / "none.jsonl", encoder)
    with pytest.raises(ValueError, match=r"q\.jsonl holds no question"):
        questions(b"", b"  ")


@pytest.mark.parametrize(
    ("row", "why", "detail"),
    [
        ({"images": ["none.png"]}, "undecodable_media", "none.png"),
        ({"images": ["."]}, "undecodable_media", "directory"),
        ({"images": ["q.jsonl"]}, "undecodable_media", "not a PNG, JPEG or WebP"),
        ({"images": ["c.png"]}, "undecodable_media", "cut before its end"),
        ({"images": ["a\0.png"]}, "undecodable_media", "null byte"),
        ({"images": "a.png"}, "bad_json", "list of paths"),
        ({"images": [3]}, "bad_json", "list of paths"),
        ({"images": ["a.png"], "question": "<image1> <image2>"}, "image_count", "marks images"),
        ({"question": None}, "missing_question", "question"),
        ({"question": "Q" * 9000}, "too_long", "max_prompt_tokens"),
    ],
)
def test_a_question_that_cannot_be_used_is_reported(questions, tmp_path, row, why, detail):
    whole = encode(Image.effect_noise((64, 64), 90))
    (tmp_path / "c.png").write_bytes(whole[: len(whole) // 2])
    item = questions({"id": "x", "question": "Q?", **row})[0]
    assert item.prompt is None
    assert item.inputs is None
    (skip,) = item.skipped
    assert (skip.why, skip.where) == (why, "x")
    assert detail in skip.detail


def test_videos_lie_beside_the_file(questions, tmp_path):
    (tmp_path / "c.mp4").write_bytes(clip(size=(160, 120)))
    row = {"question": "<video> and <image>?", "images": ["a.png"], "videos": ["c.mp4"], "fps": 1}
    item = questions(row)[0]
    assert [part["type"] for part in item.prompt.messages[0]["content"]] == [
        "video",
        "text",
        "image",
        "text",
    ]
    assert item.inputs.media["video_grid_thw"][0, 0] == 2
    for name, detail in (("a.png", "not an mp4"), ("none.mp4", "No such file")):
        (skip,) = questions({"question": "Q?", "videos": [name]})[0].skipped
        assert (skip.why, detail in skip.detail) == ("undecodable_media", True)
    (skip,) = questions({"question": "Q?", "videos": "c.mp4"})[0].skipped
    assert skip.why == "bad_json"
