"""What every verifier promises."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import EXTRA, FORMS, OFFICIAL, TRAINING, VERIFIERS

GRID = '{"House 1": {"Name": "%s"}}'
REFERENCE = {
    "math": r"\frac{1}{2}",
    "choice": "B",
    "number": "3",
    "yes_no": "no",
    "text": "red",
    "box": "[100, 200, 300, 400]",
    "point": "[100, 200]",
    "grid": GRID % "Eric",
    "anls": "red",
    "chart": "30%",
}
RIGHT = REFERENCE | {"grid": f'{{"solution": {GRID % "Eric"}}}'}
WRONG = {
    "math": "2",
    "choice": "A",
    "number": "4",
    "yes_no": "yes",
    "text": "blue",
    "box": "[600, 600, 700, 700]",
    "point": "[600, 600]",
    "grid": f'{{"solution": {GRID % "Bob"}}}',
    "anls": "blue",
    "chart": "40%",
}
WRAP = {
    "boxed": r"so \boxed{%s}",
    "answer_tag": "so <answer>%s</answer>",
    "answer_line": "so\nAnswer: %s",
    "whole": "%s",
}

names = pytest.mark.parametrize("name", list(REFERENCE))


def prompt_for(name: str) -> Prompt:
    options = {"A": "one", "B": "two"} if name == "choice" else {}
    return Prompt(reference=REFERENCE[name], options=options)


def test_the_promised_names() -> None:
    promised = "math choice number yes_no text box point grid".split()
    assert list(TRAINING) == [*promised, "anls", "chart", "format"]
    assert list(VERIFIERS) == [*TRAINING, *EXTRA, *OFFICIAL]
    assert set(TRAINING) == {*REFERENCE, "format"}


@names
@pytest.mark.parametrize("form", FORMS)
def test_every_form_scores_right_and_wrong(name: str, form: str) -> None:
    verifier = VERIFIERS[name](form=form)
    assert isinstance(verifier, Verifier)
    right = verifier(prompt_for(name), WRAP[form] % RIGHT[name])
    shown = REFERENCE if name == "grid" else RIGHT  # the grid alone, without what stands around it
    assert right == Verdict(
        score=1.0, extracted=shown[name], reason=right.reason, parts=right.parts
    )
    assert right.reason
    wrong = verifier(prompt_for(name), WRAP[form] % WRONG[name])
    assert (wrong.score, wrong.status) == (0, "ok")
    assert wrong.extracted


@names
def test_no_answer_is_said(name: str) -> None:
    for response in ("", "no box", r"\boxed{", r"\boxed{}"):
        verdict = VERIFIERS[name](form="boxed")(prompt_for(name), response)
        assert (verdict.score, verdict.status, verdict.extracted) == (0, "no_answer", None)
    boxed = rf"\boxed{{{RIGHT[name]}}}"
    thinking = VERIFIERS[name](form="boxed", thinking=True)
    assert thinking(prompt_for(name), boxed).status == "no_answer"
    assert thinking(prompt_for(name), f"</think>{boxed}").score == 1


@names
def test_a_copy_through_pickle_scores_the_same(name: str) -> None:
    verifier = VERIFIERS[name](form="whole")
    copy = pickle.loads(pickle.dumps(verifier))
    assert copy == verifier
    assert copy(prompt_for(name), RIGHT[name]).score == 1


@names
def test_references_are_checked(name: str) -> None:
    verifier = VERIFIERS[name]()
    assert verifier.check_reference(prompt_for(name)) is None
    assert verifier.check_reference(Prompt(reference=""))
    verdict = verifier(Prompt(reference=""), r"\boxed{3}")
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")


@names
def test_an_unknown_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="form is 'box'"):
        VERIFIERS[name](form="box")


@names
def test_yaml_names_a_verifier_by_its_class(name: str) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--verifier", type=Verifier)
    kind = VERIFIERS[name]
    given: dict[str, Any] = {
        "class_path": f"sapo_vl.verifiers.{kind.__name__}",
        "init_args": {"form": "whole", "thinking": True},
    }
    config = parser.parse_object({"verifier": given})
    assert parser.instantiate_classes(config).verifier == kind(form="whole", thinking=True)


@names
@pytest.mark.parametrize(
    "answer", ["\x00\U0001f600", "\ud800", "a " * 50_000, "((((" * 5_000, "\\" * 5_000, "$" * 5_000]
)
def test_garbage_scores_nothing(name: str, answer: str) -> None:
    for form in ("boxed", "whole"):
        response = rf"\boxed{{{answer}}}" if form == "boxed" else answer
        assert VERIFIERS[name](form=form)(prompt_for(name), response).score == 0
