from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from math_verify.errors import TimeoutException

from sapo_vl.types import Prompt
from sapo_vl.verifiers import MathVerifier
from sapo_vl.verifiers.math_normal import normalise_math


def score(answer: str, reference: str, **arguments: float) -> float:
    verdict = MathVerifier(**arguments)(Prompt(reference=reference), rf"\boxed{{{answer}}}")  # type: ignore[arg-type]
    assert verdict.status in ("ok", "no_answer"), verdict
    return verdict.score


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (r"\dfrac38", r"\frac{3}{8}"),
        (r"\frac{360}7", r"\frac{360}{7}"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"\left( 3, x \right)", "( 3, x )"),
        ("1{,}234{,}567", "1234567"),
        ("1,234", "1234"),
        ("12, 34", "12, 34"),
        (r"35\text{ cm}^2", "35"),
        (r"12\,\mathrm{cm}", "12"),
        ("7 red apples", "7"),
        ("2 x", "2 x"),
        ("69{degrees}", "69"),
        (r"8\sqrt{3}{squareinches}", r"8\sqrt{3}"),
        ("\x0crac{36}{13}", r"\frac{36}{13}"),
        (r"$\boxed{\frac{16}{7}}$", r"\frac{16}{7}"),
        (r"\$18.90", "18.90"),
        ("27 percent", r"27\%"),
        (r"\text{Sunday}", "Sunday"),
        ("12.", "12"),
        ("**73**", "73"),
        ("x\u00b2", "x^2"),
        (r"x=1\text{ or }x=-2", "x=1, x=-2"),
        ("left or right", "left or right"),
    ],
)
def test_spellings(text: str, normal: str) -> None:
    assert normalise_math(text) == normal


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("0.375", r"\frac{3}{8}"),
        ("3/8", r"\frac{3}{8}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        (r"\frac{x}{7}+\frac{2}{7}", r"\frac{x+2}{7}"),
        ("x=4", "4"),
        ("4", "x=4"),
        ("2, -2", r"\pm 2"),
        ("3, 1, 2", "1, 2, 3"),
        ("x<3", r"(-\infty,3)"),
        (r"\frac{100}{3}", "33.3"),
        ("33.33", "33.3"),
        ("4.1231056", r"\sqrt{17}"),
        ("0.3333333", r"\frac{1}{3}"),
        (r"50\%", "0.5"),
        (r"50\%", "50"),
        ("0.5", r"50\%"),
        ("1.5e3", "1500"),
        ("2^{10}", "1024"),
        ("x**2", "x^2"),
        (r"\infty", r"\infty"),
        ("sunday", "Sunday"),
        ("52", "52_8"),
        ("xy=1", r"y=\frac{1}{x}"),
        ("-34x-45y+20z-100=0", "34x+45y-20z+100=0"),
        ("f(x)=x^2+1", "f(x)=1+x^2"),
        ("f(x)=x^2+1", "x^2+1"),
        ("|x|", r"\sqrt{x^2}"),
        (r"\tan^2(y)+1", r"\sec^2(y)"),
        ("x=2, y=3", "y=3, x=2"),
        (r"x\ge 3", r"[3,\infty)"),
        ("1<x<3", "(1,3)"),
        (r"\frac{1}{3}", r"\frac{100}{3}\%"),
        (r"\frac{1}{2}\%", "0.005"),
        ("3+4i", "4i+3"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
    ],
)
def test_equal(answer: str, reference: str) -> None:
    assert score(answer, reference) == 1


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("3.14159", r"\pi"),
        ("3.14", r"\pi"),
        ("0.333", r"\frac{1}{3}"),
        ("0.46", "0.5"),
        ("33", "33.3"),
        ("33.4", "33.3"),
        ("50", "0.5"),
        ("0.0000002", "0.0000001"),
        (r"\frac{1}{2006!}", r"\frac{1}{2004!}"),
        (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}"),
        ("(0,1)", "[0,1)"),
        ("1", "-2, 1"),
        ("2", r"\pm 2"),
        ("1, 2, 3, 4", "2"),
        ("528", "52_8"),
        ("52_7", "52_8"),
        (r"4\sqrt(2)", "4"),
        ("5i", "5"),
        ("x", "y"),
        ("yadnuS", "Sunday"),
        ("1267650600228229401496703205377", "2^{100}"),
        ("12:00", "1:00"),
        (r"1, 3, 5, \ldots, 2n-1", r"1, 2, \ldots, n"),
        ("10000000000000000000001", "10000000000000000000000"),
        (r"90^{\circ}", r"\frac{\pi}{2}"),
        ("", "5"),
        ("5 million", "5"),
        ("x", r"\sqrt{x^2}"),
        ("0=0", "x=1"),
        ("x=1", "x=2"),
        ("x>3", r"[3,\infty)"),
        ("(2,1)", "(1,2)"),
        (r"-\infty", r"\infty"),
        ("3-4i", "3+4i"),
        (r"\begin{pmatrix}1&2\\3&5\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    ],
)
def test_different(answer: str, reference: str) -> None:
    assert score(answer, reference) == 0


@pytest.mark.parametrize(
    "reference", ["", " ", "nan", "NaN", r"\sqrt{", "1 + ", r"\boxed{}", "1/0"]
)
def test_an_unusable_reference_is_named(reference: str) -> None:
    verifier = MathVerifier()
    assert verifier.check_reference(Prompt(reference=reference))
    verdict = verifier(Prompt(reference=reference), rf"\boxed{{{reference}}}")
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")


def test_no_box_equals_no_reference() -> None:
    verdict = MathVerifier()(Prompt(reference="None"), "I could not find it.")
    assert (verdict.score, verdict.status, verdict.extracted) == (0, "no_answer", None)


def test_the_same_verdict_from_a_thread() -> None:
    prompt, response = Prompt(reference=r"\frac{x+2}{7}"), r"\boxed{\frac{x}{7}+\frac{2}{7}}"
    assert threading.current_thread() is threading.main_thread()
    with ThreadPoolExecutor(1) as pool:
        verdict = pool.submit(MathVerifier(), prompt, response).result()
    assert verdict == MathVerifier()(prompt, response)
    assert verdict.score == 1


@pytest.mark.parametrize(
    ("failure", "status"), [(TimeoutException(), "timeout"), (TypeError("odd"), "error")]
)
def test_a_failing_comparison_is_said(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException, status: str
) -> None:
    def fail(*_: object) -> bool:
        raise failure

    monkeypatch.setattr("sapo_vl.verifiers.math.math_equal", fail)
    verdict = MathVerifier()(Prompt(reference="3"), r"\boxed{4}")
    assert (verdict.score, verdict.status, verdict.extracted) == (0, status, "4")


def test_no_signal_handler_is_left() -> None:
    before = signal.getsignal(signal.SIGALRM)
    assert score(r"\frac{x}{7}+\frac{2}{7}", r"\frac{x+2}{7}") == 1
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.alarm(0) == 0


@pytest.mark.parametrize("arguments", [{"rel_tol": -1.0}, {"rel_tol": 1.0}, {"timeout_seconds": 0}])
def test_bad_arguments_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="it must"):
        MathVerifier(**arguments)  # type: ignore[arg-type]
