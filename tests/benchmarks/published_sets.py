"""A few rows of each benchmark, in files of exactly the published layout, and answers to them.

``SETS[file of configs/eval][source]`` writes the files and gives the ``--data`` of make_shards.
``ANSWERS[task]`` holds responses as (text, score, other scores of the same answer); they go to the
task's prompts in turn.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Answer = tuple[str, float, dict[str, float]]


def picture(colour: str = "red", size: tuple[int, int] = (32, 32)) -> bytes:
    """An encoded picture of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def embedded(colour: str = "red", size: tuple[int, int] = (32, 32)) -> dict[str, Any]:
    """An image as a Hugging Face parquet file has it."""
    return {"bytes": picture(colour, size), "path": None}


def parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a parquet file."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _mathvision(split: str) -> Callable[[Path], Path]:
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


def _mathvista(folder: Path) -> Path:
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


def _mathverse(folder: Path) -> Path:
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


def _mmmu(folder: Path) -> Path:
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


def _mmmu_pro(options: int) -> Callable[[Path], Path]:
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


def _mmmu_pro_vision(folder: Path) -> Path:
    row = {
        "id": "test_Art_1",
        "image": embedded(),
        "options": "['x', 'y']",
        "answer": "B",
        "subject": "Art",
    }
    parquet(folder / "vision/test-00000-of-00001.parquet", [row, {**row, "id": "test_Art_2"}])
    return folder / "vision"


def _wemath(folder: Path) -> Path:
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


def _logicvista(folder: Path) -> Path:
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


def _dynamath(folder: Path) -> Path:
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


def _visulogic(folder: Path) -> Path:
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


def _emma(folder: Path) -> Path:
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


def _chartqa(folder: Path) -> Path:
    row = {
        "image": embedded(),
        "question": "Value in 2010?",
        "answer": "2010",
        "type": "human_test",
    }
    parquet(folder / "data/test-00000-of-00001.parquet", [row, {**row, "answer": "12%"}])
    return folder / "data"


def _docvqa(folder: Path) -> Path:
    row = {
        "questionId": "337",
        "question": "What date?",
        "question_types": ["handwritten"],
        "image": embedded(),
        "docId": 279,
        "ucsf_document_id": "xnbl0037",
        "ucsf_document_page_no": "1",
        "answers": ["1/8/93", "1-8-93"],
        "data_split": "val",
    }
    parquet(folder / "validation-00000-of-00001.parquet", [row, {**row, "questionId": "338"}])
    return folder


def _countbench(folder: Path) -> Path:
    row = {"image": embedded(), "text": "Three dogs", "question": "How many dogs?", "number": 3}
    parquet(folder / "data/test-00000-of-00001.parquet", [row, row])
    return folder / "data"


def _refcoco(*splits: str) -> Callable[[Path], Path]:
    row = {
        "question_id": "1",
        "image": embedded("red", (200, 100)),
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


def _geometry3k(folder: Path) -> Path:
    row = {"images": [embedded()], "problem": "<image>Find x.", "answer": r"\sqrt{2}"}
    parquet(folder / "data/test-00000-of-00001.parquet", [row, row])
    parquet(folder / "data/train-00000-of-00001.parquet", [row])
    return folder / "data"


def _puzzle(folder: Path) -> Path:
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


def _matharena(answer: str) -> Callable[[Path], Path]:
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


def _beyondaime(folder: Path) -> Path:
    rows = [{"problem": "Find $n$.", "answer": 70}, {"problem": "Find $m$.", "answer": 70}]
    parquet(folder / "data/test-00000-of-00001.parquet", rows)
    return folder / "data"


def _math500(folder: Path) -> Path:
    row = {
        "problem": "Convert.",
        "solution": r"So \boxed{\left( 3, \frac{\pi}{2} \right)}.",
        "answer": r"\left( 3, \frac{\pi}{2} \right)",
        "subject": "Precalculus",
        "level": 2,
        "unique_id": "test/precalculus/807.json",
    }
    return jsonl(folder / "test.jsonl", [row, {**row, "unique_id": "test/precalculus/808.json"}])


def _gsm8k(folder: Path) -> Path:
    row = {"question": "How many eggs?", "answer": "She has 16 - 3 = 13 eggs.\n#### 1,018"}
    parquet(folder / "main/test-00000-of-00001.parquet", [row, row])
    return folder / "main"


def _zebralogic(folder: Path) -> Path:
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


def _livecodebench(folder: Path) -> Path:
    import pickle
    import zlib

    private = json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}])
    packed = base64.b64encode(zlib.compress(pickle.dumps(private))).decode()
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
        "private_test_cases": packed,
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


