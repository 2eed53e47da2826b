"""A user's own questions for ``sapo-vl predict``: a JSONL file beside its images."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from datamodules.encode import Encoder
from datamodules.fields import SampleError, image_extension, is_mp4
from datamodules.jsonl import read_objects
from datamodules.samples import read_sample
from datamodules.stream import Item
from sapo_vl.protocols import Verifier
from sapo_vl.types import Skip


class QuestionDataset(Dataset[Item]):
    """Lines like ``{"id": "a", "question": "How many cats?", "images": ["cats.jpg"]}``.

    Paths of mp4 files stand under ``videos``. An ``answer`` may be there or not; without one a
    prompt's reference is empty.

    Args:
        path: the file.
        encoder: makes the model's inputs.
        verifier: set as ``Prompt.verifier`` where there is an answer.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: a line is not a JSON object, or there is none; the message names file and line.
    """

    def __init__(self, path: Path, encoder: Encoder, verifier: Verifier | None = None) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"data.questions: no file {path}")
        self.path = path
        self.encoder = encoder
        self.verifier = verifier
        self.rows = [row for _, row in read_objects(path)]
        if not self.rows:
            raise ValueError(f"{path} holds no question")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Item:
        row = self.rows[number]
        key = str(row.get("id", number))
        try:
            prompt = read_sample(self._fields(row), key=key, task="questions", index=number)
            if row.get("answer") in (None, ""):
                prompt = dataclasses.replace(prompt, reference="")
            else:
                prompt = dataclasses.replace(prompt, verifier=self.verifier)
            return Item(prompt, self.encoder(prompt))
        except SampleError as error:
            return Item(None, None, (Skip(why=error.why, where=key, detail=error.detail),))

    def _fields(self, row: dict[str, Any]) -> dict[str, bytes]:
        data = {key: value for key, value in row.items() if key not in ("id", "images", "videos")}
        # The reader of shards wants an answer; a question of the user's may have none.
        if data.get("answer") in (None, ""):
            data["answer"] = "-"
        fields = {"json": json.dumps(data).encode()}
        for kind in ("images", "videos"):
            for place, content in enumerate(self._files(row, kind)):
                extension = image_extension(content) if kind == "images" else "mp4"
                fields[f"{place}.{extension}"] = content
        return fields

    def _files(self, row: dict[str, Any], kind: str) -> Iterator[bytes]:
        names = row.get(kind) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SampleError("bad_json", f'"{kind}" is {names!r}; it must be a list of paths')
        for name in names:
            path = self.path.parent / name
            try:
                content = path.read_bytes()
                if kind == "images":
                    image_extension(content)
                elif not is_mp4(content):
                    raise ValueError("not an mp4 file; convert it to mp4")
            except (OSError, ValueError) as error:
                raise SampleError("undecodable_media", f"{path}: {error}") from error
            yield content
