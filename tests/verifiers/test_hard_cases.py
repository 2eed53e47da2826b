"""The collected hard cases: agreement is demanded but for the differences declared below."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hard_cases import load, load_all, prompt_of, response_of

from sapo_vl.evaluation import AvgAtN
from sapo_vl.types import Verdict
from sapo_vl.verifiers import VerifierPool

SECONDS = 10.0  # of one case

DIFFERENCES = {
    "vc-191": "two option texts are mentioned; the policy of the case allows 0",
    "vc-212": "1.4 billion is a number of its own, not a unit; the policy of the case allows 0",
    "vc-226": "0.0 is 0: the case holds the official value, its policy allows 1",
    "vc-228": "a full stop is no part of an answer: the official value is 0, the policy allows 1",
    "vc-230": "977,633 is a number: the official value is 0, the policy allows 1",
}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    cases = load()
    if not cases:
        pytest.skip(
            "the collected cases (shared/cases/verifier_cases.jsonl) are not beside this tree"
        )
    with VerifierPool(workers=1, seconds=SECONDS) as pool:
        found = pool.judge([(prompt_of(case), response_of(case)) for case in cases])
    return {case["id"]: verdict for case, verdict in zip(cases, found, strict=True)}


def test_every_case_ends_in_time_without_an_exception(verdicts: dict[str, Verdict]) -> None:
    odd = {k: v.reason for k, v in verdicts.items() if v.status in ("error", "timeout")}
    assert odd == {}


def test_agreement_but_for_the_declared_differences(verdicts: dict[str, Verdict]) -> None:
    agreed: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for case in load():
        verdict, expected = verdicts[case["id"]], case["expected_reward"]
        same = expected is None or verdict.score == pytest.approx(expected)
        agreed[case["kind"]] += same
        if same == (case["id"] in DIFFERENCES):
            state = "agrees now: take it off the table" if same else f"{verdict} for {expected}"
            wrong[case["id"]] = state
    total = Counter(case["kind"] for case in load())
    print({kind: f"{agreed[kind]} of {total[kind]}" for kind in total})
    assert wrong == {}
    assert set(DIFFERENCES) <= set(verdicts)


def test_the_open_cases_have_the_outcome_we_declare(verdicts: dict[str, Verdict]) -> None:
    declared = {
        "vc-145": (0.0, "ok"),  # 3000 parentheses: compared as a string
        "vc-157": (0.0, "unparsable_reference"),
        "vc-161": (0.0, "unparsable_reference"),  # nan
        "vc-251": (0.101, "ok"),  # pixels where thousandths are expected: never another scale
        "vc-302": (0.0, "ok"),  # empty reasoning is none; see also FormatVerifier on gates
        "vc-328": (0.0, "ok"),  # 3.5 m for 350 cm: units are not converted
        "vc-329": (1.0, "ok"),  # 12 cm for 12 cm^2: units are not graded
    }
    found = {key: (round(verdicts[key].score, 3), verdicts[key].status) for key in declared}
    assert found == declared
    undecided = {case["id"] for case in load() if case["expected_reward"] is None}
    assert undecided == set(declared)


def test_grid_cells_are_counted_as_the_cases_say(verdicts: dict[str, Verdict]) -> None:
    for case in load():
        if case["kind"] == "zebra":
            cells = 4 * verdicts[case["id"]].parts.get("cells", 0.0)
            assert cells == case["cells"], case["id"]


def test_avg_at_n_as_the_cases_say() -> None:
    cases = [case for case in load_all() if case["kind"] == "metric"]
    tested = 0
    for case in cases:
        # pass@k is no metric of ours; vc-313: the count is that of the samples that exist.
        if case["reference"].startswith("pass@"):
            continue
        metric = AvgAtN()
        metric.update(torch.tensor(case["prediction"], dtype=torch.float64))
        expected = 1.0 if case["id"] == "vc-313" else case["expected_reward"]
        assert metric.compute()["mean"].item() == pytest.approx(expected), case["id"]
        tested += 1
    assert tested == (3 if cases else 0)
