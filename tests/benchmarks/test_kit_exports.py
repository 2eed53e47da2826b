"""Exported answers hold the fields that the kits' sources read, in types that survive a reader.

kit_fields.json is noted from the sources of VLMEvalKit 0.2rc1 and lmms-eval 0.7.3 ("?": may be
empty), kit_samples.jsonl recorded with kit_answers.py: two answers to every published prompt.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from eval_config import BENCHMARKS, tasks

from sapo_vl.report.export import _MISSING, export_lmms_eval, export_vlmevalkit
from sapo_vl.report.kit_forms import _FORMS

FIELDS = json.loads((Path(__file__).parent / "kit_fields.json").read_text())
KINDS: dict[str, Any] = {"int": int, "number": int | float, "str": str, "list": list, "dict": dict}
KINDS["scalar"] = int | float | str  # a column of numbers alone is read as numbers


@pytest.fixture(scope="module")
def kit_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    shutil.copy(Path(__file__).parent / "kit_samples.jsonl", folder / "samples.jsonl")
    (folder / "metrics.json").write_text('{"settings": {"model": "models/a_model"}}')
    return folder


def check(value: Any, kind: str, *, texts: bool) -> None:
    """Lists stand in tables as text that is read as Python."""
    if kind.endswith("?") and (value is None or value != value):
        return
    kind = kind.rstrip("?")
    if texts and kind == "list":
        value = ast.literal_eval(value)
    assert isinstance(value, KINDS[kind]), (value, kind)


def test_every_form_is_that_of_a_benchmark() -> None:
    assert set(_FORMS) <= {task for name in BENCHMARKS for task in tasks(name)}


@pytest.mark.parametrize("name", list(FIELDS["vlmevalkit"]))
def test_a_table_has_what_vlmevalkit_reads(kit_test: Path, tmp_path: Path, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    export_vlmevalkit(kit_test, tmp_path)
    table = pandas.read_excel(tmp_path / f"a_model_{name}.xlsx")
    assert "hit" not in table
    for row in table.to_dict("records"):
        for column, kind in FIELDS["vlmevalkit"][name].items():
            check(row[column], kind, texts=True)
    assert table["index"].is_unique


@pytest.mark.parametrize("name", list(FIELDS["lmms_eval"]))
def test_a_document_has_what_lmms_eval_reads(kit_test: Path, tmp_path: Path, name: str) -> None:
    export_lmms_eval(kit_test, tmp_path)
    lines = [json.loads(x) for x in (tmp_path / f"samples_{name}.jsonl").read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(len(lines)))
    for line in lines:
        for field, kind in FIELDS["lmms_eval"][name].items():
            check(line["doc"][field], kind, texts=False)
    assert ("question" in lines[0]["doc"]) == (name != "mmmu_pro_vision_cot")
    if not name.startswith("refcoco"):
        replay = json.loads((tmp_path / f"from_log_{name}.json").read_text())
        assert replay["model_configs"]["task"] == name
        assert replay["args"]["limit"] is None
        found = {entry["doc_id"]: entry["resps"][0][0] for entry in replay["logs"]}
        assert found == {line["doc_id"]: line["resps"][0][0] for line in lines}


@pytest.mark.parametrize("xlsx", [True, False])
def test_any_response_comes_back_from_the_table(tmp_path: Path, xlsx: bool) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    odd = [
        "=SUM(A1)",
        "a\tb\nc",
        '"quoted" , x',
        "#REF!",
        "007",
        "1.20",
        "\u00e9\U0001f600",
        "_x0041_",
    ]
    texts = [*sorted(_MISSING), *odd, "bell\x07"]
    records = [
        {
            "stage": "test",
            "task": "t",
            "key": f"k{i}",
            "index": i,
            "question": "q",
            "reference": "A",
        }
        | {"sampling": "greedy", "responses": [{"text": text, "score": 0}]}
        for i, text in enumerate(texts)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    (tmp_path / "metrics.json").write_text('{"settings": {"model": "m"}}')
    (path,) = export_vlmevalkit(tmp_path, tmp_path / "out", xlsx=xlsx)
    table = pandas.read_excel(path) if xlsx else pandas.read_csv(path, sep="\t")
    read = [re.sub("\ufffd$", "\x07", text).strip(" ") for text in table["prediction"]]
    assert read == texts
