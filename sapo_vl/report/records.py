"""What the report knows of a run; load.py fills these, the rest of the package reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric over the run: finite values by rising step, and how many were not finite."""

    steps: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    not_finite: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One sampled answer with its verdict; ``text`` is whatever the model wrote."""

    text: str
    score: float
    extracted: str | None
    status: str
    reason: str
    length: int
    finished: bool
    advantage: float | None
    parts: Mapping[str, float] = field(default_factory=dict)  # other rules' scores, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One prompt and its responses under one sampling, as a line of samples.jsonl holds it."""

    stage: str
    iteration: int
    task: str
    key: str
    question: str
    options: Mapping[str, str]
    folder: Path  # what ``images`` are relative to
    images: tuple[str, ...]
    reference: str
    sampling: str
    problem: str
    categories: Mapping[str, tuple[str, ...]]
    responses: tuple[Response, ...]
    index: int = 0  # place in the data of all tasks; gaps are prompts left out
    meta: Mapping[str, Any] = field(default_factory=dict)  # what else the data say of the prompt
    video_frames: tuple[str, ...] = ()  # the middle frame of each video, as ``images``


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A mean over ``n`` prompts with its standard error (nan: unknown)."""

    mean: float
    stderr: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn panel: ``legend`` holds (label, classes, last value) per curve."""

    group: str
    title: str
    note: str
    legend: tuple[tuple[str, str, str], ...]
    svg: Markup
    synced: bool = True  # its x axis is the stage's steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One training stage: its curves, its config and the answers sampled on the way."""

    name: str
    metrics: Mapping[str, Series] = field(default_factory=dict)
    config: str = ""
    samples: tuple[Sample, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One test: scores by task and sampling, the settings that made them, and saved answers."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    overall: Mapping[str, Score] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)  # metrics.json as it stands
    samples: tuple[Sample, ...] = ()
    problems: tuple[str, ...] = ()
