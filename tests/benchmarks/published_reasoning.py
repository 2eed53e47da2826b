"""Benchmarks of knowledge, logic and code: a few rows in files of exactly the published layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from published import embedded, jsonl, packed, parquet, picture


def mmmu(folder: Path) -> Path:
    choice = {
        "id": "validation_Art_1",
        "question": "Which one is in <image 1>?",
        "options": "['It\\'s one', 'two']",
        "explanation": "",
        **{f"image_{i}": None for i in range(1, 8)},
        "image_1": embedded(),
        "img_type": "['Paintings']",
        "answer": "B",
        "topic_difficulty": "Easy",
        "question_type": "multiple-choice",
        "subfield": "Art",
    }
    free = {
        **choice,
        "id": "validation_Art_2",
        "options": "[]",
        "answer": "['1/2', '0.5']",
        "question_type": "open",
    }
    parquet(folder / "Art/validation-00000-of-00001.parquet", [choice, free])
    return Path(f"{folder}/*/validation*.parquet")


def mmmu_pro(options: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        row = {
            "id": "test_Art_1",
            "question": "Which one is in <image 1>?",
            "options": str([f"text {i}" for i in range(options)]),
            "explanation": "",
            **{f"image_{i}": None for i in range(1, 8)},
            "image_1": embedded(),
            "img_type": "['Paintings']",
            "answer": "B",
            "topic_difficulty": "Easy",
            "subject": "Art",
        }
        place = folder / f"standard ({options} options)"
        parquet(place / "test-00000-of-00001.parquet", [row, {**row, "id": "test_Art_2"}])
        return place

    return write


def mmmu_pro_vision(folder: Path) -> Path:
    row = {
        "id": "test_Art_1",
        "image": embedded(),
        "options": "['x', 'y']",
        "answer": "B",
        "subject": "Art",
    }
    parquet(folder / "vision/test-00000-of-00001.parquet", [row, {**row, "id": "test_Art_2"}])
    return folder / "vision"


def logicvista(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    (folder / "images/1.png").write_bytes(picture())
    item = {
        "imagename": "1.png",
        "question": "Which letters? Select from A, B, C, and D. (A) (B) (C) (D)",
        "answer": "B, D",
        "reasoning": "r",
        "skill": ["inductive"],
        "broad_capability": ["patterns"],
        "specific_capability": "c",
        "imagesource": "s",
        "sourcelink": "l",
        "liscenced": "false",
    }
    items = {"0": item, "1": {**item, "answer": "C"}, "2": {**item, "answer": "3"}}
    items["3"] = {**item, "answer": ""}
    path = folder / "dataset.json"
    path.write_text(json.dumps(items))
    return path


def visulogic(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    (folder / "images/00000.png").write_bytes(picture())
    row = {
        "image_path": "images/00000.png",
        "question": "Choose the most appropriate option. A: A B: B C: C D: D",
        "label": "C",
        "id": "00000",
        "tag": "Quantitative Reasoning",
    }
    return jsonl(folder / "data.jsonl", [row, {**row, "id": "00001"}])


def emma(folder: Path) -> Path:
    choice = {
        "pid": "math_1",
        "question": "Which follows <image_1>?",
        "options": ["<image_2>", "none"],
        "answer": "B",
        "image_1": embedded("red"),
        "image_2": embedded("blue"),
        **{f"image_{i}": None for i in (3, 4, 5)},
        "solution": None,
        "subject": "Math",
        "task": "t",
        "category": "c",
        "source": "s",
        "type": "Multiple Choice",
        "context": "Look at <image_1>.",
    }
    free = {**choice, "pid": "math_2", "options": None, "answer": "3.5", "type": "Open-ended"}
    parquet(folder / "Math/test-00000-of-00001.parquet", [choice, free])
    return Path(f"{folder}/*/test*.parquet")


def puzzle(folder: Path) -> Path:
    (folder / "data/images/rectangle").mkdir(parents=True)
    (folder / "data/images/rectangle/0.png").write_bytes(picture())
    row = {
        "image": embedded(),
        "question": "What is missing?",
        "options": ["6", "3", "4"],
        "answer": "4",
        "caption": "c",
        "explanation": "e",
        "deduction": "d",
    }
    parquet(folder / "data/test-00000-of-00001.parquet", [row, row])
    return folder / "data"


def zebralogic(folder: Path) -> Path:
    solution = {
        "header": ["House", "Name", "Drink"],
        "rows": [["1", "Arnold", "tea"], ["2", "Eric", "milk"]],
    }
    row = {
        "id": "lgp-test-2x2-1",
        "size": "2*2",
        "puzzle": "There are 2 houses.",
        "solution": solution,
        "created_at": "2024-07-03",
    }
    rows = [{**row, "id": f"lgp-test-2x2-{i}"} for i in (1, 2, 3)]
    parquet(folder / "grid_mode/test-00000-of-00001.parquet", rows)
    return folder / "grid_mode"


def livecodebench(folder: Path) -> Path:
    private = json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}])
    row = {
        "question_title": "Double",
        "question_content": "Double the number.",
        "platform": "atcoder",
        "question_id": "abc1",
        "contest_id": "abc",
        "contest_date": "2025-02-01T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
        "private_test_cases": packed(private),
        "metadata": "{}",
    }
    call = {
        **row,
        "platform": "leetcode",
        "question_id": "3",
        "starter_code": "class Solution:\n    def double(self, n: int) -> int:\n        ",
        "public_test_cases": json.dumps([{"input": "1", "output": "2", "testtype": "functional"}]),
        "private_test_cases": "[]",
        "metadata": json.dumps({"func_name": "double"}),
    }
    jsonl(folder / "test.jsonl", [row])
    jsonl(folder / "test6.jsonl", [call])
    return Path(f"{folder}/test*.jsonl")
