"""Answers to the rows of `published_sets`.

``ANSWERS[task]`` holds responses as (text, score, other scores of the same answer); they go to the
task's prompts in turn.
"""

from __future__ import annotations

import json

Answer = tuple[str, float, dict[str, float]]


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
