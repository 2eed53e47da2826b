"""Samples on disk in between: gives them back in a drawn order, whatever their size."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from datamodules.sources.table import Item, Refusal


def shuffled(items: Iterable[Item], folder: Path, seed: str) -> Iterator[Item]:
    """Give the items in an order that the seed and their number decide.

    Args:
        items: samples and refusals; they are kept in a temporary file meanwhile.
        folder: where the file may lie.
        seed: the same seed gives the same order.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        places = [_put(item, file) for item in items]
        random.Random(seed).shuffle(places)
        for offset, sizes in places:
            file.seek(offset)
            head, *media = [file.read(size) for size in sizes]
            data = json.loads(head)
            if data["refusal"]:
                yield Refusal(**data["refusal"])
                continue
            images, videos = media[: data["images"]], media[data["images"] :]
            yield {**data["sample"], "images": images, "videos": videos}


def _put(item: Item, file: IO[bytes]) -> tuple[int, list[int]]:
    offset = file.tell()
    if isinstance(item, Refusal):
        media: list[bytes] = []
        data: dict[str, Any] = {"refusal": asdict(item)}
    else:
        images, videos = list(item.get("images") or ()), list(item.get("videos") or ())
        media = images + videos
        rest = {name: value for name, value in item.items() if name not in ("images", "videos")}
        data = {"refusal": None, "sample": rest, "images": len(images)}
    pieces = [json.dumps(data).encode(), *media]
    for piece in pieces:
        file.write(piece)
    return offset, [len(piece) for piece in pieces]
