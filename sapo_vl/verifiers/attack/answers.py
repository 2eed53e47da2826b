r"""Targets whose references are values and words: formulas, labels, numbers, charts."""

from __future__ import annotations

import itertools

from sapo_vl.verifiers.anls import AnlsVerifier
from sapo_vl.verifiers.attack.targets import (
    Target,
    Visible,
    best_guess,
    hidden_set,
    widest_window,
)
from sapo_vl.verifiers.chart import ChartVerifier
from sapo_vl.verifiers.choice import ChoiceVerifier
from sapo_vl.verifiers.combined import CombinedVerifier
from sapo_vl.verifiers.format import FormatVerifier
from sapo_vl.verifiers.language import LanguagePenalty
from sapo_vl.verifiers.math import MathVerifier
from sapo_vl.verifiers.number import NumberVerifier
from sapo_vl.verifiers.text import TextVerifier
from sapo_vl.verifiers.yes_no import YesNoVerifier

_BOX = r"\boxed{%s}"

# No two of them mean the same, so the best guess is right for one.
FORMULAS = (
    *(
        "7",
        "-3",
        "0",
        "1200",
        "0.6",
        r"\frac{3}{8}",
        r"\sqrt{2}",
        r"2\pi",
        r"x^{2}+1",
        "2x",
        "3+4i",
    ),
    *("[0, 1)", "(0, 1)", "[0, 1]", r"\{1, 2\}", r"\{1, 2, 3\}", r"\pm 2", "(3, 4)", "(4, 3)", "A"),
    *("x > 3", r"[3, \infty)", r"(-\infty, 3)", r"(0,9) \cup (9,36)", r"\infty", r"\emptyset"),
    *(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", "y = 2x + 1"),
    *(
        "Sunday",
        "33.3",
        "3:4",
        "2:3:5",
        "x=5, y=6",
        "10^{30}",
        "10^{-30}",
        r"2^{1000}",
        "52_8",
        "a",
    ),
    *(
        r"\frac{x}{x+1}",
        r"\sin x",
        r"e^{x}",
        r"\text{no solution}",
        "12:00",
        r"1, 2, \ldots, n",
        "n",
    ),
)
# 50\% may stand for both 50 and 0.5: data sets drop the sign, and public cases ask for both.
PERCENTS = {
    "50": ("50", r"50\%"),
    "0.5": ("0.5", r"50\%"),
    r"50\%": (r"50\%", "0.5", "50"),
    "5": ("5", r"5\%"),
    "0.05": ("0.05", r"5\%"),
    "500": ("500", r"500\%"),
}
OPTIONS: tuple[Visible, ...] = (
    {"question": "Which?", "options": {"A": "12", "B": "18", "C": "24", "D": "30"}},
    {
        "question": "Who is it?",
        "options": {"A": "a cat", "B": "a dog", "C": "both", "D": "neither"},
    },
    {"question": "Which letter?", "options": {"A": "D", "B": "C", "C": "B", "D": "A"}},
    {
        "question": "What is the value?",
        "options": {
            "A": r"$\frac{1}{2}$",
            "B": r"$\frac{\sqrt{3}}{2}$",
            "C": "0.50",
            "D": "A and B",
        },
    },
)
NUMBERS = (
    *("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "12", "20", "21", "70", "77", "100"),
    *("-1", "-7", "0.5", "1.5", "2.25", "1000", "1024", "3000000", "1e-6"),
)
# No letter is in two words, so no text is nearer than half way to two of them.
LETTERS = ("abba", "cdcd", "efef", "ghhg", "ijij", "klkl", "mnnm", "opop", "qrqr", "stst", "uvuv")
CHARTS = (
    *("12", "57", "100", "103", "240", "1000", "2008", "2009", "2010", "0", "-5", "3.4 million"),
    *("Blue", "light blue", "China", "Yes", "[3, 4]", "[4, 3]", "8%", "42%"),
)


def value_targets() -> list[Target]:
    """Return the targets whose answers are formulas and numbers."""
    return [
        Target(
            "math", MathVerifier, hidden_set(FORMULAS), 1 / len(FORMULAS), FORMULAS, _BOX, share=3
        ),
        Target(
            "math: percent",
            MathVerifier,
            hidden_set(PERCENTS),
            best_guess(PERCENTS),
            tuple(sorted({a for answers in PERCENTS.values() for a in answers})),
            _BOX,
        ),
        Target(
            "number", NumberVerifier, hidden_set(NUMBERS), 1 / len(NUMBERS), NUMBERS, _BOX, share=2
        ),
        _tolerant_number(),
        _chart(),
    ]


def word_targets() -> list[Target]:
    """Return the targets whose answers are labels and words."""
    single = tuple("ABCD")
    several = tuple(", ".join(c) for k in (1, 2, 3) for c in itertools.combinations("ABCD", k))
    texts = tuple({str(t): 0 for seen in OPTIONS for t in seen["options"].values()})
    words = (*single, *several, *texts)
    return [
        Target("choice", ChoiceVerifier, hidden_set(single, OPTIONS), 1 / 4, words, _BOX, share=2),
        Target(
            "choice: several letters",
            ChoiceVerifier,
            hidden_set(several, OPTIONS),
            1 / len(several),
            words,
            _BOX,
            share=2,
        ),
        _unseen_options(),
        Target(
            "yes_no",
            lambda: YesNoVerifier(form="whole"),
            hidden_set(("yes", "no")),
            1 / 2,
            ("yes", "no", "true", "false", "Yes.", "No.", "it is", "not", "maybe"),
            share=2,
        ),
        Target(
            "text",
            lambda: TextVerifier(form="answer_tag"),
            hidden_set(LETTERS),
            1 / len(LETTERS),
            LETTERS,
            "<answer>%s</answer>",
            share=2,
        ),
        Target(
            "anls",
            lambda: AnlsVerifier(form="whole"),
            hidden_set(LETTERS),
            1 / len(LETTERS),
            (*LETTERS, *"abcdefgh"),
            share=2,
        ),
        _combined(),
    ]


def _unseen_options() -> Target:
    return Target(
        "choice: no options",
        lambda: ChoiceVerifier(form="answer_line"),
        hidden_set("ABCDEFGHIJ"),
        1 / 10,
        tuple("ABCDEFGHIJ"),
        "so\nAnswer: %s",
    )


def _tolerant_number() -> Target:
    values = [float(text) for text in NUMBERS]
    windows = [(v - max(0.5, 0.1 * abs(v)), v + max(0.5, 0.1 * abs(v))) for v in values]
    return Target(
        "number: tolerances",
        lambda: NumberVerifier(form="whole", abs_tol=0.5, rel_tol=0.1),
        hidden_set(NUMBERS),
        widest_window(windows),
        (*NUMBERS, "0.25", "6.5", "11"),
    )


def _chart() -> Target:
    # 100 and 103 share a window; 8% and 42% are 0.08 and 0.42; words and lists have their own.
    numbers = {
        "3.4 million": 3.4e6,
        "8%": 0.08,
        "42%": 0.42,
        "2008": 2008,
        "2009": 2009,
        "2010": 2010,
    }
    numbers |= {text: float(text) for text in CHARTS[:11]}
    exact = {"2008", "2009", "2010"}
    windows = [
        (v - (0 if text in exact else 0.05) * abs(v), v + (0 if text in exact else 0.05) * abs(v))
        for text, v in numbers.items()
    ]
    honest = widest_window(windows) * len(windows) / len(CHARTS)
    words = (*CHARTS, "101.5", "0.08", "0.42", "3400000")
    return Target(
        "chart", lambda: ChartVerifier(form="whole"), hidden_set(CHARTS), honest, words, share=2
    )


def _combined() -> Target:
    def make() -> CombinedVerifier:
        return CombinedVerifier(
            {"answer": NumberVerifier(), "shape": FormatVerifier(), "language": LanguagePenalty()},
            gates=["shape", "language"],
        )

    return Target(
        "combined",
        make,
        hidden_set(NUMBERS, ({"question": "How many apples are on the table here?"},)),
        1 / len(NUMBERS),
        NUMBERS,
        r"<think>a</think>\boxed{%s}",
        extra=("<think>", "</think>", "桌子上一共有三个苹果"),
    )
