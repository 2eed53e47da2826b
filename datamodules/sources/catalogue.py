"""Every source by its name: what ``scripts/make_shards.py`` can make shards of."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datamodules.sources import easy_vqa, figures, folder
from datamodules.sources.algopuzzlevqa import ALGOPUZZLEVQA
from datamodules.sources.dynamath import DYNAMATH
from datamodules.sources.folder import AnswerForm, FolderSet
from datamodules.sources.mathvision import MATHVISION
from datamodules.sources.nlvr import NLVR
from datamodules.sources.puzzlevqa import PUZZLEVQA
from datamodules.sources.scene import SIDE
from datamodules.sources.vlmsblind import VLMSBLIND

PUBLIC_SETS = (PUZZLEVQA, ALGOPUZZLEVQA, NLVR, VLMSBLIND, MATHVISION, DYNAMATH)

Samples = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted of a source; each source reads the fields that mean something to it.

    Args:
        tasks: drawn tasks; none: all of them.
        splits: train, val, test; none: the source's own (train for figures and easy_vqa).
        count: samples per task and split; None: all a source has, and 1,000 of a drawn task.
        size: side of a drawn picture in pixels.
        seed: of the drawn scenes.
        data: the JSONL file, or the folder that holds it, of a set that comes as files.
        name: first part of the shards' name for the source ``folder``.
        answers: what stands for a choice in the source ``folder``: text, label, or auto (either).
    """

    tasks: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    count: int | None = None
    size: int = SIDE
    seed: int = 0
    data: Path | None = None
    name: str = "folder"
    answers: AnswerForm = "auto"


def shard_sets(source: str, request: Request) -> Iterator[tuple[str, Samples]]:
    """Give the shard name and the samples of each set of shards that a source makes.

    Raises:
        ValueError: an unknown source, or a request it can't fill.
    """
    if source not in SOURCES:
        raise ValueError(f"no source is called {source!r}; there are {', '.join(SOURCES)}")
    return SOURCES[source](request)


def _figures(request: Request) -> Iterator[tuple[str, Samples]]:
    count = 1000 if request.count is None else request.count
    for task in request.tasks or tuple(figures.TASKS):
        for split in request.splits or ("train",):
            made = figures.samples(
                task, split=split, count=count, seed=request.seed, size=request.size
            )
            yield f"{task}-{split}", made


def _easy_vqa(request: Request) -> Iterator[tuple[str, Samples]]:
    for split in request.splits or ("train",):
        yield f"easy_vqa-{split}", itertools.islice(easy_vqa.samples(split), request.count)


def _public(described: FolderSet, request: Request) -> Iterator[tuple[str, Samples]]:
    if request.data is None:
        raise ValueError(
            f"the source {described.name} comes as files; say where they are: --data PATH (the"
            f" JSONL file or its folder; origin: {described.origin or 'your own'})"
        )
    if len(request.splits) > 1:
        raise ValueError(
            f"the source {described.name} has one split; name at most one, not {request.splits}"
        )
    split = request.splits[0] if request.splits else described.split
    rows = folder.samples(folder.locate(request.data, described.name), described)
    yield f"{described.name}-{split}", itertools.islice(rows, request.count)


def _folder(request: Request) -> Iterator[tuple[str, Samples]]:
    return _public(FolderSet(name=request.name, answers=request.answers), request)


SOURCES: Mapping[str, Callable[[Request], Iterator[tuple[str, Samples]]]] = {
    "figures": _figures,
    "easy_vqa": _easy_vqa,
    "folder": _folder,
    **{described.name: partial(_public, described) for described in PUBLIC_SETS},
}
