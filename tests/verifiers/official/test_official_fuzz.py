"""No official rule raises, takes long, or changes its mind, whatever a model writes."""

from __future__ import annotations

import random
import time

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers.official import OFFICIAL

SECONDS = 3.0  # of one verdict on a busy core; all but a few take milliseconds
RULES = [name for name in OFFICIAL if name != "livecodebench"]  # that one has a sandbox to run

PROMPTS = {
    "mathvision_official": [
        Prompt(reference=r"\frac{7}{2}"),
        Prompt(reference="(1,2)"),
        Prompt(reference="B", options={"A": "1", "B": r"$\sqrt{2}$"}),
    ],
    "mathvista_official": [
        Prompt(reference="yes", options={"A": "yes", "B": "no"}),
        Prompt(reference="3", meta={"answer_type": "integer"}),
        Prompt(reference="3.1", meta={"answer_type": "float", "precision": 1}),
    ],
    "mmmu_official": [Prompt(reference="7"), Prompt(reference="A", options={"A": "x", "B": "yy"})],
    "chartqa_official": [Prompt(reference="7"), Prompt(reference="50%"), Prompt(reference="Yes")],
    "docvqa_anls": [Prompt(reference="Acme Corp", meta={"answers": ["ACME", "the Acme Corp"]})],
    "emma_fast": [Prompt(reference="3.5"), Prompt(reference="b", options={"a": "1", "b": "2"})],
    "zebralogic": [Prompt(reference='{"House 1": {"Name": "Eric"}, "House 2": {"Name": "Bob"}}')],
    "refcoco": [Prompt(reference="[1, 2, 30, 40]", meta={"size": [640, 480]})],
    "dynamath_official": [
        Prompt(reference="3.5", meta={"answer_type": "float"}),
        Prompt(reference="B", meta={"answer_type": "multiple choice"}),
        Prompt(reference="Sep", meta={"answer_type": "text"}),
    ],
    "visulogic_official": [Prompt(reference="C")],
    "wemath_official": [Prompt(reference="B")],
    "matharena_official": [
        Prompt(reference="70"),
        Prompt(reference=r"\frac{9 \sqrt{23}}{23}"),
        Prompt(reference="1, -2"),
    ],
    "puzzlevqa_official": [Prompt(reference="B", options={"A": "6", "B": "3", "C": "4"})],
}

HOSTILE = [
    r"\boxed{9^{9^{9}}}",
    r"\boxed{9**9**9}",
    r"\boxed{100000000!}",
    r"\boxed{" + "(" * 3000 + "1" + ")" * 3000 + "}",
    r"\boxed{" * 20_000,
    r"\boxed{" * 5_000 + "1" + "}" * 5_000,
    r"\boxed{\text{" * 20_000,
    "{" * 100_000,
    "}" * 100_000,
    "[" * 100_000,
    '{"solution": ' * 20_000,
    '{"a": ' + "9" * 5_000 + "}",
    "9" * 200_000,
    "1," * 100_000,
    "1 " * 100_000,
    "-" * 100_000,
    "1,111" * 40_000,
    "9.9e" * 50_000,
    " " * 200_000,
    "\n" * 100_000,
    "is " * 100_000,
    "the answer is " * 20_000,
    "```json" * 30_000,
    "(A) (B) " * 30_000,
    "a" * 400_000,
    "=" * 200_000,
    r"\frac" * 50_000,
    r"\sqrt" * 50_000,
    '{"solution": {"House 1": 5, "House 2": {"Name": []}}}',
    '{"solution": [NaN, Infinity]}',
    "[1e999, -1e999, NaN, 1]",
    "[" + "9" * 400 + ", 1, 2, 3]",
    "\x00\ud800\U0001f600",
    '__import__("os").system("true")',
    "nan",
    "inf%",
    "1_000",
    "\uff19.\uff15",
    "²",
    "(,)",
    "[,]",
    "()",
    "",
]
PIECES = [
    *"ABCDabcd0123456789.,:;()[]{}<>=+-*/^_%$\\\"'` \n\t",
    *(r"\boxed{", r"\frac", r"\sqrt{", r"\text{", r"\pi", "oxed{", "}", "The answer is ", "is "),
    *("Answer:", "</think>", "<think>", '{"solution":', '"House 1":', '"bbox_2d"', "```", "nan"),
    *("Yes", "Acme", "1e9", "0.5", "50%", "∞", "。", "\uff21"),
]


def texts(count: int) -> list[str]:
    draw = random.Random(20260)
    return ["".join(draw.choices(PIECES, k=draw.randint(0, 40))) for _ in range(count)]


@pytest.mark.parametrize("name", RULES)
def test_hostile_texts_cost_little(name: str) -> None:
    rule = OFFICIAL[name]()
    for response in HOSTILE:
        for prompt in PROMPTS[name]:
            begin = time.perf_counter()
            verdict = rule(prompt, response)
            spent = time.perf_counter() - begin
            assert spent < SECONDS, (response[:40], spent)
            assert 0 <= verdict.score <= 1, response[:40]
            assert verdict.status in ("ok", "no_answer"), response[:40]
            assert len(verdict.extracted or "") <= 2000, response[:40]
            assert len(verdict.reason) <= 5000, response[:40]


@pytest.mark.parametrize("name", RULES)
def test_any_text_gets_the_same_verdict_twice(name: str) -> None:
    first, second = OFFICIAL[name](), OFFICIAL[name]()
    for response in texts(400):
        for prompt in PROMPTS[name]:
            verdict = first(prompt, response)
            assert verdict == second(prompt, response), response
            assert 0 <= verdict.score <= 1, response
            assert verdict.status in ("ok", "no_answer"), response


@pytest.mark.parametrize("name", RULES)
def test_any_reference_is_refused_or_used(name: str) -> None:
    rule = OFFICIAL[name]()
    for reference in [*texts(150), *HOSTILE]:
        prompt = Prompt(reference=reference)
        usable = rule.check_reference(prompt) is None
        verdict = rule(prompt, "The answer is (A) 7.")
        assert (verdict.status == "unparsable_reference") == (not usable), reference[:40]


def test_a_right_answer_scores_one_against_itself() -> None:
    assert OFFICIAL["mathvision_official"]()(Prompt(reference="3/4"), r"\boxed{3/4}").score == 1
    assert OFFICIAL["refcoco"]()(Prompt(reference="[1,2,3,4]"), "[1,2,4,6]").score == 1
    for name in ("mathvista_official", "mmmu_official", "chartqa_official", "docvqa_anls"):
        assert OFFICIAL[name]()(Prompt(reference="Acme 7"), "Acme 7").score == 1, name
    table = '{"House 1": {"Name": "Eric"}}'
    response = f'{{"solution": {table}}}'
    assert OFFICIAL["zebralogic"]()(Prompt(reference=table), response).score == 1
