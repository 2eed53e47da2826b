"""A policy that sees scores alone finds nothing that pays more than honest guessing.

Twenty thousand verdicts here, a million with -m slow or scripts/attack_verifiers.py. Official rules
are attacked as well: that their known oddities are found shows that the attack is strong enough.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from sandboxes import LIMITS, usable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import MathVerifier
from sapo_vl.verifiers.attack.places import best_giou
from sapo_vl.verifiers.attack.programs import code_targets
from sapo_vl.verifiers.attack.report import all_targets, attack_all, failures, main
from sapo_vl.verifiers.attack.search import Attack
from sapo_vl.verifiers.attack.targets import Target, best_guess, hidden_set, widest_window


@pytest.fixture(scope="module")
def found() -> Mapping[str, dict[str, Any]]:
    return attack_all(20_000, 0, seed=0)


def test_nothing_pays_more_than_honest_guessing(found: Mapping[str, dict[str, Any]]) -> None:
    assert failures(dict(found)) == []
    assert sum(one["verdicts"] for one in found.values()) >= 19_000
    assert sum(one["rechecked"] for one in found.values()) > 500


def test_honest_guessing_is_found_at_least(found: Mapping[str, dict[str, Any]]) -> None:
    for target in all_targets():
        best = found[target.name]["best_mean"]
        if found[target.name]["responses"] < len(target.words):
            continue  # the verdicts were used up before
        # Of the best box, and the best pair of boxes, only a search over corners comes near.
        near = 0.8 if target.name in ("box: giou", "box: pairs") else 1 - 1e-5
        assert best >= near * target.honest, target.name


def test_what_official_rules_pay_for_is_found(found: Mapping[str, dict[str, Any]]) -> None:
    for name in ("refcoco", "chartqa_official"):
        assert found[name]["best_mean"] > 2 * found[name]["honest"], name


class Careless:
    """Any box, any order, any number of answers: what a rule must not be."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        if "raise" in response:
            raise RuntimeError("broken")
        return Verdict(score=1.5 if "or" in response else float(prompt.reference in response))


def test_a_careless_rule_is_seen_through() -> None:
    words = ("red", "blue", "raise")
    target = Target("careless", Careless, hidden_set(("red", "blue")), 1 / 2, words)
    seen = Attack(target, 2_000, seed=0).run()
    assert seen.best_mean > 1
    assert seen.exploits
    assert seen.raised
    assert seen.out_of_range
    assert not seen.unstable


def test_code_that_cheats_gains_nothing() -> None:
    usable(LIMITS)
    (target,) = code_targets()
    seen = Attack(target, 60, seed=0).run()
    assert seen.best_mean <= target.honest
    assert seen.faults == 0


def test_baselines_are_what_they_say() -> None:
    assert best_guess({"a": ("x", "y"), "b": ("y",), "c": ("z",)}) == 2 / 3
    assert widest_window([(0, 2), (1, 3), (2, 4), (9, 9)]) == 3 / 4
    assert 0.5 < best_giou() < 0.6


def test_every_prompt_appears_with_every_reference() -> None:
    seen = ({"question": "a"}, {"question": "b"})
    prompts = hidden_set(("1", "2"), seen)
    pairs = {(p.reference, p.messages[0]["content"]) for p in prompts}
    assert pairs == {("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")}


def test_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    arguments = ["--verdicts", "20000", "--only", "yes_no", "refcoco", "--json", str(out)]
    assert main(arguments) == 0
    assert set(json.loads(out.read_text())) == {"yes_no", "refcoco"}
    assert "nothing pays more" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--only", "nonsense"])
    assert "no target is called nonsense" in capsys.readouterr().err


# What attacks and reviews have found, so that it stays closed: the response earned more than it
# may, or was right without being so.
CLOSED = [
    ("A", "a"),  # letters lost their case
    (r"\{1, 2\}", "(1,2)"),
    ("1,2", "(1,2)"),
    ("3:5:4", "3:4:5"),
    ("3(4)", "7"),
    ("(1) 20", "21"),
    (r"2^{1000}+1", r"2^{1000}"),
    (r"5\text{ million}", "5"),
    (r"\frac{1}{2} \frac{1}{1}", r"\frac{1}{2}"),
    ("3 left", "3 right"),
    (r"2x\begin{pmatrix}1\\2\end{pmatrix}", "7"),  # the comparison recursed without end
    (r"-3\begin{pmatrix}1&2\\3&4\end{pmatrix}\infty", "33.3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}(3, 4)", "33.3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}^{2}", "33.3"),
    (r"3:4x=5, y=6\begin{pmatrix}1&2\\3&4\end{pmatrix}", "x=5, y=6"),
]


@pytest.mark.parametrize(("answer", "reference"), CLOSED)
def test_what_was_found_stays_closed(answer: str, reference: str) -> None:
    verdict = MathVerifier()(Prompt(reference=reference), rf"\boxed{{{answer}}}")
    assert (verdict.score, verdict.status) == (0, "ok")


@pytest.mark.slow
def test_a_million_verdicts() -> None:
    found = attack_all(1_000_000, 0, seed=0)
    assert sum(one["verdicts"] for one in found.values()) >= 1_000_000
    assert failures(found) == []
