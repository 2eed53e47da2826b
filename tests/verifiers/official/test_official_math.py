"""What each official rule for mathematics accepts and refuses, its known oddities among them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sapo_vl.protocols import ChecksReference, Verifier
from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official import EXTRA, OFFICIAL
from sapo_vl.verifiers.official.latex_value import latex_value

PROMISED = (
    "mathvision_official mathvista_official mmmu_official chartqa_official docvqa_anls emma_fast "
    "zebralogic livecodebench refcoco dynamath_official visulogic_official wemath_official "
    "matharena_official puzzlevqa_official"
).split()
ABCD = {"A": "red", "B": "green", "C": r"$\frac{7}{2}$", "D": "blue"}


def judge(name: str, reference: str, response: str, **extra: Any) -> Verdict:
    arguments = extra.pop("arguments", {})
    return OFFICIAL[name](**arguments)(Prompt(reference=reference, **extra), response)


def test_the_promised_names() -> None:
    assert list(OFFICIAL) == PROMISED
    assert list(EXTRA) == ["code"]
    for name, rule in (OFFICIAL | EXTRA).items():
        assert isinstance(rule(), Verifier), name
        assert isinstance(rule(), ChecksReference), name
        assert pickle.loads(pickle.dumps(rule())) == rule(), name


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-2.50", -2.5),
        (r"\frac{7}{2}", 3.5),
        (r"$\displaystyle \frac{1}{4}$", 0.25),
        (r"\sqrt{2}", 2**0.5),
        (r"2\pi", 6.283185307179586),
        (r"\frac{3\pi}{2}}{cm", 4.71238898038469),  # reads up to the brace that closes nothing
        ("c", None),
        ("5cm", None),
        ("", None),
        (r"9^{9^{9}}", None),
        ("100000000!", None),
        (r"\frac{1}{0}", None),
        ("1" * 400, None),
        (r"\infty", None),
    ],
)
def test_values_of_formulas(text: str, value: float | None) -> None:
    assert latex_value(text) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [
        ("60", r"so \boxed{60}", 1),
        (r"\pi", r"\boxed{3.14159}", 1),  # two decimals
        (r"\frac{1}{60}", r"\boxed{\frac{1}{55}}", 1),
        ("60", "The answer is 60.", 1),
        ("60", r"\boxed{61}", 0),
        ("60", r"\boxed{61} or \boxed{60}", 1),  # the last box
        ("(0.5,3)", r"\boxed{(\frac{1}{2},3)}", 1),
        ("5", r"\boxed{x=5}", 1),
        ("5", "", 0),
        ("B", "I think it is (B).", 1),
    ],
)
def test_mathvision(reference: str, response: str, score: float) -> None:
    assert judge("mathvision_official", reference, response).score == score


def test_mathvision_takes_an_options_text_for_its_letter() -> None:
    assert judge("mathvision_official", "C", r"\boxed{3.5}", options=ABCD).score == 1
    assert judge("mathvision_official", "B", r"\boxed{3.5}", options=ABCD).score == 0
    assert judge("mathvision_official", "B", r"\boxed{Green}", options=ABCD).score == 1


@pytest.mark.parametrize(
    ("kind", "precision", "reference", "response", "score"),
    [
        ("integer", None, "3", "3.7", 1),  # cut, not rounded
        ("integer", None, "3", "three", 0),
        ("integer", None, "3", "inf", 0),
        ("float", 1, "1.2", "1.24", 1),
        ("float", 1, "1.2", "1.26", 0),
        ("float", 1, "1.2", "nan", 0),
        ("list", None, "[1, 2]", "[1, 2]", 1),
        ("list", None, "[1, 2]", "[1,2]", 0),
        ("text", None, "red", "red", 1),
    ],
)
def test_mathvista_values(
    kind: str, precision: int | None, reference: str, response: str, score: float
) -> None:
    meta = {"answer_type": kind, "precision": precision}
    assert judge("mathvista_official", reference, response, meta=meta).score == score


def test_mathvista_always_chooses_something() -> None:
    for response, reference in (("(B) or so", "green"), ("B", "green"), ("greeen", "green")):
        assert judge("mathvista_official", reference, response, options=ABCD).score == 1
    # Nothing at all is nearest to the shortest text.
    assert judge("mathvista_official", "red", "", options=ABCD).score == 1
    usable = OFFICIAL["mathvista_official"]()
    assert usable.check_reference(Prompt(reference="pink", options=ABCD)) is not None
    assert usable.check_reference(Prompt(reference="1", meta={"answer_type": "float"})) is not None


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [
        ("D", r"\boxed{\text{(D) } D}", 0),  # the last \text of the last box
        ("D", r"\boxed{\text{D}}", 1),
        ("b", r"\boxed{B}", 1),
        ("b", r"\boxed{green}", 1),
        ("C", r"\boxed{3.501}", 1),
        ("A", "A: red, or rather B", 1),  # the letter that opens
        ("3", "The answer is 3.5", 1),  # up to the first full stop
        ("3", "", 0),
    ],
)
def test_emma(reference: str, response: str, score: float) -> None:
    assert judge("emma_fast", reference, response, options=ABCD).score == score
