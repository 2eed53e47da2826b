"""Read what a run wrote (metrics.csv, samples.jsonl, metrics.json, config.yaml) into small values.

A report of half a run is worth more than none: a file that is missing or damaged becomes a sentence
in ``problems``, and what can be read is kept.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.report.history import earlier_parts
from sapo_vl.report.records import Evaluation, Response, Sample, Score, Series, Stage

_Cell = tuple[float, str, float]  # step, metric, value


def load_stage(name: str, folder: Path) -> Stage:
    """Read the folder of a training stage; what is missing or damaged is told in ``problems``."""
    problems: list[str] = []
    metrics = _metrics(folder / "metrics.csv", problems)
    samples = _samples(folder / "samples.jsonl", problems)
    config = _read(folder / "config.yaml", problems) or ""
    return Stage(
        name=name, metrics=metrics, config=config, samples=samples, problems=tuple(problems)
    )


def load_evaluation(name: str, folder: Path) -> Evaluation:
    """Read the folder of a test; what is missing or damaged is told in ``problems``."""
    problems: list[str] = []
    record: Mapping[str, Any] = {}
    if (text := _read(folder / "metrics.json", problems)) is not None:
        record = _mapping(_json(text, "metrics.json", problems))
        if not record.get("tasks") and not record.get("all"):
            problems.append("metrics.json holds no scores.")
    return Evaluation(
        name=name,
        settings=_mapping(record.get("settings")),
        tasks={str(k): _scores(v) for k, v in _mapping(record.get("tasks")).items()},
        overall=_scores(record.get("all")),
        record=record,
        samples=_samples(folder / "samples.jsonl", problems),
        problems=tuple(problems),
    )


def _read(path: Path, problems: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        problems.append(f"{path.name} is missing.")
    except OSError as error:
        problems.append(f"{path.name} cannot be read ({error.strerror}).")
    return None


def _json(text: str, where: str, problems: list[str]) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: a line of a million brackets
        problems.append(f"{where} is not valid JSON ({error}).")
        return None


def _metrics(path: Path, problems: list[str]) -> dict[str, Series]:
    """The columns of a Lightning metrics.csv; of several rows with one step the last one counts.

    A resumed run repeats steps, and train and validation rows of one step fill different columns.
    What it logged before it was resumed lies in files of its own.
    """
    text = _read(path, problems)
    if text is None:
        return {}
    cells: list[_Cell] = []
    try:
        cells = _joined([*map(Path.read_text, earlier_parts(path)), text])
    except (KeyError, csv.Error) as error:
        problems.append(f"metrics.csv is damaged ({error}).")
    found = _series(cells)
    if not any(series.values for series in found.values()) and not problems:
        problems.append("metrics.csv holds no values yet.")
    return found


def _joined(parts: Sequence[str]) -> list[_Cell]:
    """The cells of a run's files; a later one takes over where it begins, from step 0 it is new."""
    cells: list[_Cell] = []
    for part in parts:
        rows = list(_cells(part))
        first = min((step for step, _, _ in rows), default=math.inf)
        cells = [cell for cell in cells if cell[0] < first] + rows
    return cells


def _series(cells: Sequence[_Cell]) -> dict[str, Series]:
    columns: dict[str, dict[float, float]] = {}
    not_finite: dict[str, int] = {}
    for step, name, value in cells:
        if math.isfinite(value):
            columns.setdefault(name, {})[step] = value
        else:
            not_finite[name] = not_finite.get(name, 0) + 1
    series = {}
    for name in {**columns, **not_finite}:
        points = sorted(columns.get(name, {}).items())
        series[name] = Series(
            steps=tuple(step for step, _ in points),
            values=tuple(value for _, value in points),
            not_finite=not_finite.get(name, 0),
        )
    return series


def _cells(text: str) -> Iterator[_Cell]:
    reader = csv.DictReader(text.replace("\0", "").splitlines())
    if reader.fieldnames and "step" not in reader.fieldnames:
        raise KeyError("it has no column step")
    for row in reader:
        step = _number(row.pop("step"))
        if not math.isfinite(step):
            continue  # a last line that was cut while the run was writing
        for name, cell in row.items():
            if cell and isinstance(cell, str) and name != "epoch":
                try:
                    yield step, str(name), float(cell)
                except ValueError:
                    continue  # a text column some other logger call added


def _samples(path: Path, problems: list[str]) -> tuple[Sample, ...]:
    text = _read(path, problems)
    samples, damaged = [], []
    for number, line in enumerate((text or "").split("\n"), start=1):
        if not line.strip():
            continue
        complaints: list[str] = []
        record = _json(line, f"line {number}", complaints)
        if isinstance(record, Mapping):
            samples.append(_sample(record, path.parent))
        else:
            damaged.append(complaints[0] if complaints else f"line {number} is not an object.")
    if damaged:
        problems.append(f"samples.jsonl: {len(damaged)} unreadable line(s); {damaged[0]}")
    return tuple(samples)


def _sample(record: Mapping[str, Any], folder: Path) -> Sample:
    options = _mapping(record.get("options")).items()
    return Sample(
        stage=_text(record.get("stage")),
        iteration=int(_number(record.get("iteration"), 0.0)),
        task=_text(record.get("task")),
        key=_text(record.get("key")),
        question=_text(record.get("question")),
        options={str(label): _text(option) for label, option in options},
        folder=folder,
        images=tuple(str(name) for name in _list(record.get("images"))),
        reference=_text(record.get("reference")),
        sampling=_text(record.get("sampling")),
        problem=_text(record.get("problem")),
        categories={
            str(name): tuple(_text(value) for value in _list(values))
            for name, values in _mapping(record.get("categories")).items()
        },
        responses=tuple(_response(_mapping(r)) for r in _list(record.get("responses"))),
        index=int(_number(record.get("index"), 0.0)),
        meta=_mapping(record.get("meta")),
        video_frames=tuple(str(name) for name in _list(record.get("video_frames"))),
    )


def _response(record: Mapping[str, Any]) -> Response:
    extracted, advantage = record.get("extracted"), _number(record.get("advantage"))
    return Response(
        text=_text(record.get("text")),
        score=_number(record.get("score"), 0.0),
        extracted=None if extracted is None else _text(extracted),
        status=_text(record.get("status")) or "ok",
        reason=_text(record.get("reason")),
        length=int(_number(record.get("length"), 0.0)),
        finished=record.get("finished") is not False,
        advantage=advantage if math.isfinite(advantage) else None,
        parts={str(k): _number(v, 0.0) for k, v in _mapping(record.get("parts")).items()},
    )


def _scores(value: Any) -> dict[str, Score]:
    scores = {}
    for sampling, score in _mapping(value).items():
        mean, stderr = (_number(_mapping(score).get(key)) for key in ("mean", "stderr"))
        if math.isfinite(mean):
            n = int(_number(_mapping(score).get("n"), 0.0))
            scores[str(sampling)] = Score(mean=mean, stderr=stderr, n=n)
    return scores


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any, otherwise: float = math.nan) -> float:
    """``value`` as a finite float, or ``otherwise``."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise
