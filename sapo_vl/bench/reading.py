"""How fast prompts are read: the measurements of scripts/bench_data.py.

Figures are medians of runs that take turns. Loaders are clocked from their second batch on, without
the start of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
import webdataset
from webdataset import TarWriter

from sapo_vl.bench.measure import counting_processor, interleave, timed
from sapo_vl.bench.reading_peer import trl_batches


class Reading(Protocol):
    """What is measured: one task's way from its shards to batches.

    A protocol, since this package does not import datamodules, which reads them.
    """

    prompts: int  # of a batch
    processor: Any
    files: list[str]  # its shards

    def index(self, path: str) -> object:
        """Find the samples of one tar."""
        ...

    def order(self, size: int) -> Sequence[int]:
        """Which of a task's ``size`` samples is read first, second, and so on."""
        ...

    def batches(self, workers: int = 0, start: int = 0) -> Iterator[Any]:
        """Read batches from the iteration ``start`` on."""
        ...

    def find_place(self, shares: list[float], start: int) -> object:
        """Find what stands in the iteration ``start`` of tasks with these shares."""
        ...


def index_speed(reading: Reading, folder: Path, count: int) -> dict[str, float]:
    """Seconds to index a shard of small samples, once a run."""
    path = folder / "small.tar"
    with TarWriter(str(path), encoder=False) as tar:
        for number in range(count):
            tar.write({"__key__": f"{number:06d}", "json": b"{}", "jpg": bytes(2000)})
    seconds = median(timed(lambda: reading.index(str(path)))() for _ in range(3))
    return {"samples": count, "seconds": seconds, "samples_per_second": count / seconds}


def skip_speed(reading: Reading) -> dict[str, float]:
    """Seconds to find a place far into the stream; to the first batch there and at the start."""
    far, decoded = 1_000_000, 0
    # Other shares each time, as what was computed for one mixture is kept.
    found = [
        timed(partial(reading.find_place, [share, 0.41], far))()
        for share in (0.22, 0.23, 0.37, 0.38, 0.39)
    ]
    seconds = {}
    for start in (0, far):
        times = []
        for _ in range(3):
            with counting_processor(reading.processor) as count:
                times.append(timed(partial(_first_batch, reading, start))())
            decoded = max(decoded, count.images)
        seconds[start] = median(times)
    return {
        "skipped_samples": far * reading.prompts,
        "seconds_to_find_the_place": median(found),
        "samples_per_second": far * reading.prompts / median(found),
        "first_batch_at_start_seconds": seconds[0],
        "first_batch_far_in_seconds": seconds[far],
        "images_decoded": decoded,
    }


def shuffle_quality(reading: Reading, size: int) -> dict[str, float]:
    """Correlation of neighbours' original positions; a full permutation's is about 0."""
    orders = {
        "ours": reading.order(size),
        "permutation": list(np.random.default_rng(1).permutation(size)),
        "webdataset_shuffle_1000": list(webdataset.filters.shuffle(1000)(iter(range(size)))),
    }
    return {name: float(np.corrcoef(order[:-1], order[1:])[0, 1]) for name, order in orders.items()}


def loading(
    reading: Reading,
    processor: str,
    pixels: tuple[int, int],
    *,
    group: int,
    batches: int,
    repetitions: int,
) -> dict[str, Any]:
    """Prompts a second, decoded and encoded, for each number of workers and for TRL.

    Args:
        reading: ours.
        processor: the model's folder, for TRL.
        pixels: least and most pixels of an image, for TRL.
        group: responses of a prompt (G): how often TRL repeats each.
        batches: of one repetition.
        repetitions: of every figure; variants take turns.
    """

    def ours(workers: int) -> Callable[[], float]:
        return lambda: _clock(reading.batches(workers), batches)

    variants = {f"ours_{workers}_workers": ours(workers) for workers in (0, 1, 2)}
    peer = trl_batches(reading.files, processor, reading.prompts, group, pixels)
    if peer is not None:
        variants["trl_streaming"] = lambda: _clock(peer(), batches)
    found = interleave(variants, repetitions)
    per_run = reading.prompts * batches
    images = {}
    for name in [name for name in variants if name in ("ours_0_workers", "trl_streaming")]:
        with counting_processor(reading.processor) as count:
            variants[name]()
        images[name] = count.images / (per_run + reading.prompts)
    rates = {name: per_run / stats.median for name, stats in found.items()}
    return {
        "prompts_per_second": rates,
        "images_processed_per_prompt": images,
        "seconds": {name: stats.to_json() for name, stats in found.items()},
    }


def _first_batch(reading: Reading, start: int) -> object:
    return next(reading.batches(start=start))


def _clock(batches: Iterator[Any], count: int) -> float:
    """Seconds of ``count`` batches after the first."""
    next(batches)
    return timed(lambda: [next(batches) for _ in range(count)])()


def to_text(report: dict[str, Any]) -> str:
    """The figures as a person reads them."""
    images = report["images_processed_per_prompt"]
    lines = [
        f"{name:>16}: {rate:7.1f} prompts/s"
        + (f", {images[name]:.1f} images through the processor a prompt" if name in images else "")
        for name, rate in report["prompts_per_second"].items()
    ]
    index, skip, shuffle = report["index"], report["skip"], report["shuffle"]
    return "\n".join(
        [
            *lines,
            f"index: {index['samples_per_second']:,.0f} samples/s",
            f"skipping {skip['skipped_samples']:,} samples:"
            f" {skip['seconds_to_find_the_place'] * 1000:.2f} ms; first batch there after"
            f" {skip['first_batch_far_in_seconds']:.2f} s, at the start after"
            f" {skip['first_batch_at_start_seconds']:.2f} s; {skip['images_decoded']} decoded",
            "correlation of neighbours: "
            + ", ".join(f"{name} {value:+.3f}" for name, value in shuffle.items()),
        ]
    )
