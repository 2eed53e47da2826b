"""Benchmarks with pictures, in exactly the layout their authors publish."""

import json

from published import docvqa_row, embedded, parquet, picture, text64, tsv
from published_prompts import fault, prompts, text_of

MATHVISION = {
    "id": "4",
    "question": "How many?\n<image1>\n<image2>",
    "options": ["A", "B", "D", "F", "G"],
    "image": "images/4.jpg",
    "decoded_image": embedded(kind="JPEG"),
    "answer": "B",
    "solution": None,
    "level": 2,
    "subject": "counting",
}


def test_mathvision(tmp_path):
    free = {**MATHVISION, "id": "5", "options": [], "answer": r"$\frac{1}{2}$"}
    path = parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [MATHVISION, free])
    choice, other = prompts("mathvision", tmp_path, tmp_path)
    assert path.is_file()
    assert (choice.reference, choice.options["B"], choice.images) == (
        "B",
        "B",
        (picture(kind="JPEG"),),
    )
    assert "<image1>" in text_of(choice)  # one merged picture: the marks stay text
    assert (other.reference, other.meta["level"]) == (r"$\frac{1}{2}$", 2)


def test_mathvision_as_a_vlmevalkit_tsv(tmp_path):
    row = {
        "index": 4,
        "image": text64(picture()),
        "question": "How many? <image1>",
        "A": "1",
        "B": "2",
        "answer": "B",
    }
    (prompt,) = prompts("mathvision", tsv(tmp_path / "MathVision.tsv", [row]), tmp_path)
    assert (prompt.reference, prompt.images) == ("B", (picture(),))


def test_mathvista(tmp_path):
    row = {
        "pid": "1",
        "question": "Which is larger?",
        "image": "images/1.jpg",
        "decoded_image": embedded(),
        "choices": ["(A) one", "two"],
        "unit": None,
        "precision": None,
        "answer": "two",
        "question_type": "multi_choice",
        "answer_type": "text",
        "metadata": {"split": "testmini", "skills": ["a"]},
        "query": "Hint: ...",
    }
    free = {
        **row,
        "pid": "2",
        "choices": None,
        "answer": "1.20",
        "question_type": "free_form",
        "precision": 2.0,
    }
    parquet(tmp_path / "data" / "testmini-00000-of-00001.parquet", [row, free])
    choice, other = prompts("mathvista", tmp_path, tmp_path)
    assert (choice.reference, choice.key.split("#")[1]) == ("B", "1")
    assert (other.reference, other.meta["precision"], other.meta["query"]) == (
        "1.20",
        2.0,
        "Hint: ...",
    )
    hidden = parquet(tmp_path / "test.parquet", [{**free, "answer": ""}])
    assert 'field "answer"' in fault("mathvista", hidden)


def test_mmmu(tmp_path):
    row = {
        "id": "validation_Art_1",
        "question": "Compare <image 2> with <image 1>.",
        "options": "['It\\'s one', 'two']",
        "explanation": "",
        **{f"image_{i}": None for i in range(1, 8)},
        "image_1": embedded("red"),
        "image_2": embedded("blue"),
        "img_type": "['Paintings']",
        "answer": "B",
        "topic_difficulty": "Easy",
        "question_type": "multiple-choice",
        "subfield": "Art",
    }
    twice = {
        **row,
        "id": "2",
        "question": "<image 1>, again <image 1>",
        "image_2": None,
        "options": "['<image 1>', 'b']",
    }
    opened = {
        **row,
        "id": "3",
        "question": "Value in <image 1>?",
        "image_2": None,
        "options": "[]",
        "answer": "['1/2', '0.5']",
        "question_type": "open",
    }
    parquet(tmp_path / "validation-00000-of-00001.parquet", [row, twice, opened])
    one, two, three = prompts("mmmu", tmp_path, tmp_path)
    assert one.images == (picture("blue"), picture("red"))  # in the order of the text
    assert text_of(one) == "Compare [image] with [image].\nA. It's one\nB. two"
    assert [part["type"] for part in two.messages[0]["content"]] == ["image", "text"]
    assert (two.reference, three.reference, three.meta["answers"]) == ("B", "1/2", ["1/2", "0.5"])


def test_chartqa(tmp_path):
    old = {"image": embedded(), "query": "Value?", "label": ["12%"], "human_or_machine": 0}
    new = {"image": embedded(), "question": "Value?", "answer": "12%", "type": "human_test"}
    for name, row in (("old", old), ("new", new)):
        path = parquet(tmp_path / f"{name}.parquet", [row])
        (prompt,) = prompts("chartqa", path, tmp_path, splits=("test",))
        assert (prompt.reference, text_of(prompt)) == ("12%", "[image]Value?")


def test_docvqa(tmp_path):
    row = docvqa_row()
    (prompt,) = prompts(
        "docvqa", parquet(tmp_path / "validation.parquet", [row]), tmp_path, splits=("val",)
    )
    assert (prompt.reference, prompt.meta["answers"]) == ("1/8/93", ["1/8/93", "1-8-93"])
    assert (prompt.key.split("#")[1], prompt.meta["docId"]) == ("337", 279)


def test_wemath(tmp_path):
    (tmp_path / "1.png").write_bytes(picture())
    row = {
        "ID": "2steps_1_1",
        "split": "testmini",
        "knowledge concept": "Area",
        "question": "How large?",
        "option": "A. 1; 2 cm;B. 4 cm; C. 5 cm; E. No correct answer",
        "answer": "B",
        "image_path": "1.png",
        "key": "2steps_1",
        "question number": 1,
        "knowledge concept description": "d",
    }
    path = tmp_path / "testmini.json"
    path.write_text(json.dumps([row]))
    (prompt,) = prompts("wemath", tmp_path, tmp_path)
    assert prompt.reference == "B"
    assert dict(prompt.options) == {
        "A": "1; 2 cm",
        "B": "4 cm",
        "C": "5 cm",
        "E": "No correct answer",
    }
    assert len(prompt.images) == 1
