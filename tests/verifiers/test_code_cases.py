"""The collected programming cases: cheats fail, honest programs pass, but for what is declared."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from sandboxes import usable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.code import CodeVerifier
from sapo_vl.verifiers.official import LiveCodeBenchOfficial
from sapo_vl.verifiers.sandbox import Sandbox

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "verifier_cases.jsonl"
SANDBOX = Sandbox(seconds=2, memory_mb=512)

# id of a case -> why our score is not the expected one. There is none at present.
DIFFERENCES: dict[str, str] = {}
# The cases left to us.
DECLARED = {
    "vc-280": 1.0,  # 0.1 + 0.2 for 0.3: rel_tol
    "vc-294": 1.0,  # it may write a file and answer; the file is gone
    "vc-300": 1.0,  # the last block marked python, not the example output after it
}
# Where the public runner, as observed, and our official form differ: how it runs code is not kept.
OFFICIAL_DIFFERENCES = {
    "vc-274": "buffer.readline gives line after line",
    "vc-275": "sys.stdin can be iterated",
    "vc-277": "open(0) is the input",
    "vc-278": "code is not wrapped in a function, so global works",
    "vc-283": "results are compared as JSON outside: no __eq__ of theirs is called",
    "vc-284": "no expected output is in reach",
    "vc-285": "no expected output is in reach",
    "vc-286": "the comparison is in another process",
}


def cases() -> list[dict[str, Any]]:
    if not CASES.is_file():
        pytest.skip(
            "the collected cases (shared/cases/verifier_cases.jsonl) are not beside this tree"
        )
    usable(SANDBOX)
    found = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [case for case in found if case["kind"] == "code"]


def prompt_of(case: dict[str, Any]) -> Prompt:
    return Prompt(reference=json.dumps(case["reference"]))


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    rule, found = CodeVerifier(sandbox=SANDBOX), {}
    for case in cases():
        begin = time.monotonic()
        found[case["id"]] = rule(prompt_of(case), case["prediction"])
        assert time.monotonic() - begin < 20, case["id"]
    return found


def test_agreement_but_for_the_declared_differences(verdicts: dict[str, Verdict]) -> None:
    wrong = {}
    for case in cases():
        verdict, expected = verdicts[case["id"]], case["expected_reward"]
        same = expected is None or verdict.score == expected
        if same == (case["id"] in DIFFERENCES):
            wrong[case["id"]] = "agrees now: take it off the table" if same else verdict.reason
    assert wrong == {}
    assert set(DIFFERENCES) <= set(verdicts)


def test_the_open_cases_have_the_outcome_we_declare(verdicts: dict[str, Verdict]) -> None:
    undecided = {case["id"] for case in cases() if case["expected_reward"] is None}
    assert {key: verdicts[key].score for key in undecided} == DECLARED


def test_nothing_is_left_of_the_hostile_ones(verdicts: dict[str, Verdict]) -> None:
    assert "vc-294" in verdicts
    assert not os.path.exists("/tmp/escape_probe")


def test_the_official_form_differs_from_the_runner_as_declared() -> None:
    rule, wrong = LiveCodeBenchOfficial(sandbox=SANDBOX), {}
    for case in cases():
        observed = case["observed"]["livecodebench"]
        if isinstance(observed, str):  # it crashed, or nobody dared to run it
            continue
        verdict = rule(prompt_of(case), case["prediction"])
        same = verdict.score == observed
        if same == (case["id"] in OFFICIAL_DIFFERENCES):
            wrong[case["id"]] = "agrees now: take it off the table" if same else verdict.reason
    assert wrong == {}
