"""The comparison of official and training rules counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sapo_vl.verifiers.official.compare import compare, main, read_answers


def write(folder: Path) -> None:
    rows = [
        ("both", ["7", "8"], "A", r"\boxed{A}"),
        ("text", ["7", "8"], "A", r"\boxed{7.004}"),  # two decimals of the option's text
        ("unboxed", ["7", "8"], "A", "The answer is A"),
        ("unit", ["7", "8 m"], "B", r"\boxed{\text{(B) 8 m}}"),
        ("neither", ["7", "8"], "A", r"\boxed{B}"),
        ("free", [], "0.3333", r"\boxed{0.33}"),
    ]
    names = ("id", "options", "answer", "response")
    lines = [
        json.dumps(dict(zip(names, row, strict=True)) | {"official_correct": True}) for row in rows
    ]
    (folder / "mathvision.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_counts_by_kind(tmp_path: Path) -> None:
    write(tmp_path)
    found = compare(list(read_answers(tmp_path, "mathvision")))
    assert found["rows"] == 6
    assert found["counts"]["choice"] == {
        "both": 1,
        "official_only": 2,
        "training_only": 1,
        "neither": 1,
        "no_answer": 2,
    }
    assert found["counts"]["free"]["official_only"] == 1
    assert [example["id"] for example in found["examples"]] == ["text", "unboxed", "unit", "free"]


def test_the_command_line_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    target = tmp_path / "counts.json"
    assert main([str(tmp_path), "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "official_only" in printed
    assert "not in" in printed  # the oracles that are missing are named
    assert list(json.loads(target.read_text(encoding="utf-8"))) == ["mathvision"]


def test_a_folder_without_oracles_is_an_error(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1
