"""Answers in the files of other evaluation kits, so that they can be scored again there.

The names of files and fields are those that the kits' sources read and write: VLMEvalKit's table
of a model and data set (``index``, ``question``, ``A`` ..., ``answer``, ``category``,
``prediction``) and lmms-eval's sample log (``doc_id``, ``doc``, ``input``, ``target``, ``resps``,
``filtered_resps``, ``doc_hash`` and one field a metric). What a benchmark needs beside these is in
kit_forms.py; check_kits.py reads the files with the kits.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.report.html import CONTROL, write_whole
from sapo_vl.report.kit_forms import form_of
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.records import Evaluation, Response, Sample

Row = dict[str, Any]
_CELL = 32_767  # characters that a spreadsheet's cell can hold
# Cells that pandas, with which the kit reads, takes for a missing value.
_MISSING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}


def export_vlmevalkit(
    folder: Path, out: Path, *, sampling: str | None = None, xlsx: bool = True
) -> list[Path]:
    """Write ``<model>_<data set>.xlsx`` (or ``.tsv``) for every task of a test.

    The data set is named as in the kit where it has one, else as the task here. A row is one
    response: with n samples a prompt there are n files, ``<model>_<data set>_0`` on, as the kit's
    tables hold one prediction an item. ``index`` is the place in the data; ``verdict_score`` is the
    score of our verifier, ``verdict_<name>`` that of a rule beside it, ``sample`` the name of the
    prompt here. None of ours is called ``hit``: the kit's WeMath would take it for its own verdict.

    Args:
        folder: what ``sapo-vl test`` wrote.
        out: folder to write to.
        sampling: which answers; needed where there are several.
        xlsx: spreadsheets, the kit's own form, which need openpyxl and hold 32,767 characters a
            cell; else tab-separated text. The kit reads a column of nothing but numbers as numbers
            in either.

    Raises:
        ValueError: no answers, or several samplings to choose from.
        ImportError: openpyxl is missing.
    """
    test = load_evaluation(folder.name, folder)
    written = []
    for task, samples in _by_task(test, sampling).items():
        n = max(len(sample.responses) for sample in samples)
        for draw in range(n):
            rows = list(_kit_rows(task, samples, draw))
            name = f"{_model(test)}_{form_of(task).vlmevalkit or task}" + (
                f"_{draw}" if n > 1 else ""
            )
            path = out / f"{name}.{'xlsx' if xlsx else 'tsv'}"
            (_write_xlsx if xlsx else _write_tsv)(path, rows)
            written.append(path)
    return written


def export_lmms_eval(folder: Path, out: Path, *, sampling: str | None = None) -> list[Path]:
    """Write ``samples_<task>.jsonl`` for every task of a test: a line a prompt, all its responses.

    ``doc`` holds the fields of the published document that the kit's task scores by, ``resps`` the
    responses, ``filtered_resps`` the answers as our verifier extracted them ("" where there was
    none), ``score`` their mean score. Where lmms-eval has the task, ``from_log_<task>.json`` holds
    the first response to each prompt for its model ``from_log``, which answers from such files.

    Args:
        folder: what ``sapo-vl test`` wrote.
        out: folder to write to.
        sampling: which answers; needed where there are several.

    Raises:
        ValueError: no answers, or several samplings to choose from.
    """
    test = load_evaluation(folder.name, folder)
    written = []
    for task, samples in _by_task(test, sampling).items():
        first = min(sample.index for sample in samples)
        lines = [_log_line(task, sample.index - first, sample) for sample in samples]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        name = form_of(task).lmms_eval
        written.append(write_whole(out / f"samples_{name or task}.jsonl", text))
        if name:
            replay = json.dumps(_replay(_model(test), name, lines), ensure_ascii=False)
            written.append(write_whole(out / f"from_log_{name}.json", replay + "\n"))
    return written


def _model(test: Evaluation) -> str:
    return Path(str(test.settings.get("model", "model"))).name


def _by_task(test: Evaluation, sampling: str | None) -> dict[str, list[Sample]]:
    names = sorted({sample.sampling for sample in test.samples})
    if not names:
        raise ValueError(f"{test.name} holds no answers: {' '.join(test.problems)}")
    if sampling is None and len(names) > 1:
        raise ValueError(f"{test.name} holds several samplings; choose one of {', '.join(names)}")
    if sampling is not None and sampling not in names:
        raise ValueError(f"{test.name} has no sampling {sampling!r}, only {', '.join(names)}")
    found: dict[str, list[Sample]] = {}
    for sample in test.samples:
        if sampling in (sample.sampling, None):
            found.setdefault(sample.task, []).append(sample)
    return found


def _kit_rows(task: str, samples: Sequence[Sample], draw: int) -> Iterator[Row]:
    form = form_of(task)
    labels = sorted({label for sample in samples for label in sample.options})
    kinds = {name for sample in samples for name in sample.categories}
    levels = [name for name in samples[0].categories if name in kinds][:2]
    parts = sorted({name for s in samples for r in s.responses for name in r.parts})
    first = min(sample.index for sample in samples)
    for sample, more in zip(samples, form.whole(samples), strict=True):
        if draw >= len(sample.responses):
            continue
        response = sample.responses[draw]
        yield {
            "index": sample.index - first,
            "question": sample.question,
            **{label: sample.options.get(label, "") for label in labels},
            "answer": sample.reference,
            **{
                column: ", ".join(sample.categories.get(name, ()))
                for column, name in zip(("category", "l2-category"), levels, strict=False)
            },
            **form.columns(sample),
            **more,
            "prediction": _present(response.text),
            **_verdict(response, parts),
            "sample": sample.key,
        }


def _present(text: str) -> str:
    """A response that is no missing value: a kit that strips an empty cell breaks off."""
    return f" {text}" if text in _MISSING else text


def _verdict(response: Response, parts: Sequence[str]) -> Row:
    return {
        "verdict_score": response.score,
        **{f"verdict_{name}": response.parts.get(name, "") for name in parts},
        "verdict_extracted": "" if response.extracted is None else response.extracted,
        "verdict_reason": response.reason,
    }


def _log_line(task: str, number: int, sample: Sample) -> Row:
    form = form_of(task)
    document = {
        "id": sample.key,
        **sample.meta,
        "question": sample.question,
        "options": dict(sample.options),
        "answer": sample.reference,
        **form.document(sample),
    }
    document = {name: value for name, value in document.items() if name not in form.absent}
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    scores = [response.score for response in sample.responses]
    return {
        "doc_id": number,
        "doc": document,
        "input": sample.question,
        "target": sample.reference,
        "resps": [[response.text for response in sample.responses]],
        "filtered_resps": [response.extracted or "" for response in sample.responses],
        "doc_hash": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        "score": sum(scores) / len(scores) if scores else None,
        "scores": scores,
        "parts": [dict(response.parts) for response in sample.responses],
        "sample": sample.key,
    }


def _replay(model: str, task: str, lines: Sequence[Row]) -> Row:
    """What lmms-eval's model ``from_log`` looks for: arguments, task, and responses by document."""
    return {
        "args": {"model": model, "model_args": "", "limit": None},
        "model_configs": {"task": task},
        "logs": [{"doc_id": line["doc_id"], "resps": line["resps"]} for line in lines],
    }


def _write_tsv(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.DictWriter(file, list(rows[0]), dialect="excel-tab", lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _plain(v) for k, v in row.items()} for row in rows)


def _write_xlsx(path: Path, rows: Sequence[Row]) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise ImportError('spreadsheets need openpyxl: pip install "sapo-vl[xlsx]"') from error
    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(list(rows[0]))
    for row in rows:
        values = (v[:_CELL] if isinstance(v := _plain(x), str) else v for x in row.values())
        cells = [WriteOnlyCell(sheet, value=value) for value in values]
        for cell in cells:
            if isinstance(cell.value, str):  # what a model wrote is text, never a formula
                cell.data_type = "s"
        sheet.append(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)


def _plain(value: Any) -> Any:
    """A number, or text without what a spreadsheet and its readers cannot hold."""
    if value is None or isinstance(value, int | float):
        return value
    return CONTROL.sub("\ufffd", str(value))
