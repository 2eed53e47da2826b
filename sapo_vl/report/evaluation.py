"""The report of one test folder: the same numbers as HTML, JSON, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sapo_vl.evaluation.store import json_text
from sapo_vl.report.breakdown import provenance, score_rows
from sapo_vl.report.html import build_report, write_whole
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.scale import percent
from sapo_vl.report.tables import csv_text, markdown_table


def write_evaluation_report(folder: Path, out: Path | None = None) -> list[Path]:
    """Write ``report.html``, ``.json``, ``.md`` and ``.csv`` of a test.

    Args:
        folder: what ``sapo-vl test`` wrote: metrics.json and samples.jsonl.
        out: folder to write to; that of the test by default.

    Raises:
        ValueError: the folder holds no finished test.
    """
    out = out or folder
    test = load_evaluation(folder.name, folder)
    if not test.record or not score_rows(test.record):
        raise ValueError(
            f"{folder} holds no finished test: {' '.join(test.problems)} Run sapo-vl test with"
            " sapo_vl.callbacks.ResultWriter; started again, it goes on where it stopped."
        )
    rows = [
        asdict(row) | provenance(test.settings, row.task, row.sampling)
        for row in score_rows(test.record)
    ]
    content = {**test.record, "scores": rows}
    return [
        build_report(
            out / "report.html",
            title=folder.name,
            stages={},
            tests={folder.name: folder},
            summary=None,
        ),
        write_whole(out / "report.json", json_text(content)),
        write_whole(out / "report.md", _markdown(folder.name, test.record, rows)),
        write_whole(out / "report.csv", csv_text(rows)),
    ]


def _markdown(title: str, record: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    settings = record.get("settings", {})
    scores = [
        {
            "task": row["task"],
            "sampling": row["sampling"],
            "metric": row["metric"],
            "category": f"{row['category']} = {row['value']}" if row["category"] else "",
            "score": percent(row["mean"]),
            "95 % interval": f"{percent(row['low'])} to {percent(row['high'])}",
            "n": row["n"],
        }
        for row in rows
    ]
    made = {
        (row["task"], row["sampling"]): {
            name: row[name]
            for name in ("task", "sampling", "sampling_settings", "template", "verifier", "pixels")
        }
        for row in rows
        if row["task"] != "all"
    }
    facts = ("model", "model_sha256", "dtype", "seed", "versions")
    first = provenance(settings, "", "")
    lines = [f"- {name}: {first[name] or 'unknown'}" for name in facts]
    lines.append(f"- seconds: {record.get('seconds', 'unknown')}")
    skipped = {why: n for why, n in record.get("skipped", {}).items() if n}
    lines.append(f"- samples left out: {skipped or 'none'}")
    parts = [
        f"# {title}",
        "\n".join(lines),
        "## Scores",
        markdown_table(scores),
        "## What made them",
        markdown_table(list(made.values())),
    ]
    return "\n\n".join(parts) + "\n"
