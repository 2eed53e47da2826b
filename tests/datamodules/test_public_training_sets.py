"""Public sets that one may train on, in exactly the layout their authors publish."""

import json

from published import embedded, jsonl, parquet, picture
from published_prompts import fault, prompts, text_of

from datamodules.making import make_shards
from datamodules.sources.catalogue import Request, source_sets


def test_geometry3k(tmp_path):
    rows = [{"images": [embedded()], "problem": "<image>Find x.", "answer": r"\sqrt{2}"}]
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", rows)
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows * 2)
    (prompt,) = prompts("geometry3k", tmp_path, tmp_path)
    assert (prompt.reference, text_of(prompt)) == (r"\sqrt{2}", "[image]Find x.")
    assert len(prompts("geometry3k", tmp_path, tmp_path, splits=("test",))) == 2


def test_geometry3k_with_choices(tmp_path):
    rows = [
        {
            "id": 9,
            "images": [embedded()],
            "problem": "Find x.",
            "answer": "B",
            "choices": ["1", "2", "3", "4"],
            "ground_truth": "2",
        }
    ]
    (prompt,) = prompts("geometry3k", parquet(tmp_path / "a.parquet", rows), tmp_path)
    assert (prompt.reference, dict(prompt.options)["B"]) == ("B", "2")
    assert prompt.meta["ground_truth"] == "2"


def test_puzzlevqa(tmp_path):
    row = {
        "image": embedded(),
        "question": "What is missing?",
        "options": ["6", "3", "4"],
        "answer": "4",
        "caption": "c",
        "explanation": "e",
        "deduction": "d",
    }
    (prompt,) = prompts(
        "puzzlevqa", parquet(tmp_path / "train-00000-of-00001.parquet", [row]), tmp_path
    )
    assert (prompt.reference, len(prompt.images)) == ("C", 1)
    assert {"caption", "explanation", "deduction"} <= set(prompt.meta)


def test_algopuzzlevqa(tmp_path):
    row = {
        "image": embedded(),
        "question": "Possible?",
        "options": ["Yes", "No"],
        "answer": "No",
        "solution": "s",
    }
    (prompt,) = prompts("algopuzzlevqa", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, prompt.meta["solution"]) == ("B", "s")


def test_nlvr(tmp_path):
    place = tmp_path / "train" / "images" / "17" / "train-72-0-0.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(picture())
    row = {
        "sentence": "There is a black tower.",
        "identifier": "72-0",
        "directory": "17",
        "label": "false",
        "structured_rep": [[{"x_loc": 1}], [], []],
        "evals": {"r0": "false"},
    }
    path = jsonl(tmp_path / "train" / "train.json", [row])
    (prompt,) = prompts("nlvr", path, tmp_path)
    assert (prompt.reference, dict(prompt.options)) == ("B", {"A": "true", "B": "false"})
    assert prompt.key.endswith("#72-0")
    assert prompt.images == (picture(),)
    assert prompt.meta["directory"] == "17"
    assert "There is a black tower." in text_of(prompt)
    place.unlink()
    assert "can't read" in fault("nlvr", path)


def test_vlmsblind(tmp_path):
    row = {
        "image": embedded(),
        "task": "Nested Squares",
        "prompt": "Count.",
        "groundtruth": "3",
        "metadata": "{}",
    }
    (prompt,) = prompts("vlmsblind", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, text_of(prompt), prompt.meta["task"]) == (
        "3",
        "[image]Count.",
        "Nested Squares",
    )


def test_clevr_count(tmp_path):
    rows = [
        {"image": embedded(), "problem": "How many?", "solution": "<answer> 3 </answer>"},
        {"image": embedded(), "problem": "Is it red?", "solution": "<answer> yes </answer>"},
    ]
    (one,) = source_sets("clevr_count", Request(data=parquet(tmp_path / "a.parquet", rows)))
    (made,) = make_shards(one, tmp_path / "out")
    assert made.manifest["answers"]["commonest"] == {"3": 1}
    assert made.manifest["refused"]["why"] == {"not_wanted": 1}


def test_clevr_as_its_authors_publish_it(tmp_path):
    place = tmp_path / "images" / "val" / "CLEVR_val_000000.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(picture())
    (tmp_path / "questions").mkdir()
    question = {"image_index": 0, "image_filename": place.name, "split": "val", "program": []}
    asked = [("How many cubes?", "2"), ("Same size?", "no")]
    questions = [{**question, "question": text, "answer": answer} for text, answer in asked]
    path = tmp_path / "questions" / "CLEVR_val_questions.json"
    path.write_text(json.dumps({"info": {"split": "val"}, "questions": questions}))
    (prompt,) = prompts("clevr_count", path, tmp_path, splits=("val",))
    assert (prompt.reference, prompt.images, prompt.meta["image_index"]) == ("2", (picture(),), 0)


def test_countbenchqa(tmp_path):
    row = {"image": embedded(), "text": "four cats", "question": "How many cats?", "number": 4}
    (prompt,) = prompts("clevr_count", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, prompt.meta["text"]) == ("4", "four cats")
