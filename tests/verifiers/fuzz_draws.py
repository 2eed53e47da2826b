"""Draws answers, references and pairs of them for the fuzz tests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from table_row import KINDS
from verifier_tables import TABLES

from sapo_vl.types import Prompt
from sapo_vl.verifiers import TRAINING

ROUNDS = 60  # answers for each verifier and seed
SAMPLES = [
    *r"\frac \sqrt \boxed{ { } \left( \right) ^ _ ! 9 9^{9} 1 2 0.5 , ; = < \infty \cup".split(),
    *r"\% % $ - + A B (C) or and not yes no None 1e9 nan inf 1/0 Answer: the answer is".split(),
    *'[1, 2, 3] [100, 200, 300, 400] (1,2) {"solution": {" "House 1" : "Name" } ]'.split(),
    *"<box> </box> <point> </point> </think> <think> <answer> </answer> red ball 50% tea".split(),
    *["1,000", "2010", "Eric", "\u4e94", "\uff17", "\u00bd", "\u00b2", "\n", " ", "\x00", "\ud800"],
    *["\U0001f600", "\\", "```json", "a" * 500, "(" * 50, "0" * 400],
]


def prompts_of(name: str) -> list[Prompt]:
    seen = {row.reference: row for row in TABLES[name]}
    return [Prompt(reference=r.reference, options=r.options, meta=r.meta) for r in seen.values()]


def verifier_of(name: str, form: str = "whole") -> Any:
    given: dict[str, Any] = {"form": form} if name in TRAINING else {}
    if name == "overlong":
        given = {"limit": 100, "buffer": 50}
    return KINDS[name](**given)


def mutated(draw: random.Random, text: str) -> str:
    i = draw.randrange(len(text) + 1)
    return text[:i] + draw.choice(SAMPLES) + text[i + draw.randrange(3) :]


def answers(draw: random.Random, name: str) -> list[str]:
    known = [row.answer for row in TABLES[name]]
    made = [
        draw.choice(["", " "]).join(draw.choices(SAMPLES, k=draw.randrange(12)))
        for _ in range(ROUNDS)
    ]
    return made + [mutated(draw, draw.choice(known)) for _ in range(ROUNDS)]


def as_answer(name: str, reference: str) -> str:
    return f'{{"solution": {reference}}}' if name == "grid" else reference


def drawn_prompts(draw: random.Random, name: str) -> list[Prompt]:
    return [
        Prompt(reference=REFERENCES[name](draw), options=OPTIONS.get(name, {})) for _ in range(40)
    ]


def box(draw: random.Random) -> str:
    x, y = draw.randrange(900), draw.randrange(900)
    return f"[{x}, {y}, {x + draw.randrange(1, 100)}, {y + draw.randrange(1, 99) + 0.5}]"


def words(draw: random.Random) -> str:
    return " ".join("".join(draw.choices("abcdefghij", k=draw.randrange(2, 9))) for _ in range(3))


def number(draw: random.Random) -> str:
    return draw.choice(
        [f"{draw.randrange(10**6)}", f"{draw.uniform(-9, 99):.3f}", f"{draw.randrange(10**9):,}"]
    )


def formula(draw: random.Random) -> str:
    a, b, c = (draw.randrange(1, 99) for _ in range(3))
    forms = (
        rf"\frac{{{a}}}{{{b}}}",
        rf"{a}\sqrt{{{b}}}",
        rf"x^{{2}}+{a}x-{b}",
        rf"({a}, {b})",
        rf"\{{{a}, {b}, {c}\}}",
        f"{a}:{b}",
        rf"{a}\pi",
        f"{a}^\\circ",
        rf"[{a}, \infty)",
    )
    return draw.choice([*forms, number(draw)])


def grid(draw: random.Random) -> str:
    return json.dumps({"House 1": {"Name": words(draw), "Pet": words(draw)}})


OPTIONS = {"choice": {"A": "1", "B": "2", "C": "3"}}
REFERENCES: dict[str, Callable[[random.Random], str]] = {
    "math": formula,
    "choice": lambda draw: ", ".join(sorted(draw.sample("ABC", draw.randrange(1, 4)))),
    "number": number,
    "yes_no": lambda draw: draw.choice(["yes", "no", "True", "false"]),
    "text": words,
    "box": box,
    "point": lambda draw: f"[{draw.randrange(1000)}, {draw.randrange(1000)}]",
    "grid": grid,
    "anls": words,
    "chart": lambda draw: draw.choice([number(draw), words(draw), f"{draw.randrange(1, 99)}%"]),
}


def pairs_of(draw: random.Random, name: str) -> list[tuple[str, str]]:
    """Two answers of one kind: words after a number would be its unit, a label twice no hedge."""
    make = REFERENCES[name]
    if name == "choice":
        return [("A", "B"), ("C", "A"), ("B", "C")] * 10
    if name == "yes_no":
        return [("yes", "no"), ("False", "true")] * 15
    if name == "chart":
        return [(f(draw), f(draw)) for f in (number, words) for _ in range(20)]
    return [(make(draw), make(draw)) for _ in range(40)]
