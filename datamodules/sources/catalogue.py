"""Every source by its name: what ``scripts/make_shards.py`` can make shards of."""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from datamodules.sources import conversations, easy_vqa, figures, table
from datamodules.sources.described import AnswerForm, Columns, TableSet
from datamodules.sources.public import PUBLIC_SETS
from datamodules.sources.scene import SIDE
from datamodules.sources.table import Item

_ENDINGS = {
    "folder": ("jsonl", "json"),
    "parquet": ("parquet",),
    "tsv": ("tsv",),
    "conversations": ("json", "jsonl"),
}
_ANY = ("jsonl", "parquet", "json", "tsv")
_OTHER_NAMES = {"val": ("validation", "valid", "dev", "testmini"), "test": ("testmini",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted of a source; each source reads the fields that mean something to it.

    Args:
        tasks: drawn tasks; none: all of them.
        splits: train, val, test; none: the source's own (train for figures and easy_vqa).
        count: samples per task and split; None: all a source has, and 1,000 of a drawn task.
        size: side of a drawn picture in pixels.
        seed: of the drawn scenes.
        data: the file of a set that comes as files, or its folder, or a glob.
        name: first part of the shards' name for the sources folder, parquet, tsv, conversations.
        answers: what stands for a choice in those: text, label, or auto (either).
        columns: question, answer, options, images, id -> the column that holds it.
        image_root: what image paths are relative to; None: the folder of the file.
        known_format: refuse images that are no PNG, JPEG or WebP.
    """

    tasks: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    count: int | None = None
    size: int = SIDE
    seed: int = 0
    data: Path | None = None
    name: str = "folder"
    answers: AnswerForm = "auto"
    columns: tuple[tuple[str, str], ...] = ()
    image_root: Path | None = None
    known_format: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSet:
    """One set of shards a source makes: ``name-split``, and its samples from any place on.

    Example: ``SourceSet(name="easy_vqa", split="val", items=..., described=TableSet(...))``.
    """

    name: str
    split: str
    items: Callable[[int], Iterator[Item]]  # one a row or drawing; the argument: pass over so many
    described: TableSet
    files: tuple[Path, ...] = ()  # what the samples are read from
    request: Request | None = None  # what was asked for


def source_sets(source: str, request: Request) -> Iterator[SourceSet]:
    """Give each set of shards that a source makes.

    Raises:
        ValueError: an unknown source, or a request it can't fill.
    """
    if source not in SOURCES:
        raise ValueError(f"no source is called {source!r}; there are {', '.join(SOURCES)}")
    return SOURCES[source](request)


def _figures(request: Request) -> Iterator[SourceSet]:
    count = 1000 if request.count is None else request.count
    for task in request.tasks or tuple(figures.TASKS):
        for split in request.splits or ("train",):
            yield SourceSet(
                name=task,
                split=split,
                items=partial(_draw, task, split, count, request),
                described=TableSet(name="figures", split=split, licence="made here: Apache-2.0"),
                request=request,
            )


def _draw(task: str, split: str, count: int, request: Request, start: int) -> Iterator[Item]:
    return figures.samples(
        task, split=split, count=count, seed=request.seed, size=request.size, start=start
    )


def _easy_vqa(request: Request) -> Iterator[SourceSet]:
    for split in request.splits or ("train",):
        yield SourceSet(
            name="easy_vqa",
            split=split,
            items=partial(_easy_vqa_items, split, request.count),
            described=TableSet(
                name="easy_vqa",
                split=split,
                group="image",
                origin="https://github.com/vzhou842/easy-VQA",
                licence="MIT",
            ),
            request=request,
        )


def _easy_vqa_items(split: str, count: int | None, start: int) -> Iterator[Item]:
    return itertools.islice(easy_vqa.samples(split), start, count)


def _table(described: TableSet, endings: tuple[str, ...], request: Request) -> Iterator[SourceSet]:
    if request.data is None:
        raise ValueError(
            f"the source {described.name} comes as files; say where they are: --data PATH (the"
            f" file, its folder or a glob; origin: {described.origin or 'your own'})"
        )
    if len(request.splits) > 1:
        raise ValueError(
            f"the source {described.name} has one split; name at most one, not {request.splits}"
        )
    split = request.splits[0] if request.splits else described.split
    if described.evaluation_only and split == "train":
        raise ValueError(
            f"the source {described.name} is for evaluation only ({described.licence}); write it"
            " as --split test or val"
        )
    files = locate(request.data, described.name, split, endings)
    yield SourceSet(
        name=described.name,
        split=split,
        items=partial(_table_items, files, described, request),
        described=described,
        files=files,
        request=request,
    )


def _table_items(
    files: tuple[Path, ...], described: TableSet, request: Request, start: int
) -> Iterator[Item]:
    rows = table.items(
        files,
        described,
        start=start,
        image_root=request.image_root,
        known_format=request.known_format,
    )
    return itertools.islice(rows, None if request.count is None else max(0, request.count - start))


def locate(
    data: str | Path, name: str = "", split: str = "train", endings: tuple[str, ...] = _ANY
) -> tuple[Path, ...]:
    """Find the files of a set.

    Args:
        data: a file, a glob, or a folder that holds ``samples.jsonl``, ``SPLIT*.parquet`` (or
            another ending), ``NAME.*`` or ``NAME_SPLIT.*``, itself or in ``NAME`` or ``data``.
        name: of the set.
        split: train, val or test; files of the others are left alone.
        endings: what the files may end in, the best first.

    Raises:
        FileNotFoundError: none of them is there.
    """
    place = Path(data)
    if place.is_file():
        return (place,)
    if glob.has_magic(str(data)):
        found = tuple(sorted(Path(path) for path in glob.glob(str(data)) if Path(path).is_file()))
        if found:
            return found
    places = [place / name, place, place / name / "data", place / "data", place / name / split]
    stems = [f"{one}*" for one in (split, *_OTHER_NAMES.get(split, ()))]
    stems = ["samples", *stems, name, f"{name}_{split}", f"{name}_*"]
    for folder in dict.fromkeys(places):
        for ending, stem in itertools.product(endings, stems if name else stems[:-3]):
            found = tuple(sorted(filter(Path.is_file, folder.glob(f"{stem}.{ending}"))))
            # test*.parquet is testmini's, too.
            longer = re.compile(rf"{re.escape(stem.removesuffix('*'))}[A-Za-z]")
            found = tuple(path for path in found if not longer.match(path.name))
            if found:
                return found
    looked = ", ".join(dict.fromkeys(map(str, places)))
    raise FileNotFoundError(
        f"no samples in {looked}; give the file ({', '.join(endings)}), a glob, or the folder that"
        " holds samples.jsonl"
    )


def _generic(kind: str, request: Request) -> Iterator[SourceSet]:
    name = kind if request.name == "folder" else request.name
    described = TableSet(
        name=name,
        columns=_own_columns(request),
        answers=request.answers,
        prepare=conversations.plain_columns if kind == "conversations" else None,
        origin="your own",
    )
    return _table(described, _ENDINGS[kind], request)


def _own_columns(request: Request) -> Columns:
    return replace(Columns(), **{field: (column,) for field, column in request.columns})


SOURCES: Mapping[str, Callable[[Request], Iterator[SourceSet]]] = {
    "figures": _figures,
    "easy_vqa": _easy_vqa,
    **{kind: partial(_generic, kind) for kind in _ENDINGS},
    **{described.name: partial(_table, described, _ANY) for described in PUBLIC_SETS},
}
