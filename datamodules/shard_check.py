"""Look through shards for everything that would cost a run samples, or mislead it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datamodules.manifest import manifest_of_shard
from datamodules.samples import SampleError, read_sample
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.shard_writer import sha256_of
from datamodules.tally import Tally
from sapo_vl.types import Prompt, Skip

_FACTOR = 32  # pixels a side of a token; any will do, only decoding is tried


def check_shards(
    shards: str | Path | Sequence[str], *, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Read every sample of the shards, decode every image and video and compare with the manifests.

    Args:
        shards: a folder (all its ``*.tar``), a pattern or several (see ``expand_shards``).
        progress: called with the number of samples gone through.

    Returns:
        ``ok``, ``samples``, ``images``, ``videos``, ``problems`` (how many), ``missing_shards``
        (named by a manifest but not there), ``hashes`` (shards whose SHA-256 is the manifest's),
        ``summary`` (as in a manifest), ``evaluation_only`` (names of sets) and ``shards``: per file
        ``shard, samples, images, videos, hash`` ("ok", "differs" or "unknown"), ``counts`` (problem
        name -> number) and ``problems`` (``why, where, detail``).

    Raises:
        FileNotFoundError: nothing to check.
    """
    paths, whole = find_shards(shards)
    tally = Tally()
    reports = [_check_shard(path, tally, progress or (lambda _: None)) for path in paths]
    manifests = {path: _manifest(path)[0] for path in paths}
    missing = _missing_shards(manifests) if whole else []
    problems = sum(len(report["problems"]) for report in reports) + len(missing)
    return {
        "ok": problems == 0,
        "samples": sum(report["samples"] for report in reports),
        "images": sum(report["images"] for report in reports),
        "videos": sum(report["videos"] for report in reports),
        "problems": problems,
        "missing_shards": missing,
        "hashes": sum(report["hash"] == "ok" for report in reports),
        "summary": tally.summary(),
        "evaluation_only": sorted(
            {one["name"] for one in manifests.values() if one.get("evaluation_only")}
        ),
        "shards": reports,
    }


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """Say in a few lines what a set holds."""
    answers, sides = summary["answers"], summary["image_sides_up_to"]
    common = ", ".join(f"{text!r} {number}" for text, number in answers["commonest"].items())
    lines = [
        f"answers: {answers['distinct']} distinct, {answers['with_options']} choices; {common}"
    ]
    if sides:
        shown = ", ".join(f"<= {side}: {number}" for side, number in sides.items())
        lines.append(
            f"longest sides of images: {shown}; smallest {summary['smallest_image']},"
            f" largest {summary['largest_image']}"
        )
    return lines


def find_shards(shards: str | Path | Sequence[str]) -> tuple[list[str], bool]:
    """List shard files, and whether they are all of a folder.

    Raises:
        FileNotFoundError: there is none.
    """
    if not isinstance(shards, str | Path) or not Path(shards).is_dir():
        return expand_shards(str(shards) if isinstance(shards, Path) else shards), False
    paths = sorted(str(path) for path in Path(shards).glob("*.tar"))
    if not paths:
        raise FileNotFoundError(f"no .tar file in {shards}; give the folder that holds the shards")
    return paths, True


def _check_shard(path: str, tally: Tally, progress: Callable[[int], None]) -> dict[str, Any]:
    problems: list[Skip] = []
    samples = images = videos = 0
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
            faults = _media_faults(prompt)
            problems += [Skip(why="undecodable_media", where=key, detail=x) for x in faults]
            samples += not faults
            if not faults:
                images += len(prompt.images)
                videos += len(prompt.videos)
                tally.add(prompt)
            progress(tally.samples)
        problems += _miscount(path, len(index))
    same, differences = _compare(path)
    problems += differences
    return {
        "shard": path,
        "samples": samples,
        "images": images,
        "videos": videos,
        "hash": same,
        "counts": dict(sorted(Counter(problem.why for problem in problems).items())),
        "problems": [{"why": p.why, "where": p.where, "detail": p.detail} for p in problems],
    }


def _media_faults(prompt: Prompt) -> list[str]:
    """Say why images and videos can't be decoded, by the rules of the stream that reads them."""
    # Imported here: they bring torchvision, which drawing figures needn't wait for.
    from datamodules.images import open_image
    from datamodules.video import VideoLimits, load_clip, plan_clip

    faults = []
    try:
        for data in prompt.images:
            open_image(data).load()
        for data in prompt.videos:
            load_clip(plan_clip(data, VideoLimits(), {}, _FACTOR))
    except SampleError as error:
        faults.append(error.detail)
    except Exception as error:  # PIL raises many kinds, struct.error and SyntaxError among them
        faults.append(f"{type(error).__name__}: {error}")
    return faults


def _manifest(path: str) -> tuple[dict[str, Any], str]:
    """Read the manifest that belongs to a shard (empty if there is none) and what is wrong."""
    try:
        return manifest_of_shard(Path(path)), ""
    except ValueError as error:
        return {}, str(error)


def _miscount(path: str, found: int) -> list[Skip]:
    name = Path(path).name
    written = _manifest(path)[0].get("shards", {}).get(name, {}).get("samples")
    if written is None or written == found:
        return []
    detail = f"{written} samples were written, {found} can be read; copy or make the shard again"
    return [Skip(why="count", where=name, detail=detail)]


def _compare(path: str) -> tuple[str, list[Skip]]:
    """Compare a shard's bytes with its manifest."""
    name = Path(path).name
    manifest, fault = _manifest(path)
    if fault:
        return "unknown", [Skip(why="manifest", where=name, detail=fault)]
    info = manifest.get("shards", {}).get(name)
    if info is None and manifest:
        detail = "the manifest doesn't name this shard; it is left from another run: delete it"
        return "unknown", [Skip(why="manifest", where=name, detail=detail)]
    wanted = (info or {}).get("sha256")
    if wanted is None:
        return "unknown", []
    found = sha256_of(Path(path))
    if found == wanted:
        return "ok", []
    detail = (
        f"SHA-256 is {found[:16]}..., the manifest says {wanted[:16]}...; copy or make it again"
    )
    return "differs", [Skip(why="hash", where=name, detail=detail)]


def _missing_shards(manifests: dict[str, dict[str, Any]]) -> list[str]:
    there = {Path(path).name for path in manifests}
    named = {name for manifest in manifests.values() for name in manifest.get("shards", {})}
    return sorted(named - there)
