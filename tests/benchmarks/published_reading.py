"""Benchmarks of what a picture shows: a few rows in files of exactly the published layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from published import docvqa_row, embedded, parquet


def chartqa(folder: Path) -> Path:
    row = {
        "image": embedded(),
        "question": "Value in 2010?",
        "answer": "2010",
        "type": "human_test",
    }
    parquet(folder / "data/test-00000-of-00001.parquet", [row, {**row, "answer": "12%"}])
    return folder / "data"


def docvqa(folder: Path) -> Path:
    row = docvqa_row()
    parquet(folder / "validation-00000-of-00001.parquet", [row, {**row, "questionId": "338"}])
    return folder


def countbench(folder: Path) -> Path:
    row = {"image": embedded(), "text": "Three dogs", "question": "How many dogs?", "number": 3}
    parquet(folder / "data/test-00000-of-00001.parquet", [row, row])
    return folder / "data"


def refcoco(*splits: str) -> Callable[[Path], Path]:
    row = {
        "question_id": "1",
        "image": embedded(size=(200, 100)),
        "question": "Please carefully observe the area circled in the image and come up with a "
        "caption for the area.",
        "answer": ["the dog on the left", "black dog"],
        "segmentation": [0.0, 1.0],
        "bbox": [20.0, 10.0, 100.0, 50.0],
        "iscrowd": 0,
        "file_name": "COCO_train2014_000000000001_0.jpg",
    }

    def write(folder: Path) -> Path:
        for split in splits:
            path = folder / f"data/{split}-00000-of-00001.parquet"
            parquet(path, [row, {**row, "question_id": "2"}])
        return folder / "data"

    return write
