"""Random answers: what every verifier must hold to, whatever a model writes.

Seeded draws by default; where hypothesis is installed it draws texts as well, and shrinks them.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable

import pytest
from fuzz_draws import (
    OPTIONS,
    REFERENCES,
    SAMPLES,
    answers,
    as_answer,
    drawn_prompts,
    pairs_of,
    prompts_of,
    verifier_of,
)
from table_row import KINDS, Row

from sapo_vl.types import Prompt
from sapo_vl.verifiers import TRAINING, MathVerifier

SECONDS = 2.0  # of one verdict in this process, on a busy machine
names = pytest.mark.parametrize("name", list(KINDS))


def check(name: str, prompt: Prompt, answer: str) -> None:
    for form in ("whole", "boxed"):
        text = rf"so \boxed{{{answer}}}" if form == "boxed" else answer
        verifier, started = verifier_of(name, form), time.monotonic()
        verdict = verifier(prompt, text)
        assert time.monotonic() - started < SECONDS, (name, text)
        assert 0 <= verdict.score <= 1
        assert verdict.status not in ("error", "timeout"), verdict
        assert all(-1e-9 <= value <= 1 for value in verdict.parts.values())
        assert verdict == verifier(prompt, text)


@names
@pytest.mark.parametrize("seed", range(2))
def test_no_answer_raises_or_leaves_the_range(name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")
    prompts = prompts_of(name)
    for answer in answers(draw, name):
        check(name, draw.choice(prompts), answer)


@names
@pytest.mark.parametrize("seed", range(2))
def test_no_reference_raises(name: str, seed: int) -> None:
    draw = random.Random(f"reference {name} {seed}")
    for reference in answers(draw, name)[::2]:
        prompt = Prompt(reference=reference, options={"A": reference, "B": "x"})
        verifier = verifier_of(name)
        problem = verifier.check_reference(prompt)
        assert problem is None or problem
        verdict = verifier(prompt, "1")
        assert (verdict.status == "unparsable_reference") == (problem is not None)


SELF = [name for name in TRAINING if name != "format"]


@pytest.mark.parametrize("name", SELF)
def test_a_reference_scores_1_against_itself(name: str) -> None:
    draw = random.Random(name)
    prompts = prompts_of(name) + drawn_prompts(draw, name)
    assert len(prompts) > 40
    for prompt in prompts:
        verifier = verifier_of(name)
        assert verifier.check_reference(prompt) is None, prompt
        if name == "point" and len(prompt.reference.split(",")) == 4:
            continue  # a box holds points and is none
        verdict = verifier(prompt, as_answer(name, prompt.reference))
        assert verdict.score == 1, (prompt.reference, verdict)


REWRITINGS: list[Callable[[str], str]] = [
    lambda text: f" {text} ",
    lambda text: f"\n{text}\n",
    lambda text: f"<think>or {text} 17?</think>{text}",
]
MARKED: list[Callable[[str], str]] = [
    lambda text: f"**{text}**",
    lambda text: f"${text}$",
    lambda text: f"{text}.",
]


@pytest.mark.parametrize("name", SELF)
def test_rewritings_score_the_same(name: str) -> None:
    draw = random.Random(f"rewrite {name}")
    marked = MARKED if name in ("number", "choice", "yes_no", "text", "chart") else []
    for prompt in drawn_prompts(draw, name):
        right = as_answer(name, prompt.reference)
        wrong = as_answer(name, REFERENCES[name](draw))
        verifier = verifier_of(name)
        for rewrite in [*REWRITINGS, *marked]:
            for answer in (right, wrong):
                verdict = verifier(prompt, rewrite(answer))
                assert verdict.score == verifier(prompt, answer).score, (prompt.reference, verdict)


JOINS = (" ", ", ", " or ", "\n", "; ", " and ")


# The last JSON object of a grid's response is its answer, as the last box is. ANLS gives credit for
# what is alike, so it can only promise that two answers are never as good as the right one.
@pytest.mark.parametrize("name", [name for name in SELF if name != "grid"])
def test_a_second_answer_never_raises_the_score(name: str) -> None:
    draw = random.Random(f"hedge {name}")
    tried = 0
    for right, wrong in pairs_of(draw, name):
        prompt = Prompt(reference=right, options=OPTIONS.get(name, {}))
        verifier = verifier_of(name)
        alone = verifier(prompt, wrong).score
        tried += alone < 1
        for join in JOINS if alone < 1 else ():
            for hedge in (f"{right}{join}{wrong}", f"{wrong}{join}{right}"):
                verdict = verifier(prompt, hedge)
                assert verdict.score < 1 if name == "anls" else verdict.score <= alone, verdict
    assert tried > 20


def test_the_last_answer_of_a_form_counts_alone() -> None:
    verifier, prompt = MathVerifier(), Prompt(reference="7")
    assert verifier(prompt, r"\boxed{7} \boxed{8}").score == 0
    assert verifier(prompt, r"\boxed{8} \boxed{7}").score == 1
    assert Row(r"\boxed{7, 8}", "7", 0).judge("math").score == 0


if importlib.util.find_spec("hypothesis"):
    from hypothesis import given, settings
    from hypothesis import strategies as st

    @names
    @given(pieces=st.lists(st.one_of(st.sampled_from(SAMPLES), st.text(max_size=20)), max_size=12))
    @settings(max_examples=40, deadline=None, derandomize=True)
    def test_hypothesis_finds_no_answer_that_raises(name: str, pieces: list[str]) -> None:
        for prompt in prompts_of(name)[:2]:
            check(name, prompt, "".join(pieces))
