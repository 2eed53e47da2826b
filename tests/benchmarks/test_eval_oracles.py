"""The verifiers in the evaluation YAMLs against stored verdicts of the benchmarks' own code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eval_config import tasks

from sapo_vl.types import Prompt
from sapo_vl.verifiers.official.compare import Answer, read_answers

ORACLES = Path(__file__).resolve().parents[2].parent / "shared" / "oracles"
SHARE = 0.995
CASES = [
    ("mathvision", "mathvision", "mathvision", 3040),
    ("mathvista", "mathvista_rule", "mathvista", 2000),
    ("emma", "emma_fast", "emma", 400),
]


def as_shards_hold_it(prompt: Prompt) -> Prompt:
    """The prompt as a shard has it: the label of the right option is the answer."""
    labels = [label for label, text in prompt.options.items() if text == prompt.reference]
    return replace(prompt, reference=labels[0]) if labels else prompt


def response_of(name: str, answer: Answer) -> str:
    """The stored response; MathVista stored what was extracted, which our wording asks to box."""
    return rf"\boxed{{{answer.response}}}" if name == "mathvista" else answer.response


@pytest.mark.parametrize(("file", "task", "oracle", "rows"), CASES)
def test_totals_and_verdicts_agree(file: str, task: str, oracle: str, rows: int) -> None:
    if not (ORACLES / f"{oracle}.jsonl").is_file():
        pytest.skip(f"the model answers (shared/oracles/{oracle}.jsonl) are not beside this tree")
    verifier: Any = tasks(file)[task].verifier
    official = verifier.verifier  # beside it stands our rule, which is slower and not compared
    answers = list(read_answers(ORACLES, oracle))
    assert len(answers) == rows
    agreed = total = stored = 0
    for answer in answers:
        prompt = answer.prompt if oracle != "mathvista" else as_shards_hold_it(answer.prompt)
        verdict = official(prompt, response_of(oracle, answer))
        agreed += (verdict.score == 1) == answer.stored
        total += verdict.score == 1
        stored += answer.stored
    print(f"{task}: {agreed} of {rows} verdicts agree; {total} right, {stored} stored as right")
    assert agreed >= SHARE * rows
    assert abs(total - stored) <= (1 - SHARE) * rows


def test_the_whole_verifier_scores_as_its_official_part() -> None:
    if not (ORACLES / "mathvision.jsonl").is_file():
        pytest.skip("the model answers (shared/oracles/mathvision.jsonl) are not beside this tree")
    verifier: Any = tasks("mathvision")["mathvision"].verifier
    for answer in list(read_answers(ORACLES, "mathvision"))[::100]:
        verdict = verifier(answer.prompt, answer.response)
        assert (verdict.score == 1) == answer.stored
        assert set(verdict.parts) == {"training_rule"}
