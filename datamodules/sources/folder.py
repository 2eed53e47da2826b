"""A JSONL file with images beside it, one sample a line: a public set as prepared, or a user's own.

Example line, with the image path relative to the JSONL file::

    {"id": "q1", "image": ["images/1.png"], "question": "How many?", "options": [3, 4],
     "answer": "4"}

``image`` (or ``images``) is a path, a list of paths or absent; ``id`` becomes the key (the line
number if absent); ``question`` or ``messages``, ``answer``, ``options``, ``response``,
``min_pixels``, ``max_pixels`` and ``<image1>`` markers are as in ``datamodules.samples``; the rest
becomes meta.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from datamodules.samples import image_extension

AnswerForm = Literal["auto", "text", "label"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSet:
    """What sets one folder of samples apart from another.

    Example: ``FolderSet(name="mathvision", split="test", answers="label", image_markers=False)``.
    """

    name: str
    split: str = "train"  # the use its licence and its peers leave it; part of the shard's name
    answers: AnswerForm = "auto"  # what stands for a choice: the option's text, its label, either
    image_markers: bool = True  # False: <image1> in a question is text, the images come before it
    question: str = "{question}"  # wraps the question, where it isn't one by itself
    origin: str = ""
    licence: str = ""


def locate(data: str | Path, name: str = "") -> Path:
    """Find the JSONL file: ``data`` itself, ``data/samples.jsonl`` or ``data/NAME/samples.jsonl``.

    Raises:
        FileNotFoundError: none of them is there.
    """
    places = [Path(data), Path(data) / "samples.jsonl", Path(data) / name / "samples.jsonl"]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"no samples at {' or '.join(dict.fromkeys(map(str, places)))}; give the JSONL file, or the"
        " folder that holds samples.jsonl"
    )


def samples(jsonl: str | Path, described: FolderSet | None = None) -> Iterator[dict[str, Any]]:
    """Read the samples of a JSONL file, in its order.

    Where there are options, the answer given is the label of the right one.

    Raises:
        ValueError: a line that can't be used; names the file, line, field and what to do.
    """
    described = described or FolderSet(name="folder")
    path = Path(jsonl)
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield _sample(line, number, path.parent, described)
            except _FieldError as error:
                raise ValueError(f"{path}, line {number}, field {error}") from None


class _FieldError(Exception):
    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f'"{field}": {detail}')


def _sample(line: str, number: int, folder: Path, described: FolderSet) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise _FieldError("(whole line)", f"no JSON ({error}); write one object a line") from None
    if not isinstance(row, dict):
        raise _FieldError("(whole line)", f"a {type(row).__name__}; write one object a line")
    sample = {field: value for field, value in row.items() if field not in ("image", "images")}
    # webdataset cuts a key at its first dot; other odd characters trip tar and shells.
    sample["key"] = re.sub(r"[^\w-]", "_", str(row.get("id", f"{number:06d}")))
    sample["images"] = _images(row, folder)
    sample["answer"] = _answer(row, described.answers)
    if isinstance(row.get("question"), str):
        sample["question"] = described.question.replace("{question}", row["question"])
    elif "messages" not in row:
        raise _FieldError("question", 'missing; write a text, or "messages" in chat form')
    if not described.image_markers:
        sample.setdefault("image_markers", False)
    return sample


def _images(row: Mapping[str, Any], folder: Path) -> list[bytes]:
    field = "images" if "images" in row else "image"
    value = row.get(field)
    names = [value] if isinstance(value, str) else value or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _FieldError(field, f"{value!r}; write a path or a list of paths")
    return [_read_image(folder / name, field) for name in names]


def _read_image(path: Path, field: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _FieldError(
            field, f"can't read {path} ({error.strerror}); paths are relative to the JSONL file"
        ) from None
    try:
        image_extension(data)
    except ValueError as error:
        raise _FieldError(field, f"{path} is {error}") from None
    return data


def _answer(row: Mapping[str, Any], form: AnswerForm) -> str:
    answer, options = row.get("answer"), row.get("options")
    if not isinstance(answer, str | int | float) or isinstance(answer, bool) or answer == "":
        raise _FieldError("answer", f"{answer!r}; write the right answer as a text")
    answer = str(answer)
    if not options:
        return answer
    if isinstance(options, list):
        options = dict(zip(string.ascii_uppercase, options, strict=False))
    if not isinstance(options, dict):
        raise _FieldError("options", f"{options!r}; write a list of texts or label -> text")
    found = _labels(answer, {label: str(text) for label, text in options.items()}, form)
    if len(found) != 1:
        choices = ", ".join(f"{label}. {text}" for label, text in options.items())
        raise _FieldError(
            "answer",
            f"{answer!r} fits {'several' if found else 'none'} of the options ({choices}); give the"
            " text or the label of one, and say by --answers text or label which of the two it is",
        )
    return found.pop()


def _labels(answer: str, options: Mapping[str, str], form: AnswerForm) -> set[str]:
    found = {answer} & set(options) if form in ("label", "auto") else set()
    if form in ("text", "auto"):
        exact = {label for label, text in options.items() if text == answer}
        found |= exact or {label for label, text in options.items() if _same(text, answer)}
    return found


def _same(text: str, answer: str) -> bool:
    return text.strip().casefold() == answer.strip().casefold()
