from __future__ import annotations

from pathlib import Path

from sapo_vl.callbacks.records import answers_record
from sapo_vl.types import Answers, Prompt, Verdict


def test_a_record_holds_the_breakdown_of_a_combined_verdict(tmp_path: Path) -> None:
    prompt = Prompt(reference="3", messages=({"role": "user", "content": "How many?"},))
    verdicts = (Verdict(score=0.5, parts={"answer": 0.0, "format": 1.0}), Verdict(score=1.0))
    answers = Answers(
        prompt, "avg2", texts=("a", "b"), verdicts=verdicts, lengths=(1, 1), finished=(True, True)
    )
    record = answers_record(answers, tmp_path, "test", 0)
    assert record["question"] == "How many?"
    assert record["responses"][0]["parts"] == {"answer": 0.0, "format": 1.0}
    assert "parts" not in record["responses"][1]