SETS: dict[str, dict[str, Callable[[Path], Path]]] = {
    "mathvision": {"mathvision": _mathvision("test")},
    "mathvision_testmini": {"mathvision": _mathvision("testmini")},
    "mathvista": {"mathvista": _mathvista},
    "mathverse": {"mathverse": _mathverse},
    "mmmu": {"mmmu": _mmmu},
    "mmmu_pro": {
        "mmmu_pro_4": _mmmu_pro(4),
        "mmmu_pro_10": _mmmu_pro(10),
        "mmmu_pro_vision": _mmmu_pro_vision,
    },
    "wemath": {"wemath": _wemath},
    "logicvista": {"logicvista": _logicvista},
    "dynamath": {"dynamath": _dynamath},
    "visulogic": {"visulogic": _visulogic},
    "emma": {"emma": _emma},
    "chartqa": {"chartqa": _chartqa},
    "docvqa": {"docvqa": _docvqa},
    "countbench": {"countbench": _countbench},
    "refcoco": {
        "RefCOCO": _refcoco("val", "testA", "testB"),
        "RefCOCOplus": _refcoco("val", "testA", "testB"),
        "RefCOCOg": _refcoco("val", "test"),
    },
    "geometry3k": {"geometry3k": _geometry3k},
    "puzzlevqa": {"puzzlevqa": _puzzle},
    "algopuzzlevqa": {"algopuzzlevqa": _puzzle},
    "aime24": {"aime24": _matharena("70")},
    "aime25": {"aime25": _matharena("70")},
    "hmmt25": {"hmmt25": _matharena(r"\frac{1}{3}")},
    "beyondaime": {"beyondaime": _beyondaime},
    "math500": {"math500": _math500},
    "gsm8k": {"gsm8k": _gsm8k},
    "zebralogic": {"zebralogic": _zebralogic},
    "livecodebench_v6": {"livecodebench": _livecodebench},
}


def _grid(drink: str) -> str:
    houses = {"House 1": {"Name": "Arnold", "Drink": "tea"}}
    houses["House 2"] = {"Name": "Eric", "Drink": drink}
    return json.dumps({"reasoning": "r", "solution": houses})


_MATHVISION: list[Answer] = [
    (r"So it is \boxed{B}", 1, {"training_rule": 1}),
    (r"So it is \boxed{0.501}", 1, {"training_rule": 0}),  # two decimals count officially
]
_PRO: list[Answer] = [
    ("Reasons.\nAnswer: B", 1, {"training_rule": 1}),
    ("Answer: C. Note B.", 1, {"training_rule": 0}),  # officially the last label
]
_BOXES: list[Answer] = [
    ('[{"bbox_2d": [100, 100, 600, 600]}]', 1, {"iou": 1, "training_rule": 1}),
    (
        '[{"bbox_2d": [0, 0, 10, 10]}, {"bbox_2d": [20, 10, 120, 60]}]',
        1,  # the best of all boxes, in pixels
        {"iou": 1, "training_rule": 0},
    ),
]
_PUZZLE: list[Answer] = [
    (r"\boxed{C}", 1, {"box": 1}),
    ("It is (B). So the answer is (C).", 1, {"box": 0}),
]
_INTEGER: list[Answer] = [
    (r"\boxed{70}", 1, {"exact_number": 1}),
    (r"\boxed{71}", 0, {"exact_number": 0}),
]
_DOUBLE = "```python\nprint(2 * int(input()))\n```"
_SOLUTION = "```python\nclass Solution:\n    def double(self, n):\n        return n + n\n```"

