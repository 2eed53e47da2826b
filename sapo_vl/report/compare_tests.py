"""Several tests of the same items side by side: paired differences and what flipped."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from sapo_vl.evaluation.compare import ItemScore, Paired, compare_items, different_items
from sapo_vl.evaluation.store import json_text
from sapo_vl.report.breakdown import make_breakdowns
from sapo_vl.report.gallery import evaluation_gallery
from sapo_vl.report.html import Limits, make_settings, render, write_whole
from sapo_vl.report.images import ImageBudget
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.records import Evaluation, Sample
from sapo_vl.report.results import make_tables, points
from sapo_vl.report.scale import percent
from sapo_vl.report.tables import csv_text, markdown_table

Row = dict[str, Any]
NOTE = (
    "Every prompt's mean score in one test is set beside that in the other. The interval is a"
    " paired bootstrap over problems, p that of McNemar's exact test on prompts that became right"
    " or wrong (a prompt is right when its mean score is at least one half). Many p values together"
    " need a stricter limit than each alone."
)


def compare_tests(tests: Mapping[str, Path], out: Path, limits: Limits | None = None) -> list[Path]:
    """Write ``compare.html``, ``.json``, ``.md``, ``.csv`` and ``flips.csv`` of two or more tests.

    Args:
        tests: folders of finished tests by name; every other one is compared with the first.
        out: folder to write to.
        limits: how much of the answers and images the page shows.

    Raises:
        ValueError: tests that do not have the same items; the message says which differ.
    """
    limits = limits or Limits()
    loaded = [load_evaluation(name, folder) for name, folder in tests.items()]
    for test in loaded:
        if not test.samples:
            raise ValueError(f"{test.name} holds no answers: {' '.join(test.problems)}")
        _check_items(loaded[0], test)
    rows, flips = [], []
    for test in loaded[1:]:
        found = _compare(loaded[0], test)
        rows += [_row(loaded[0].name, test.name, *name, paired) for name, paired in found.items()]
        flips += _flips(loaded[0], test, found)
    budget = ImageBudget(count=limits.images, size=limits.image_bytes)
    gallery = evaluation_gallery(loaded, most=limits.test_prompts, budget=budget)
    shown = [_shown(row) for row in rows]
    page = render(
        "compare.html.jinja",
        title=" / ".join(tests),
        note=NOTE,
        comparison=shown,
        tests=loaded,
        tables=make_tables(loaded),
        breakdowns=make_breakdowns(loaded),
        galleries=[gallery] if gallery else [],
        settings=make_settings(loaded),
        charts={},
        runs=[],
    )
    content = {"tests": {n: str(f) for n, f in tests.items()}, "comparison": rows, "flips": flips}
    text = f"# {' / '.join(tests)}\n\n{NOTE}\n\n{markdown_table(shown)}\n"
    return [
        write_whole(out / "compare.html", page),
        write_whole(out / "compare.json", json_text(content)),
        write_whole(out / "compare.md", text),
        write_whole(out / "compare.csv", csv_text(rows)),
        write_whole(out / "flips.csv", csv_text(flips)),
    ]


def _check_items(first: Evaluation, second: Evaluation) -> None:
    names = [{_name(sample): sample for sample in test.samples} for test in (first, second)]
    only = [
        sorted(" / ".join(name) for name in a.keys() - b.keys()) for a, b in (names, names[::-1])
    ]
    if only[0] or only[1]:
        raise ValueError(
            f"{first.name} and {second.name} do not answer the same items:"
            f" {different_items(*only)}. Only tests of one benchmark with one sampling can be"
            " paired."
        )
    for name, sample in names[0].items():
        other = names[1][name]
        if sample.reference != other.reference:
            raise ValueError(
                f"{' / '.join(name)} has the reference {sample.reference!r} in {first.name} and"
                f" {other.reference!r} in {second.name}: these are not the same data"
            )


def _compare(first: Evaluation, second: Evaluation) -> dict[tuple[str, str], Paired]:
    """By sampling and task; all tasks together come last where there are several."""
    samplings = dict.fromkeys(sample.sampling for sample in first.samples)
    tasks = dict.fromkeys(sample.task for sample in first.samples)
    found = {}
    for sampling in samplings:
        for task in (*tasks, *(["all"] if len(tasks) > 1 else [])):
            items = [_items(test, sampling, task) for test in (first, second)]
            shared = items[0].keys() & items[1].keys()  # a reference may be unreadable in one
            pair = [{name: part[name] for name in items[0] if name in shared} for part in items]
            if shared:
                found[sampling, task] = compare_items(*pair)
    return found


def _items(test: Evaluation, sampling: str, task: str) -> dict[Hashable, ItemScore]:
    return {
        _name(sample): ItemScore(
            score=math.fsum(r.score for r in sample.responses) / len(sample.responses),
            problem=(sample.task, sample.problem or sample.key),
        )
        for sample in test.samples
        if sample.sampling == sampling
        and task in (sample.task, "all")
        and sample.responses
        and all(r.status != "unparsable_reference" for r in sample.responses)
    }


def _flips(
    first: Evaluation, second: Evaluation, found: Mapping[tuple[str, str], Paired]
) -> list[Row]:
    samples = [{_name(sample): sample for sample in test.samples} for test in (first, second)]
    rows = []
    for (_, task), paired in found.items():
        directions = (("became right", paired.gained), ("became wrong", paired.lost))
        for direction, names in directions if task != "all" else ():
            for name in names:
                before, after = (part[name] for part in samples)  # type: ignore[index]
                rows.append(
                    {
                        "baseline": first.name,
                        "run": second.name,
                        "direction": direction,
                        "task": before.task,
                        "key": before.key,
                        "sampling": before.sampling,
                        "question": before.question,
                        "reference": before.reference,
                        "answers_baseline": _answers(before),
                        "answers_run": _answers(after),
                    }
                )
    return rows


def _answers(sample: Sample) -> str:
    return " | ".join("(none)" if r.extracted is None else r.extracted for r in sample.responses)


def _row(first: str, second: str, sampling: str, task: str, paired: Paired) -> Row:
    return {
        "task": task,
        "sampling": sampling,
        "baseline": first,
        "run": second,
        "n": paired.n,
        "baseline_score": paired.first,
        "run_score": paired.second,
        "difference": paired.difference,
        "stderr": paired.stderr,
        "low": paired.low,
        "high": paired.high,
        "became_right": len(paired.gained),
        "became_wrong": len(paired.lost),
        "mcnemar_p": paired.p,
    }


def _shown(row: Row) -> dict[str, str]:
    interval = ""
    if math.isfinite(row["low"]):
        interval = f"{points(row['low'])} to {points(row['high'])}"
    return {
        "Task": row["task"],
        "Sampling": row["sampling"],
        "Baseline": row["baseline"],
        "Run": row["run"],
        "n": str(row["n"]),
        "Baseline score": percent(row["baseline_score"]),
        "Run score": percent(row["run_score"]),
        "Difference, points": points(row["difference"]),
        "95% interval": interval,
        "Became right / wrong": f"{row['became_right']} / {row['became_wrong']}",
        "McNemar p": f"{row['mcnemar_p']:.3g}",
    }


def _name(sample: Sample) -> tuple[str, str, str]:
    return sample.task, sample.key, sample.sampling
