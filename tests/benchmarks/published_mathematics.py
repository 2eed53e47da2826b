"""Benchmarks of mathematics: a few rows in files of exactly the published layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from published import embedded, jsonl, parquet


def mathvision(split: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        choice = {
            "id": "4",
            "question": "How many?\n<image1>",
            "options": ["3", "4", "5", "6", "7"],
            "image": "images/4.jpg",
            "decoded_image": embedded(),
            "answer": "B",
            "solution": None,
            "level": 2,
            "subject": "counting",
        }
        free = {**choice, "id": "5", "options": [], "answer": r"$\frac{1}{2}$"}
        # The other split lies beside it, as in the published folder.
        parquet(folder / "data/test-00000-of-00001.parquet", [choice, free])
        parquet(folder / "data/testmini-00000-of-00001.parquet", [choice, free])
        assert split in ("test", "testmini")
        return folder / "data"

    return write


def mathvista(folder: Path) -> Path:
    choice = {
        "pid": "1",
        "question": "Which is larger?",
        "image": "images/1.jpg",
        "decoded_image": embedded(),
        "choices": ["one", "two"],
        "unit": None,
        "precision": None,
        "answer": "two",
        "question_type": "multi_choice",
        "answer_type": "text",
        "metadata": {"split": "testmini", "task": "figure question answering", "skills": ["a"]},
        "query": "Hint: Please answer.\nQuestion: Which is larger?\nChoices:\n(A) one\n(B) two",
    }
    free = {
        **choice,
        "pid": "2",
        "choices": None,
        "answer": "1.20",
        "precision": 2.0,
        "question_type": "free_form",
        "answer_type": "float",
        "query": "Hint: Please answer with two decimal places.\nQuestion: How long?",
    }
    parquet(folder / "data/testmini-00000-of-00001.parquet", [choice, free])
    return folder / "data"


def mathverse(folder: Path) -> Path:
    choice = {
        "sample_index": "1",
        "problem_index": "1",
        "problem_version": "Text Dominant",
        "question": "How large?\nChoices:\nA:15\nB:30",
        "image": embedded(),
        "answer": "B",
        "question_type": "multi-choice",
        "metadata": {"split": "testmini", "source": "s", "subject": "Plane", "subfield": "Angle"},
        "query_wo": "Please directly answer.\nQuestion: How large?",
        "query_cot": "Please first conduct reasoning.\nQuestion: How large?\nChoices:\nA:15\nB:30",
    }
    free = {
        **choice,
        "sample_index": "5",
        "problem_version": "Vision Only",
        "question": "",
        "answer": "2",
        "question_type": "free-form",
        "query_cot": "Please first conduct reasoning.",
    }
    return parquet(folder / "testmini.parquet", [choice, free])


def wemath(folder: Path) -> Path:
    row = {
        "ID": "2steps_1",
        "split": "testmini",
        "knowledge concept": "Area",
        "question": "How large?",
        "option": "A. 2 cm; B. 4 cm; C. 5 cm; E. No correct answer",
        "answer": "B",
        "image_path": embedded(),
        "key": "2steps_1",
        "question number": 1,
        "knowledge concept description": "d",
    }
    parquet(
        folder / "data/testmini-00000-of-00001.parquet",
        [
            row,
            {**row, "key": "2steps_2", "question number": 2},
            {**row, "key": "2steps_multi", "question number": 3},
        ],
    )
    return folder / "data"


def dynamath(folder: Path) -> Path:
    row = {
        "id": "7",
        "question": "What is the period?",
        "image": "images/7.png",
        "decoded_image": embedded(),
        "ground_truth": "2.0944",
        "answer_type": "float",
        "subject": "analytic geometry",
        "knowledge_level": "high school",
    }
    parquet(folder / "data/sample_variant1-00000-of-00001.parquet", [row])
    second = {**row, "answer_type": "multiple choice", "ground_truth": "B"}
    parquet(folder / "data/sample_variant2-00000-of-00001.parquet", [second])
    return Path(f"{folder}/data/*.parquet")


def geometry3k(folder: Path) -> Path:
    row = {"images": [embedded()], "problem": "<image>Find x.", "answer": r"\sqrt{2}"}
    parquet(folder / "data/test-00000-of-00001.parquet", [row, row])
    parquet(folder / "data/train-00000-of-00001.parquet", [row])
    return folder / "data"


def matharena(answer: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        rows = [
            {
                "problem_idx": i,
                "problem": "Find $n$.",
                "answer": answer,
                "problem_type": ["Algebra"],
            }
            for i in (1, 2)
        ]
        parquet(folder / "data/train-00000-of-00001.parquet", rows)
        return folder / "data/train-00000-of-00001.parquet"

    return write


def beyondaime(folder: Path) -> Path:
    rows = [{"problem": "Find $n$.", "answer": 70}, {"problem": "Find $m$.", "answer": 70}]
    parquet(folder / "data/test-00000-of-00001.parquet", rows)
    return folder / "data"


def math500(folder: Path) -> Path:
    row = {
        "problem": "Convert.",
        "solution": r"So \boxed{\left( 3, \frac{\pi}{2} \right)}.",
        "answer": r"\left( 3, \frac{\pi}{2} \right)",
        "subject": "Precalculus",
        "level": 2,
        "unique_id": "test/precalculus/807.json",
    }
    return jsonl(folder / "test.jsonl", [row, {**row, "unique_id": "test/precalculus/808.json"}])


def gsm8k(folder: Path) -> Path:
    row = {"question": "How many eggs?", "answer": "She has 16 - 3 = 13 eggs.\n#### 1,018"}
    parquet(folder / "main/test-00000-of-00001.parquet", [row, row])
    return folder / "main"