ANSWERS: dict[str, list[Answer]] = {
    "mathvision": _MATHVISION,
    "mathvision_testmini": _MATHVISION,
    "mathvista_rule": [
        (r"\boxed{twoo}", 1, {"training_rule": 0}),  # officially the nearest option
        (r"\boxed{1.2}", 0, {"training_rule": 1}),  # officially the same text: 1.20
    ],
    "mathverse_rule": [(r"\boxed{B}", 1, {}), (r"\boxed{\frac{4}{2}}", 1, {})],
    "mmmu": [("(B)", 1, {"training_rule": 1}), ("It is 0.5 or so", 1, {"training_rule": 0})],
    "mmmu_pro_standard_4": _PRO,
    "mmmu_pro_standard_10": _PRO,
    "mmmu_pro_vision": _PRO,
    "wemath": [
        ("<Thought process>: <<4>> <Answer>: <<B>>", 1, {"box": 0}),
        (r"It is \boxed{B}", 0, {"box": 1}),
        ("<Answer>: <<B>>", 1, {"box": 0}),
    ],
    "logicvista_rule": [(r"\boxed{D, B}", 1, {}), (r"\boxed{B}", 0, {})],
    "dynamath": [
        ('{"solution": "s", "short answer": "2.094"}', 1, {"box": 0}),
        (r"\boxed{B}", 0, {"box": 1}),
    ],
    "visulogic": [
        (r"Answer: \boxed{C}", 1, {"training_rule": 1}),
        (r"Answer: \boxed{(C)}", 0, {"training_rule": 1}),
    ],
    "emma_fast": [
        (r"So \boxed{B}", 1, {"training_rule": 1}),
        (r"So \boxed{3.501}", 1, {"training_rule": 0}),
    ],
    "chartqa": [("2008", 1, {"training_rule": 0}), ("12%", 1, {"training_rule": 1})],
    "docvqa": [("1/8/93", 1, {"exact": 1}), ("1/8/9", 5 / 6, {"exact": 0})],
    "countbench": [("3 dogs", 1, {"exact": 0}), ("1 2 3 4", 0, {"exact": 0})],
    **{f"refcoco_{split}": _BOXES for split in ("val", "testA", "testB")},
    **{f"refcoco_plus_{split}": _BOXES for split in ("val", "testA", "testB")},
    **{f"refcocog_{split}": _BOXES for split in ("val", "test")},
    "geometry3k": [(r"\boxed{2^{1/2}}", 1, {}), (r"\boxed{2}", 0, {})],
    "puzzlevqa": _PUZZLE,
    "algopuzzlevqa": _PUZZLE,
    "aime24": _INTEGER,
    "aime25": _INTEGER,
    "hmmt25": [(r"\boxed{\dfrac{2}{6}}", 1, {}), (r"\boxed{0.3}", 0, {})],
    "beyondaime": _INTEGER,
    "math500": [(r"\boxed{(3, \pi/2)}", 1, {}), (r"\boxed{(\pi/2, 3)}", 0, {})],
    "gsm8k": [(r"\boxed{1018}", 1, {}), ("1018", 0, {})],
    "zebralogic": [
        (_grid("milk"), 1, {"puzzle": 1, "cell": 1, "training_rule": 1}),
        (_grid("tea"), 0, {"puzzle": 0, "cell": 0.75, "training_rule": 0}),
        ("I give up.", 0, {"puzzle": 0, "cell": 0, "training_rule": 0}),
    ],
    "livecodebench_v6": [
        (_DOUBLE, 1, {"training_rule": 1}),
        (_SOLUTION, 1, {"training_rule": 1}),
    ],
}
