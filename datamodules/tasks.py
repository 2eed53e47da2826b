"""What a user says about a task in YAML."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from datamodules.samples import DEFAULT_TEMPLATE
from datamodules.templates import PromptTemplate
from sapo_vl.protocols import AnswerMetric, Verifier


@dataclass(frozen=True, kw_only=True)
class BenchmarkCard:
    """What a person should know of a benchmark before believing a score on it.

    Args:
        title: how its authors call it.
        items: samples of the published set.
        source: arguments of scripts/make_shards.py but for the folders.
        official: what the official score is, in a sentence.
        score: what the score of this task is, in a sentence.
        metric: how the scores of its samples become one number.
        licence: of its data.
        judge: the official score needs a language model as a judge, so this task's is another one.
        counted: where the number of items comes from, where it was looked up.
        differs: in what this task differs from the official code and from VLMEvalKit, on purpose.
    """

    title: str
    items: int
    source: str
    official: str
    score: str
    metric: str
    licence: str
    judge: bool = False
    counted: str = ""
    differs: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """A named source of prompts with one verifier and one share of every batch.

    Args:
        name: how logs and reports call it; letters, digits, "_" and "-".
        shards: glob or brace pattern (or several) of WebDataset tar shards, plain or ``.tar.gz``;
            http(s) URLs and commands (``pipe:aws s3 cp s3://bucket/a-{000000..000007}.tar -``), in
            braces too, are fetched once into ``data.shard_cache``.
        verifier: judges the responses, in training and in evaluation.
        share: part of every training batch, relative to the other tasks' shares.
        template: text of the question; may hold {question} and {options}. Or several wordings as
            jinja2 texts, one of which is used.
        max_samples: use only so many samples of the shards: the first ones, or see subset_seed.
        subset_seed: choose the samples at random, always the same ones for the same seed.
        metrics: what the task is scored by in evaluation, the most important one first; avg@n by
            default. One that needs k samples leaves samplings with fewer out.
        categories: fields of the samples' JSON by whose values scores are broken down, too; a dot
            goes into a nested object (metadata.skills), a list counts under each of its entries.
        problem: field of the JSON that variants of one problem share; by default every sample is a
            problem of its own.
        card: what is known of it, where it is a benchmark.
    """

    name: str
    shards: str | list[str]
    verifier: Verifier
    share: float = 1.0
    template: str | PromptTemplate = DEFAULT_TEMPLATE
    max_samples: int | None = None
    subset_seed: int | None = None
    metrics: list[AnswerMetric] | None = None
    categories: list[str] = field(default_factory=list)
    problem: str | None = None
    card: BenchmarkCard | None = None

    def __post_init__(self) -> None:
        if self.name in ("all", "mean", "accuracy") or not re.fullmatch(r"[\w-]+", self.name):
            raise ValueError(
                f"data.tasks: {self.name!r} cannot be the name of a task; use letters, digits,"
                ' "_" and "-"'
            )
        if not (self.share > 0 and math.isfinite(self.share)):
            raise ValueError(
                f"data.tasks: share of {self.name!r} is {self.share}; it must be positive"
            )
        if self.max_samples is not None and self.max_samples < 1:
            raise ValueError(
                f"data.tasks: max_samples of {self.name!r} is {self.max_samples}; it must be at"
                " least 1, or null for all"
            )
        names = [getattr(metric, "name", "") for metric in self.metrics or []]
        if len(set(names)) < len(names):
            raise ValueError(f"data.tasks: two metrics of {self.name!r} have one name: {names}")
