from __future__ import annotations

import math

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import NumberVerifier


def score(answer: str, reference: str, **arguments: float) -> float:
    verdict = NumberVerifier(form="whole", **arguments)(Prompt(reference=reference), answer)  # type: ignore[arg-type]
    assert verdict.status in ("ok", "no_answer")
    return verdict.score


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("7", "7"),
        ("07", "7"),
        ("7.", "7"),
        ("7.0", "7"),
        ("seven", "7"),
        ("Seven.", "7"),
        ("7", "seven"),
        ("7 cats", "7"),
        ("There are 7 cats in the picture.", "7"),
        ("7 (seven)", "7"),
        ("about 7", "7"),
        ("**7**", "7"),
        ("$7$", "7"),
        (r"\text{seven}", "7"),
        ("\uff11\uff12", "12"),
        ("zero", "0"),
        ("twenty-one", "21"),
        ("ninety nine", "99"),
        ("one hundred", "100"),
        ("hundred", "100"),
        ("one hundred and five", "105"),
        ("two dozen", "24"),
        ("five thousand", "5000"),
        ("1,024", "1024"),
        ("1{,}024", "1024"),
        ("1,234,567.5", "1234567.5"),
        ("35 cm\u00b2", "35"),
        (r"35\text{ cm}^2", "35"),
        (r"75^\circ", "75"),
        ("50%", "50"),
        (r"50\%", "50"),
        ("$18.90", "18.9"),
        ("-3", "-3"),
        ("\u22123", "-3"),
        ("minus three", "-3"),
        ("x = 7", "7"),
        ("1/2", "0.5"),
        (r"\frac{1}{2}", "0.5"),
        (r"6.02\times10^{23}", "6.02e23"),
        ("[2007, 2008]", "[2007, 2008]"),
        ("12345678901234567890", "12345678901234567890"),
    ],
)
def test_accepted(answer: str, reference: str) -> None:
    assert score(answer, reference) == 1


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("13", "3"),
        ("3", "13"),
        ("3.7", "3"),
        ("-3", "3"),
        ("1 2 3 4 5", "5"),
        ("1, 2, 3, 4, 5", "5"),
        ("one two three four five", "5"),
        ("one two three four five", "15"),
        ("7 or 8", "7"),
        ("6-7", "7"),
        ("7-7", "7"),
        ("3 + 4", "7"),
        ("3 + 4 = 7", "7"),
        ("12:30", "12"),
        ("1.2.3", "1.2"),
        ("2^3", "2"),
        (r"\sqrt{9}", "9"),
        (r"3\pi", "3"),
        ("x7", "7"),
        ("someone", "1"),
        ("one-third", "1"),
        ("1.4 billion", "1.4"),
        ("[2007, 2008]", "2007"),
        ("[2008, 2007]", "[2007, 2008]"),
        ("none", "0"),
        ("", "0"),
        ("nan", "0"),
        ("inf", "0"),
        ("1/0", "1"),
        ("12345678901234567891", "12345678901234567890"),
        ("1" * 5000, "1"),
        ("9e999999999", "9"),
    ],
)
def test_rejected(answer: str, reference: str) -> None:
    assert score(answer, reference) == 0


def test_tolerances() -> None:
    assert score("10.4", "10", abs_tol=0.5) == 1
    assert score("10.6", "10", abs_tol=0.5) == 0
    assert score("10.5", "10", rel_tol=0.05) == 1
    assert score("-10.6", "-10", rel_tol=0.05) == 0
    assert score("0.1", "0", rel_tol=0.05) == 0


@pytest.mark.parametrize("reference", ["", "nan", "inf", "-inf", "NaN", "seven or eight", "cats"])
def test_an_unusable_reference_is_named(reference: str) -> None:
    verifier = NumberVerifier(form="whole")
    assert verifier.check_reference(Prompt(reference=reference))
    verdict = verifier(Prompt(reference=reference), reference or "7")
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_bad_tolerance_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="abs_tol"):
        NumberVerifier(abs_tol=value)
    with pytest.raises(ValueError, match="rel_tol"):
        NumberVerifier(rel_tol=value)
