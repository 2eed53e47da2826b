"""The collected hard cases: agreement is demanded but for the differences declared below."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from sapo_vl.types import Prompt, Verdict, Verifier
from sapo_vl.verifiers import ChoiceVerifier, MathVerifier, NumberVerifier

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "verifier_cases.jsonl"
KINDS: dict[str, type] = {
    "math": MathVerifier,
    "robust": MathVerifier,
    "mcq": ChoiceVerifier,
    "mcq_multi": ChoiceVerifier,
    "number": NumberVerifier,
}
SECONDS = 10.0  # of one case, in a process of its own: a hang fails the test and nothing more

DIFFERENCES = {
    "vc-009": "no symbol is assumed positive; the policy of the case allows 0",
    "vc-114": "a system of equations is not read as an ordered pair",
    "vc-116": r"\boxed without braces has no end that a cut response could lack",
    "vc-191": "two option texts are mentioned; the policy of the case allows 0",
    "vc-192": "a discussion of several labels is no answer, whichever comes last",
    "vc-212": "1.4 billion is a number of its own, not a unit; the policy of the case allows 0",
}


def load() -> list[dict[str, Any]]:
    if not CASES.is_file():
        return []
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if case["kind"] in KINDS]


def response_of(case: dict[str, Any]) -> str:
    if "prediction_parts" in case:
        return "".join(text * times for text, times in case["prediction_parts"])
    return case["prediction"]


def form_of(case: dict[str, Any], response: str) -> str:
    """Return where the case's prompt asked for the answer, as its text shows."""
    if case["kind"] in ("math", "robust"):
        return "boxed"
    if "answer:" in response.lower():  # before the box: vc-186 has both and the line decides
        return "answer_line"
    return "boxed" if r"\boxed" in response else "whole"


def serve(pipe: Connection) -> None:
    while True:
        kind, form, prompt, response = pipe.recv()
        verifier: Verifier = KINDS[kind](form=form)
        pipe.send(verifier(prompt, response))


class Worker:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()

    def judge(self, case: dict[str, Any], seconds: float) -> Verdict | None:
        response = response_of(case)
        prompt = Prompt(reference=case["reference"], options=case.get("options") or {})
        self.pipe.send((case["kind"], form_of(case, response), prompt, response))
        return self.pipe.recv() if self.pipe.poll(seconds) else None

    def close(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | None]:
    cases = load()
    if not cases:
        pytest.skip(
            "the collected cases (shared/cases/verifier_cases.jsonl) are not beside this tree"
        )
    return dict(judge_all(cases))


def judge_all(cases: list[dict[str, Any]]) -> Iterator[tuple[str, Verdict | None]]:
    worker, seconds = Worker(), 60.0  # the first case waits for the imports
    try:
        for case in cases:
            verdict = worker.judge(case, seconds)
            seconds = SECONDS
            if verdict is None:
                worker.close()
                worker, seconds = Worker(), 60.0
            yield case["id"], verdict
    finally:
        worker.close()


def test_every_case_ends_in_time_without_an_exception(
    verdicts: dict[str, Verdict | None],
) -> None:
    assert [key for key, verdict in verdicts.items() if verdict is None] == []
    odd = {k: v.reason for k, v in verdicts.items() if v and v.status in ("error", "timeout")}
    assert odd == {}


def test_agreement_but_for_the_declared_differences(verdicts: dict[str, Verdict | None]) -> None:
    agreed: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for case in load():
        verdict, expected = verdicts[case["id"]], case["expected_reward"]
        same = verdict is not None and (expected is None or verdict.score == expected)
        agreed[case["kind"]] += same
        if same == (case["id"] in DIFFERENCES):
            state = "agrees now: take it off the table" if same else f"{verdict} for {expected}"
            wrong[case["id"]] = state
    total = Counter(case["kind"] for case in load())
    print({kind: f"{agreed[kind]} of {total[kind]}" for kind in total})
    assert wrong == {}
    assert set(DIFFERENCES) <= set(verdicts)


def test_the_open_cases_have_the_outcome_we_declare(verdicts: dict[str, Verdict | None]) -> None:
    declared = {
        "vc-145": (0.0, "ok"),  # 3000 parentheses: compared as a string
        "vc-157": (0.0, "unparsable_reference"),
        "vc-161": (0.0, "unparsable_reference"),  # nan
        "vc-328": (0.0, "ok"),  # 3.5 m for 350 cm: units are not converted
        "vc-329": (1.0, "ok"),  # 12 cm for 12 cm^2: units are not graded
    }
    found = {key: verdicts[key] for key in declared}
    assert {k: (v.score, v.status) for k, v in found.items() if v is not None} == declared
    undecided = {case["id"] for case in load() if case["expected_reward"] is None}
    assert undecided == set(declared)
