from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import VERIFIERS, NumberVerifier
from sapo_vl.verifiers.batch import main, verify_file


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_in_gives_a_line_out(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in.jsonl",
        {"id": 1, "response": r"\boxed{B}", "reference": "B", "options": {"A": "x", "B": "y"}},
        {"id": "two", "response": r"\boxed{y}", "reference": "B", "options": ["x", "y"]},
        {"id": None, "response": "none", "reference": "A", "more": [1]},
    )
    target = tmp_path / "out.jsonl"
    assert main(["--verifier", "choice", str(source), str(target)]) == 0
    out = read(target)
    assert [set(line) for line in out] == [{"id", "score", "extracted", "status", "reason"}] * 3
    assert [(line["id"], line["score"], line["status"]) for line in out] == [
        (1, 1.0, "ok"),
        ("two", 1.0, "ok"),
        (None, 0.0, "no_answer"),
    ]
    assert [line["extracted"] for line in out] == ["B", "y", None]


def test_the_form_and_thinking_are_passed_on(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", {"id": 1, "response": "a</think> 3", "reference": 3})
    target = tmp_path / "out.jsonl"
    arguments = ["--verifier", "number", "--form", "whole", "--thinking", str(source), str(target)]
    assert main(arguments) == 0
    assert read(target)[0]["score"] == 1


def test_what_else_a_line_holds_is_meta(tmp_path: Path) -> None:
    record = {"id": 1, "response": "grey", "reference": "gray", "answers": ["grey"]}
    source, target = write(tmp_path / "in.jsonl", record), tmp_path / "out.jsonl"
    assert main(["--verifier", "text", "--form", "whole", str(source), str(target)]) == 0
    assert read(target)[0]["score"] == 1


def test_a_reference_may_be_a_list_or_an_object(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    box = {"id": 1, "response": "[1, 2, 30, 40]", "reference": [1, 2, 30, 40]}
    assert main(["--verifier", "box", str(write(tmp_path / "box", box)), str(target)]) == 0
    assert read(target)[0]["score"] == 1
    grid = {"House 1": {"Name": "Eric"}}
    record = {"id": 1, "response": json.dumps({"solution": grid}), "reference": grid}
    assert main(["--verifier", "grid", str(write(tmp_path / "grid", record)), str(target)]) == 0
    assert read(target)[0]["score"] == 1
    texts = {"id": 1, "response": r"\boxed{grey}", "reference": ["gray", "grey"]}
    assert main(["--verifier", "text", str(write(tmp_path / "text", texts)), str(target)]) == 0
    assert read(target)[0]["score"] == 1


def test_other_arguments_are_set_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {
        "id": 1,
        "response": "[1, 2, 30, 40]",
        "reference": [1, 2, 30, 35],
        "size": [640, 480],
    }
    source, target = write(tmp_path / "in.jsonl", record), tmp_path / "out.jsonl"
    given = ["--verifier", "box", "--set", "coords=pixels", "--set", "score=accuracy"]
    assert main([*given, "--set", "threshold=0.9", str(source), str(target)]) == 0
    assert read(target)[0]["score"] == 0
    for wrong, message in (
        (["--set", "colour=red"], "box has no colour"),
        (["--set", "coords"], "NAME=VALUE"),
        (["--set", "coords=feet"], "coords is 'feet'"),
        (["--workers", "-1"], "workers is -1"),
    ):
        with pytest.raises(SystemExit):
            main(["--verifier", "box", *wrong, str(source), str(target)])
        assert message in capsys.readouterr().err


def test_workers_judge_within_a_limit(tmp_path: Path) -> None:
    records = [{"id": i, "response": rf"\boxed{{{i}}}", "reference": i} for i in range(50)]
    source = write(tmp_path / "in.jsonl", *records)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    assert main(["--verifier", "math", str(source), str(here)]) == 0
    limits = ["--workers", "1", "--seconds", "5", "--memory", "512"]
    assert main(["--verifier", "math", *limits, str(source), str(there)]) == 0
    assert there.read_text() == here.read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "Expecting property name"),
        ("[1]", "holds list, not an object"),
        ('{"id": 1, "response": "x"}', "lacks reference"),
        ('{"id": 1, "response": null, "reference": "x"}', "response must be a string"),
        ('{"id": 1, "response": "x", "reference": null}', "reference must be"),
        ('{"id": 1, "response": "x", "reference": "x", "options": "AB"}', "options must"),
        ("[" * 100_000, "line 3"),
        ("\udcff", "line 3"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = json.dumps({"id": 1, "response": r"\boxed{3}", "reference": "3"})
    source.write_bytes(f"{good}\n\n{line}\n".encode("utf-8", "surrogateescape"))
    target.write_text("before")
    assert main(["--verifier", "number", str(source), str(target)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert f"{source}, line 3" in error
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_missing_file_is_an_error_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.jsonl"
    assert main(["--verifier", "number", str(tmp_path / "none.jsonl"), str(target)]) == 1
    assert "none.jsonl" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_verifier_that_raises_costs_one_line(tmp_path: Path) -> None:
    class Fragile:
        def __call__(self, prompt: Prompt, response: str) -> Verdict:
            if response == "boom":
                raise RuntimeError("broken")
            return NumberVerifier(form="whole")(prompt, response)

    records = [{"id": i, "response": r, "reference": "3"} for i, r in enumerate(["3", "boom", "3"])]
    target = tmp_path / "out.jsonl"
    assert verify_file(Fragile(), write(tmp_path / "in.jsonl", *records), target) == 3
    out = read(target)
    assert [line["score"] for line in out] == [1, 0, 1]
    assert (out[1]["status"], out[1]["reason"]) == ("error", "RuntimeError: broken")


def test_odd_text_can_be_written(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"id": "\\ud800", "response": "\\boxed{\\ud800}", "reference": "3"}'.replace(
            "\\b", "\\\\b"
        )
    )
    target = tmp_path / "out.jsonl"
    assert main(["--verifier", "number", str(source), str(target)]) == 0
    assert read(target)[0]["id"] == "\ud800"


def test_list_names_the_verifiers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(VERIFIERS)


@pytest.mark.parametrize(
    "arguments", [[], ["--verifier", "number"], ["--verifier", "none", "a", "b"], ["a", "b"]]
)
def test_wrong_usage_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_the_script_runs_from_anywhere(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "verify.py"
    done = subprocess.run(
        [sys.executable, str(script), "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == list(VERIFIERS)
