"""Samples out of a table: a public set as published or prepared, or a user's own.

Example line of a JSON lines file, with the image path relative to the file::

    {"id": "q1", "image": ["images/1.png"], "question": "How many?", "options": [3, 4],
     "answer": "4"}

``id`` becomes the key (the number of the row if absent); ``question`` or ``messages``, ``answer``,
``options``, ``response``, ``min_pixels``, ``max_pixels`` and ``<image1>`` markers are as in
``datamodules.samples``; the rest becomes meta. Where there are options, the answer given is the
label of the right one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datamodules.sources.described import TableSet
from datamodules.sources.rows import Row, RowError, read_rows
from datamodules.sources.values import (
    lettered_options,
    plain,
    read_answer,
    read_images,
    read_options,
    read_videos,
)

_MARKER = re.compile(r"<image ?([0-9]{1,3})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A row or sample that gets into no shard, and why.

    Example: ``Refusal(why="bad_answer", where='a.jsonl, line 3, field "answer"',
    detail="None; write the right answer as a text")``.
    """

    why: str  # a short fixed name, counted in the manifest
    where: str
    detail: str
    always: bool = False  # left out without asking: the set's own rule, no fault

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"


Item = Mapping[str, Any] | Refusal


def items(
    paths: Iterable[str | Path],
    described: TableSet | None = None,
    *,
    start: int = 0,
    image_root: Path | None = None,
    known_format: bool = True,
) -> Iterator[Item]:
    """Give one sample or refusal a row, in the order of the files.

    Args:
        paths: files that ``read_rows`` reads.
        described: how to read them.
        start: pass over so many rows unread.
        image_root: what image paths are relative to; None: the folder of the file.
        known_format: refuse images that are no PNG, JPEG or WebP.
    """
    described = described or TableSet(name="folder")
    paths = list(paths)
    many = len(paths) > 1
    rows = ((number, row) for number, path in enumerate(paths) for row in read_rows(path))
    for file, row in itertools.islice(rows, start, None):
        if image_root is not None:
            row = replace(row, folder=image_root)
        # Row numbers of several files would meet.
        key = f"{file:03d}_{row.number:06d}" if many else f"{row.number:06d}"
        try:
            yield to_sample(row, described, key=key, known_format=known_format)
        except RowError as error:
            where = f'{row.where}, field "{error.field}"'
            yield Refusal(why=f"bad_{error.kind}", where=where, detail=error.detail)
        except NotWanted as error:
            yield Refusal(why="not_wanted", where=row.where, detail=str(error), always=True)


def samples(
    paths: str | Path | Sequence[str | Path], described: TableSet | None = None
) -> Iterator[dict[str, Any]]:
    """Read the samples of one or several files, in order.

    Raises:
        ValueError: a row that can't be used; names the file, row, field and what to do.
    """
    for item in items([paths] if isinstance(paths, str | Path) else paths, described):
        if isinstance(item, Refusal):
            if item.always:
                continue
            raise ValueError(str(item))
        yield dict(item)


class NotWanted(Exception):
    """A row that the set's own rule leaves out."""


def to_sample(
    row: Row, described: TableSet, *, key: str, known_format: bool = True
) -> dict[str, Any]:
    """Turn a row into what ``write_shards`` takes.

    Args:
        row: the row.
        described: how to read it.
        key: name of the sample where the row has no id.
        known_format: see ``read_images``.

    Raises:
        RowError: a row that can't be used.
        NotWanted: a row of a kind that the set leaves out.
    """
    if row.fault:
        raise RowError("row", "(whole line)", row.fault)
    fields = described.prepare(row.fields) if described.prepare is not None else row.fields
    columns = described.columns
    named = {
        "question": _column(fields, columns.question),
        "answer": _column(fields, columns.answer),
        "options": _column(fields, columns.options),
    }
    options = _options(fields, named["options"], described)
    images, used = _images(fields, row, described, known_format)
    film = _column(fields, columns.videos)
    videos = read_videos(fields[film], film, row) if film else []
    answer, accepted = _answer(fields, named["answer"] or columns.answer[0], options, described)
    gone = {*used, film, *named.values(), *(options if isinstance(options, dict) else ())}
    sample = {name: plain(value) for name, value in fields.items() if name not in gone}
    identity = _column(fields, columns.id)
    # webdataset cuts a key at its first dot; other odd characters trip tar and shells.
    sample["key"] = re.sub(r"[^\w-]", "_", str(fields[identity])) if identity else key
    sample |= {"images": images, "answer": answer}
    if videos:
        sample["videos"] = videos
    if len(accepted) > 1:
        sample["answers"] = [str(one) for one in accepted]  # as verifiers take them
    if options:
        sample["options"] = plain(options)
    sample |= _question(fields, named["question"], len(images), described)
    return sample


