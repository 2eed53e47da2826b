"""Look through shards for everything that would cost a run samples, or mislead it."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from datamodules.samples import SampleError, read_sample
from datamodules.shard_index import ShardIndex, expand_shards
from sapo_vl.types import Skip

_SHARD = re.compile(r"(.+)-\d{6}\.tar")


def check_shards(shards: str | Path | Sequence[str]) -> dict[str, Any]:
    """Read every sample of the shards and decode every image.

    Args:
        shards: a folder (all its ``*.tar``), a pattern or several (see ``expand_shards``).

    Returns:
        ``ok``, ``samples``, ``images``, ``problems`` (how many), ``missing_shards`` (named by a
        ``NAME-shards.json`` but not there) and ``shards``: per file ``shard, samples, images``,
        ``counts`` (problem name -> number) and ``problems`` (``why, where, detail``).

    Raises:
        FileNotFoundError: nothing to check.
    """
    if isinstance(shards, str | Path) and Path(shards).is_dir():
        paths = sorted(str(path) for path in Path(shards).glob("*.tar"))
        if not paths:
            raise FileNotFoundError(
                f"no .tar file in {shards}; give the folder that holds the shards"
            )
    else:
        paths = expand_shards(str(shards) if isinstance(shards, Path) else shards)
    reports = [_check_shard(path) for path in paths]
    missing = (
        _missing_shards(paths) if isinstance(shards, str | Path) and Path(shards).is_dir() else []
    )
    problems = sum(len(report["problems"]) for report in reports) + len(missing)
    return {
        "ok": problems == 0,
        "samples": sum(report["samples"] for report in reports),
        "images": sum(report["images"] for report in reports),
        "problems": problems,
        "missing_shards": missing,
        "shards": reports,
    }


def _check_shard(path: str) -> dict[str, Any]:
    problems: list[Skip] = []
    samples = images = 0
    name = Path(path).name
    try:
        index = ShardIndex(path)
    except ValueError as error:
        problems.append(Skip(why="no_sample", where=name, detail=str(error)))
    else:
        problems += index.problems
        for i, key in enumerate(index.keys):
            try:
                prompt = read_sample(index.read(i), key=key)
            except SampleError as error:
                problems.append(Skip(why=error.why, where=key, detail=error.detail))
                continue
            faults = [fault for image in prompt.images if (fault := _image_fault(image))]
            problems += [Skip(why="undecodable_media", where=key, detail=x) for x in faults]
            samples += not faults
            images += len(prompt.images) - len(faults)
        problems += _miscount(path, len(index))
    return {
        "shard": path,
        "samples": samples,
        "images": images,
        "counts": dict(sorted(Counter(problem.why for problem in problems).items())),
        "problems": [{"why": p.why, "where": p.where, "detail": p.detail} for p in problems],
    }


def _image_fault(data: bytes) -> str:
    """Say why an image can't be decoded; nothing if it can."""
    try:
        # verify() alone passes a JPEG that was cut in the middle.
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
            image.load()
    except Exception as error:  # PIL raises many kinds, struct.error and SyntaxError among them
        return f"{type(error).__name__}: {error}"
    return ""


def _summary(path: Path) -> Mapping[str, Any]:
    """Read the ``NAME-shards.json`` that belongs to a shard; empty where there is none."""
    match = _SHARD.fullmatch(path.name)
    summary = path.with_name(f"{match[1]}-shards.json") if match else None
    if summary is None or not summary.is_file():
        return {}
    try:
        shards = json.loads(summary.read_text())["shards"]
    except (ValueError, KeyError, TypeError):
        return {}
    return shards if isinstance(shards, dict) else {}


def _miscount(path: str, found: int) -> list[Skip]:
    name = Path(path).name
    written = _summary(Path(path)).get(name)
    if written is None or written == found:
        return []
    detail = f"{written} samples were written, {found} can be read; copy or make the shard again"
    return [Skip(why="count", where=name, detail=detail)]


def _missing_shards(paths: Sequence[str]) -> list[str]:
    there = {Path(path).name for path in paths}
    named = {name for path in paths for name in _summary(Path(path))}
    return sorted(named - there)
