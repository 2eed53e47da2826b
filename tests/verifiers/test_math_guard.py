from __future__ import annotations

import time

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import MathVerifier
from sapo_vl.verifiers.math_guard import why_refused

SLOW = [
    "9^{9^{9}}",
    "9^9^9",
    "{9^{999}}^{9^9}",
    "9^{999}^{999}",
    "9^{x+9^{3000}}",
    r"5^{(5^{(5^{5})}-4)}",
    "2^{99999}",
    "100000000!",
    "(10^9)!",
    "10^9!",
    "9!!",
    "3000!^{3000}",
    "(1000000000)_{5}",
    r"\binom{10^9}{5}",
    "(x+1)^{5000}",
    "(((x+1)^{30}+1)^{30}+1)^{30}",
    "(x+y+z+w+a+b+c+d)^{32}",
    "(a+b)(c+d)(e+f)(g+h)(i+j)(k+l)(m+n)(o+p)(q+r)(s+t)(u+v)(w+x)",
    "x^{3000}y^{3000}z^{3000}",
    r"\sum_{k=1}^{10^{12}} \frac{1}{k^2}",
    r"\int_0^1 x^{x} dx",
    r"\operatorname{expand}(x)",
    "(" * 30 + "1" + ")" * 30,
    "1" * 61,
    "1" * 400,
    "{",
    "}{",
    '__import__("os").system("true")',
    "\x00\U0001f600",
    "",
]

FINE = [
    r"\frac{-b+\sqrt{b^2-4ac}}{2a}",
    "e^{-x^2}",
    "2^{n^2}",
    "2^{2024}",
    r"\frac{1}{2006!}",
    "(x+1)^{10}",
    "x^{100}-1",
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
    r"(-\infty,3]\cup\{5\}",
    r"\frac{a(b+c)(b-c)}{(a+d)(d+c)}",
    r"\sin^2(x)+\cos^2(x)",
    r"x\ge 3",
]

# Allowed by the guard because they are cheap: evaluated lazily or numerically.
CHEAP = [
    r"\exp(\exp(\exp(\exp(9))))",
    r"\lfloor 10^{3000}\pi \rfloor",
    "(2^{3000}+1)^{100}",
    r"\tan(\tan(\tan(9999999)))",
    r"2999!\cdot 2999!\cdot 2999!",
    "x^{12}+y^{11}x^{7}+xy=3",
    r"e^{x}+\sin(x)+x^4=3",
    r"x<x^4+\sin(x)",
    # Found by random search: simplifying or solving these takes minutes.
    "n^{999}",
    r"\sqrt{2.12\%}5.5^{2}\infty-x2^{99}",
    r"\frac{x+1}{y-2}^{3}*3=(x+y+z)",
    r"\tan(x+1)\sin(x)+y^3=3",
]


@pytest.mark.parametrize("text", SLOW)
def test_slow_formulas_are_refused(text: str) -> None:
    assert why_refused(text) is not None


@pytest.mark.parametrize("text", FINE)
def test_ordinary_formulas_are_not(text: str) -> None:
    assert why_refused(text) is None


@pytest.mark.parametrize("answer", SLOW + CHEAP)
def test_no_answer_is_slow(answer: str) -> None:
    verifier = MathVerifier(timeout_seconds=2)
    for reference in ("7.5", r"\sin(x)", "x^2+y=3", "(0,1)"):
        started = time.monotonic()
        assert verifier(Prompt(reference=reference), rf"\boxed{{{answer}}}").score == 0
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "piece", ["7", "wait ", "(", ")", "1,", "1:", r"\frac{1}{2} ", "x=1, ", "一"]
)
def test_long_answers_cost_little(piece: str) -> None:
    for wrap in ("%s", "(%s)", r"\{%s\}", r"x \approx %s", "The answer is %s"):
        answer = wrap % (piece * (400_000 // len(piece)))
        began = time.process_time()
        verdict = MathVerifier(form="whole")(Prompt(reference="(1, 2)"), answer)
        assert time.process_time() - began < 1.0
        assert verdict.score == 0
