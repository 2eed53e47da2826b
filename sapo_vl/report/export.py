"""Answers in the files of other evaluation kits, so that they can be scored again there.

The names of files and fields are those that the kits' sources read and write: VLMEvalKit's table
of a model and data set (``index``, ``question``, ``A`` ..., ``answer``, ``category``,
``prediction``, ``hit``) and lmms-eval's sample log (``doc_id``, ``input``, ``target``, ``resps``,
``filtered_resps``, ``doc_hash`` and one field a metric).
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.report.html import CONTROL, write_whole
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.records import Evaluation, Sample

Row = dict[str, Any]
_CELL = 32_767  # characters that a spreadsheet's cell can hold


def export_vlmevalkit(
    folder: Path, out: Path, *, sampling: str | None = None, xlsx: bool = False
) -> list[Path]:
    """Write ``<model>_<task>.tsv`` (or ``.xlsx``) for every task of a test.

    A row is one response: with n samples a prompt there are n files, ``<model>_<task>_0`` on, as
    the kit's tables hold one prediction an item. ``index`` counts from 0 in the order of the data;
    ``hit`` is the score of our verifier, which the kit replaces when it scores anew; ``key`` is the
    name of the sample here.

    Args:
        folder: what ``sapo-vl test`` wrote.
        out: folder to write to.
        sampling: which answers; needed where there are several.
        xlsx: spreadsheets in place of tab-separated text; needs openpyxl.

    Raises:
        ValueError: no answers, or several samplings to choose from.
        ImportError: openpyxl is missing.
    """
    test = load_evaluation(folder.name, folder)
    model = Path(str(test.settings.get("model", "model"))).name
    written = []
    for task, samples in _by_task(test, sampling).items():
        n = max(len(sample.responses) for sample in samples)
        for draw in range(n):
            rows = list(_kit_rows(samples, draw))
            name = f"{model}_{task}" + (f"_{draw}" if n > 1 else "")
            path = out / f"{name}.{'xlsx' if xlsx else 'tsv'}"
            (_write_xlsx if xlsx else _write_tsv)(path, rows)
            written.append(path)
    return written


def export_lmms_eval(folder: Path, out: Path, *, sampling: str | None = None) -> list[Path]:
    """Write ``samples_<task>.jsonl`` for every task of a test: a line a prompt, all its responses.

    ``resps`` holds the responses, ``filtered_resps`` the answers as our verifier extracted them
    ("" where there was none), ``score`` their mean score.

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
        lines = [json.dumps(_log_line(i, s), ensure_ascii=False) for i, s in enumerate(samples)]
        written.append(write_whole(out / f"samples_{task}.jsonl", "\n".join(lines) + "\n"))
    return written


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


def _kit_rows(samples: Sequence[Sample], draw: int) -> Iterator[Row]:
    labels = sorted({label for sample in samples for label in sample.options})
    for index, sample in enumerate(samples):
        if draw < len(sample.responses):
            response = sample.responses[draw]
            categories = [", ".join(values) for values in sample.categories.values()]
            yield {
                "index": index,
                "question": sample.question,
                **{label: sample.options.get(label, "") for label in labels},
                "answer": sample.reference,
                "category": categories[0] if categories else "",
                "l2-category": categories[1] if len(categories) > 1 else "",
                "prediction": response.text,
                "hit": response.score,
                "extracted": "" if response.extracted is None else response.extracted,
                "log": response.reason,
                "key": sample.key,
            }


def _log_line(number: int, sample: Sample) -> Row:
    document = {
        "question": sample.question,
        "options": dict(sample.options),
        "answer": sample.reference,
    }
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    scores = [response.score for response in sample.responses]
    return {
        "doc_id": number,
        "doc": document | {"id": sample.key},
        "input": sample.question,
        "target": sample.reference,
        "resps": [[response.text for response in sample.responses]],
        "filtered_resps": [response.extracted or "" for response in sample.responses],
        "doc_hash": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        "score": sum(scores) / len(scores) if scores else None,
        "scores": scores,
    }


def _write_tsv(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.DictWriter(file, list(rows[0]), dialect="excel-tab", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


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
        cells = [WriteOnlyCell(sheet, value=_plain(value)) for value in row.values()]
        for cell in cells:
            if cell.data_type == "f":  # what a model wrote is text, never a formula
                cell.data_type = "s"
        sheet.append(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)


def _plain(value: Any) -> Any:
    """Text without what a spreadsheet cannot hold, and no longer than a cell."""
    return CONTROL.sub("\ufffd", value)[:_CELL] if isinstance(value, str) else value
