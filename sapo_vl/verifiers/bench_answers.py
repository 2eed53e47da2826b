"""Answers to measure verifiers with: ordinary ones of six kinds of task, and hostile ones."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import (
    BoxVerifier,
    ChoiceVerifier,
    GridVerifier,
    MathVerifier,
    NumberVerifier,
    TextVerifier,
)

Pair = tuple[Prompt, str]
_GROUP = 8
_OPTIONS = {"A": "12", "B": "18", "C": "24", "D": "30"}

HOSTILE: dict[str, str] = {
    "power": "9**9**9",
    "tower": "9^{9^{9}}",
    "factorial": "100000000!",
    "400 KB of digits": "7" * 400_000,
    "400 KB of words": "wait " * 80_000,
    "3000 parentheses": "(" * 3000 + "x" + ")" * 3000,
    "3000 fractions": r"\frac{1}{" * 3000 + "2" + "}" * 3000,
    "open boxes": r"\boxed{" * 20_000,
    "open objects": '{"a":' * 20_000,
    "blanks": "[" + " " * 100_000 + "1",
    "signs": "-" * 50_000 + "1",
    "polynomial": "(x+y+z+1)^{2000}",
    "unsolvable": r"\sin(x^{x})=\cos(e^{x})+\ln(x)",
}


@dataclass(frozen=True)
class Careless:
    """What a rule without any guard does: only the pool's limit ends it."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Match a regular expression that backtracks for ever, or compute a tower of powers."""
        if response == "9**9**9":
            return Verdict(score=float(9 ** (9**9) > 0))
        return Verdict(score=float(re.fullmatch(r"(a+)+b", response) is not None))


def mixed(count: int, seed: int = 0) -> list[Pair]:
    """Return ``count`` answers in groups of 8, right and wrong ones, of six kinds of task."""
    draw = random.Random(seed)
    pairs: list[Pair] = []
    makers = (_math, _choice, _number, _text, _box, _grid)
    while len(pairs) < count:
        prompt, right, wrong = draw.choice(makers)(draw)
        texts = [f"Let me see. {draw.choice((right, wrong))}" for _ in range(_GROUP)]
        pairs += [(prompt, text) for text in texts]
    return pairs[:count]


def _math(draw: random.Random) -> tuple[Prompt, str, str]:
    a, b, k = draw.randrange(1, 50), draw.randrange(2, 50), draw.randrange(2, 9)
    right = rf"\boxed{{\frac{{{a * k}}}{{{b * k}}} + \sqrt{{{b}}}}}"
    prompt = Prompt(reference=rf"\sqrt{{{b}}} + \frac{{{a}}}{{{b}}}", verifier=MathVerifier())
    return prompt, right, rf"\boxed{{\frac{{{a + 1}}}{{{b}}}}}"


def _choice(draw: random.Random) -> tuple[Prompt, str, str]:
    label = draw.choice("ABCD")
    prompt = Prompt(reference=label, options=_OPTIONS, verifier=ChoiceVerifier())
    return prompt, rf"\boxed{{({label}) {_OPTIONS[label]}}}", r"\boxed{A or B}"


def _number(draw: random.Random) -> tuple[Prompt, str, str]:
    n = draw.randrange(10**6)
    prompt = Prompt(reference=str(n), verifier=NumberVerifier())
    return prompt, rf"\boxed{{about {n:,} cats}}", rf"\boxed{{{n + 1}}}"


def _text(draw: random.Random) -> tuple[Prompt, str, str]:
    word = "".join(draw.choices("abcdef", k=8))
    prompt = Prompt(reference=word, verifier=TextVerifier())
    return prompt, rf"\boxed{{\text{{The {word}.}}}}", r"\boxed{a red ball}"


def _box(draw: random.Random) -> tuple[Prompt, str, str]:
    x, y = draw.randrange(500), draw.randrange(500)
    prompt = Prompt(reference=f"[{x}, {y}, {x + 99}, {y + 99}]", verifier=BoxVerifier())
    right = json.dumps([{"bbox_2d": [x, y, x + 99, y + 99], "label": "cat"}])
    return prompt, right, f"[{y}, {x}, {y + 99}, {x + 99}]"


def _grid(draw: random.Random) -> tuple[Prompt, str, str]:
    houses = {f"House {i}": {"Name": draw.choice("xyz"), "Pet": "cat"} for i in range(1, 6)}
    prompt = Prompt(reference=json.dumps(houses), verifier=GridVerifier())
    right = json.dumps({"reasoning": "so it is", "solution": houses})
    return prompt, right, right.replace("cat", "dog", 1)