def _column(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    """Give the first of the names that has a value in this row; "" if none has."""
    return next((name for name in names if fields.get(name) not in (None, "", [])), "")


def _options(fields: Mapping[str, Any], column: str, described: TableSet) -> Any:
    if column:
        return read_options(fields[column], column)
    return lettered_options(fields) or list(described.options)


def _images(
    fields: Mapping[str, Any], row: Row, described: TableSet, known_format: bool
) -> tuple[list[bytes], set[str]]:
    names = described.columns.images
    # Every image column goes, used or not: a second copy of the image has no place in the meta.
    used = {name for name in fields if name in names or re.fullmatch(r"image_[0-9]+", name)}
    column = _column(fields, names)
    if column == "image_1":
        numbered = sorted(
            (name for name in used if re.fullmatch(r"image_[0-9]+", name)),
            key=lambda name: int(name.removeprefix("image_")),
        )
        many = (read_images(fields[one], one, row, known_format) for one in numbered)
        return [image for images in many for image in images], used
    if column:
        return read_images(fields[column], column, row, known_format), used
    if not described.image_path:
        return [], used
    try:
        path = described.image_path.format(**{"file": row.file, **fields})
    except (KeyError, IndexError, ValueError) as error:
        raise RowError(
            "image", names[0], f"missing, and {described.image_path!r} needs the column {error}"
        ) from None
    return read_images(path, described.image_path, replace(row, base64=False), known_format), used


def _answer(
    fields: Mapping[str, Any], column: str, options: Any, described: TableSet
) -> tuple[str, list[Any]]:
    value = fields.get(column)
    if isinstance(value, str) and value[:2] in ("['", '["') and not options:
        value = read_options(value, column)  # MMMU: several accepted answers in one text
    accepted = [one for one in value if one not in (None, "")] if isinstance(value, list) else []
    if isinstance(value, list):
        value = accepted[0] if accepted else None
    if described.answer_pattern and isinstance(value, str):
        found = re.search(described.answer_pattern, value, re.DOTALL)
        if found is None:
            raise RowError(
                "answer", column, f"{value[:80]!r} doesn't match {described.answer_pattern!r}"
            )
        value = found[1]
    answer = read_answer(value, options, described.answers, column)
    if described.only_answers and not re.fullmatch(described.only_answers, answer):
        raise NotWanted(f'field "{column}": {described.name} takes no answer like {answer!r}')
    return answer, accepted


def _question(
    fields: Mapping[str, Any], column: str, images: int, described: TableSet
) -> dict[str, Any]:
    if fields.get("messages") and not fields.get("question"):
        return {}
    if not column:
        raise RowError(
            "question",
            described.columns.question[0],
            f'missing; write a text, or "messages" in chat form (there are {", ".join(fields)})',
        )
    text = fields[column]
    if not isinstance(text, str):
        raise RowError("question", column, f"{text!r}; write a text")
    text = described.question.replace("{question}", text)
    if not described.image_markers:
        return {"question": text, "image_markers": False}
    marked = [int(number) for number in _MARKER.findall(text)]
    if marked and sorted(marked) != list(range(1, images + 1)):
        # MMMU names an image twice, or in an option: then no place in the text is an image's own.
        plain_text = "<image " in text
        return {"question": text, **({"image_markers": False} if plain_text else {})}
    return {"question": _MARKER.sub(r"<image\1>", text)}
