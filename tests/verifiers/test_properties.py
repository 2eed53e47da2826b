"""What holds for every verifier whatever is written: hypothesis looks for what breaks it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from fuzz_draws import OPTIONS, REFERENCES, SAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxes import LIMITS, usable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import OFFICIAL, TRAINING, VERIFIERS

SECONDS = 2.0  # processor time of one verdict
QUIET = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
SLOW_TO_JUDGE = ("code", "livecodebench")  # each verdict starts processes
CHEAP = [name for name in VERIFIERS if name not in SLOW_TO_JUDGE]
NO_REFERENCE = ("format",)
TESTS = {"inputs": ["1", "2"], "outputs": ["2", "3"], "fn_name": None}
GRID = st.randoms(use_true_random=False)
TEXTS = st.lists(st.one_of(st.sampled_from(SAMPLES), st.text(max_size=20)), max_size=12).map(
    "".join
)

Draw = Callable[[random.Random], str]


def _word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghij", k=draw.randrange(3, 9)))


def _official_box(draw: random.Random) -> str:
    return json.dumps([draw.randrange(500), draw.randrange(500), 20, draw.randrange(1, 400)])


# Of the official rules: the references their data sets hold, and an answer that is one.
OFFICIAL_REFERENCES: dict[str, Draw] = {
    "mathvision_official": REFERENCES["number"],
    "mathvista_official": _word,
    "mmmu_official": lambda draw: draw.choice("ABC"),
    "chartqa_official": lambda draw: str(draw.randrange(1, 10**6)),
    "docvqa_anls": REFERENCES["text"],
    "emma_fast": lambda draw: draw.choice("ABC"),
    "zebralogic": REFERENCES["grid"],
    "refcoco": _official_box,
    "visulogic_official": lambda draw: draw.choice("ABCD"),
    "wemath_official": lambda draw: draw.choice("ABCDEFGH"),
    "dynamath_official": _word,
    "matharena_official": REFERENCES["number"],
    "puzzlevqa_official": lambda draw: draw.choice("ABC"),
}
DRAWS = REFERENCES | OFFICIAL_REFERENCES
CHOICES = {"choice", "mmmu_official", "emma_fast", "puzzlevqa_official"}
BOXED = {"mathvision_official", "emma_fast", "visulogic_official", "matharena_official"}
COUNTS = {"right", "cells"}  # parts that are no scores: a metric divides their sums


def prompt_of(name: str, reference: str) -> Prompt:
    options = OPTIONS["choice"] if name in CHOICES else {}
    return Prompt(reference=reference, options=options, meta={"question": "How many are there?"})


def verifier_of(name: str) -> Any:
    return VERIFIERS[name](form="whole") if name in TRAINING else VERIFIERS[name]()


def written(name: str, reference: str) -> str:
    """An answer that states the reference, in the form that the rule reads."""
    if name in ("grid", "zebralogic"):
        return f'{{"solution": {reference}}}'
    if name == "refcoco":
        left, top, width, height = json.loads(reference)
        return json.dumps([left, top, left + width, top + height])
    if name == "mmmu_official":
        return f"({reference})"
    if name == "wemath_official":
        return f"Answer: {reference}"
    if name == "dynamath_official":
        return json.dumps({"short answer": reference})
    return rf"\boxed{{{reference}}}" if name in BOXED else reference


def judged(verifier: Any, prompt: Prompt, response: str) -> Verdict:
    began = time.process_time()
    verdict = verifier(prompt, response)
    assert time.process_time() - began < SECONDS, response
    assert 0 <= verdict.score <= 1, verdict
    assert verdict.status not in ("error", "timeout"), verdict
    scores = (value for part, value in verdict.parts.items() if part not in COUNTS)
    assert all(0 <= value <= 1 for value in scores), verdict
    return verdict


def test_every_verifier_is_here() -> None:
    assert set(DRAWS) | set(SLOW_TO_JUDGE) | set(NO_REFERENCE) == set(VERIFIERS)
    assert set(OFFICIAL_REFERENCES) | {"livecodebench"} == set(OFFICIAL)


@pytest.mark.parametrize("name", CHEAP)
@given(text=TEXTS, draw=GRID)
@QUIET
def test_any_answer_is_judged_in_time_in_range_and_the_same_twice(
    name: str, text: str, draw: random.Random
) -> None:
    prompt = prompt_of(name, DRAWS[name](draw) if name in DRAWS else "")
    for response in (text, rf"so \boxed{{{text}}}", f"<answer>{text}</answer>"):
        verdict = judged(verifier_of(name), prompt, response)
        assert verdict == judged(verifier_of(name), prompt, response)


@pytest.mark.parametrize("name", CHEAP)
@given(reference=TEXTS)
@QUIET
def test_any_reference_is_used_or_named(name: str, reference: str) -> None:
    prompt, verifier = prompt_of(name, reference), verifier_of(name)
    unusable = verifier.check_reference(prompt) is not None
    verdict = judged(verifier, prompt, written_or_plain(name, reference))
    assert (verdict.status == "unparsable_reference") == unusable


def written_or_plain(name: str, reference: str) -> str:
    return reference if name == "refcoco" else written(name, reference)


@pytest.mark.parametrize("name", list(DRAWS))
@given(draw=GRID)
@QUIET
def test_a_reference_scores_1_against_itself(name: str, draw: random.Random) -> None:
    reference = DRAWS[name](draw)
    prompt, verifier = prompt_of(name, reference), verifier_of(name)
    assert verifier.check_reference(prompt) is None
    assert judged(verifier, prompt, written(name, reference)).score == 1, reference


BLANKS = (
    " {} ",
    "\n{}\n",
    "<think>or 17?</think>{}",
    "<think>\\boxed{{3}} [1, 2, 3, 4]</think>\n{}",
)
# Rules that keep what stands around an answer: why their official form does is in their docstring.
STRICT = {"chartqa_official": BLANKS[:3], "mathvista_official": BLANKS[:3]}


@pytest.mark.parametrize("name", list(DRAWS))
@given(draw=GRID)
@QUIET
def test_reasoning_and_blanks_change_nothing(name: str, draw: random.Random) -> None:
    verifier = verifier_of(name)
    reference, other = DRAWS[name](draw), DRAWS[name](draw)
    prompt = prompt_of(name, reference)
    for answer in (written(name, reference), written(name, other)):
        alone = judged(verifier, prompt, answer).score
        for rewriting in BLANKS:
            assert judged(verifier, prompt, rewriting.format(answer)).score == alone, rewriting


# Rewritings that mean the same, of each kind of answer.
SAME: dict[str, list[Callable[[str], str]]] = {
    "math": [
        lambda text: rf"${text}$",
        lambda text: rf"\left({text}\right)" if text.isdigit() else text,
        lambda text: rf"\text{{The answer is }}{text}",
        lambda text: f"{text}.",
        lambda text: text.replace(r"\frac", r"\dfrac"),
        lambda text: text.replace(" ", r"\,"),
    ],
    "number": [
        lambda t: f"**{t}**",
        lambda t: f"{t} cats",
        lambda t: f"about {t}",
        lambda t: f"${t}$",
    ],
    "choice": [
        lambda t: t.lower(),
        lambda t: f"**{t}**",
        lambda t: rf"\text{{{t}}}",
        lambda t: f"{t}.",
    ],
    "yes_no": [lambda t: t.upper(), lambda t: f"{t}.", lambda t: f"The answer is {t}."],
    "text": [lambda t: t.upper(), lambda t: f"the {t}", lambda t: f'"{t}"', lambda t: f"{t}."],
    "chart": [lambda t: f"{t}.", lambda t: f"**{t}**", lambda t: f"The answer is {t}."],
    "anls": [lambda t: t.upper(), lambda t: t.replace(" ", "  ")],
    "box": [
        lambda t: f'{{"bbox_2d": {t}}}',
        lambda t: f"```json\n[{t}]\n```",
        lambda t: f"{t} so {t}",
    ],
    "point": [lambda t: f'{{"point_2d": {t}}}', lambda t: t.replace("[", "(").replace("]", ")")],
    "grid": [lambda t: f"```json\n{t}\n```", lambda t: t.upper().replace("SOLUTION", "solution")],
}


@pytest.mark.parametrize("name", list(SAME))
@given(draw=GRID)
@QUIET
def test_equivalent_rewritings_score_the_same(name: str, draw: random.Random) -> None:
    verifier = verifier_of(name)
    reference, other = DRAWS[name](draw), DRAWS[name](draw)
    prompt = prompt_of(name, reference)
    for answer in (written(name, reference), written(name, other)):
        alone = judged(verifier, prompt, answer).score
        for rewrite in SAME[name]:
            again = judged(verifier, prompt, rewrite(answer)).score
            assert again == alone, (reference, rewrite(answer))


JOINS = (" ", ", ", " or ", "\n", "; ", " and ", "/", " | ", "\nAnswer: ")
# The official rules that pay for a second answer, and the grid, whose last object is the answer.
HEDGES = {
    "grid": "the last JSON object counts, as the last box does",
    "zebralogic": "the last JSON object counts",
    "mathvision_official": "the last box counts",
    "emma_fast": "the last box counts",
    "mmmu_official": "the last letter counts",
    "puzzlevqa_official": "the last letter counts",
    "matharena_official": "the last box counts, without one the last integer",
    "refcoco": "the best of all boxes counts",
    "visulogic_official": "a letter at the beginning or the end counts",
    "wemath_official": "the letter after the last 'Answer' counts, whatever follows it",
    "mathvista_official": "any text is taken for the nearest choice, and a text is compared whole",
    "docvqa_anls": "likeness is paid, so a longer answer may be nearer",
    "anls": "likeness is paid, so a longer answer may be nearer",
}
STRICT_RULES = [name for name in DRAWS if name not in HEDGES]


@pytest.mark.parametrize("name", STRICT_RULES)
@given(draw=GRID, join=st.sampled_from(JOINS))
@QUIET
def test_a_second_different_answer_never_raises_the_score(
    name: str, draw: random.Random, join: str
) -> None:
    verifier = verifier_of(name)
    right, wrong = DRAWS[name](draw), DRAWS[name](draw)
    if name == "choice":  # a set of labels and a part of it are no two answers
        right, wrong = right[0], wrong[0]
    prompt = prompt_of(name, right)
    alone = judged(verifier, prompt, wrong).score
    if alone == 1 or kind(right) != kind(wrong):
        return
    if name == "math" and judged(verifier, prompt_of(name, "1"), wrong).score == 1:
        return  # side by side they are a product, and a factor of 1 is no second answer
    for hedge in (f"{right}{join}{wrong}", f"{wrong}{join}{right}"):
        assert judged(verifier, prompt, hedge).score <= alone, hedge


def kind(answer: str) -> str:
    """Words after a number are its unit: two answers are of one kind, or they are none."""
    return "digits" if any(char.isdigit() for char in answer) else "words"


@pytest.mark.parametrize("name", ["anls", "docvqa_anls"])
@given(draw=GRID, join=st.sampled_from(JOINS))
@QUIET
def test_two_answers_are_never_as_good_as_the_right_one(
    name: str, draw: random.Random, join: str
) -> None:
    right, wrong = DRAWS[name](draw), DRAWS[name](draw)
    if right != wrong:
        verdict = judged(verifier_of(name), prompt_of(name, right), f"{right}{join}{wrong}")
        assert verdict.score < 1


@given(code=st.text(max_size=60), fence=st.sampled_from(["```python", "```", "~~~", ""]))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_any_code_is_judged(code: str, fence: str) -> None:
    usable(LIMITS)
    prompt = Prompt(reference=json.dumps(TESTS))
    for name in SLOW_TO_JUDGE:
        verifier = VERIFIERS[name](sandbox=LIMITS)
        verdict = verifier(prompt, f"{fence}\n{code}\n```")
        assert verdict.score == 0
        assert verdict.status in ("ok", "no_answer")
        right = (
            f"```python\n# {code.encode('unicode_escape').decode()}\nprint(int(input()) + 1)\n```"
        )
        assert verifier(prompt, right).score == 1
