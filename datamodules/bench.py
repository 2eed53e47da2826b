"""How fast prompts are read: the measurements of scripts/bench_data.py.

Figures are medians of runs that take turns. Loaders are clocked from their second batch on, without
the start of workers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import webdataset
from PIL import Image
from webdataset import TarWriter

from datamodules.bench_peer import trl_batches
from datamodules.encode import Encoder
from datamodules.loader import PromptLoader
from datamodules.mixture import sample_number
from datamodules.shard_index import ShardIndex
from datamodules.stream import Collate, StreamSampler, TaskReader, TrainDataset
from datamodules.tasks import TaskConfig
from sapo_vl.bench.measure import counting_processor, interleave
from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.verifiers import TextVerifier

MIN_PIXELS, MAX_PIXELS = 65536, 1048576
QUESTION = "How many shapes are red?"
ARCHITECTURE = {  # as small as can be: only its processor is used
    "model_type": "qwen3_vl",
    "text_config": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]},
    },
    "vision_config": {
        "depth": 1,
        "hidden_size": 16,
        "num_heads": 2,
        "intermediate_size": 16,
        "patch_size": 16,
        "deepstack_visual_indexes": [0],
        "out_hidden_size": 16,
        "num_position_embeddings": 16,
    },
}


def build_processor(folder: Path) -> str:
    """Make a model folder with a processor of published size; gives its path."""
    build_model(ARCHITECTURE, train_tokenizer([QUESTION] * 50, 400), folder)
    return str(folder)


def write_samples(folder: Path, count: int, size: int) -> str:
    """Write shards of JPEG photos (blurred noise); gives their pattern."""
    generator = np.random.default_rng(0)
    for start in range(0, count, 32):
        with TarWriter(str(folder / f"photo-{start // 32:06d}.tar"), encoder=False) as tar:
            for number in range(start, min(start + 32, count)):
                coarse = generator.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8)
                buffer = BytesIO()
                Image.fromarray(coarse).resize((size, size)).save(buffer, "JPEG", quality=90)
                row = json.dumps({"question": QUESTION, "answer": str(number)}).encode()
                tar.write({"__key__": f"{number:06d}", "json": row, "jpg": buffer.getvalue()})
    return str(folder / "photo-*.tar")


def index_speed(folder: Path, count: int) -> dict[str, float]:
    """Seconds to index a shard of small samples, once a run."""
    path = folder / "small.tar"
    with TarWriter(str(path), encoder=False) as tar:
        for number in range(count):
            tar.write({"__key__": f"{number:06d}", "json": b"{}", "jpg": bytes(2000)})
    seconds = median(_seconds(lambda: ShardIndex(str(path))) for _ in range(3))
    return {"samples": count, "seconds": seconds, "samples_per_second": count / seconds}


def skip_speed(shards: str, processor: str, prompts: int) -> dict[str, float]:
    """Seconds to find a place far into the stream; to the first batch there and at the start."""
    reader = _reader(shards, processor)
    far, decoded = 1_000_000, 0
    # Other shares each time, as what was computed for one mixture is kept.
    found = [
        _seconds(partial(_find_place, share, prompts, far))
        for share in (0.22, 0.23, 0.37, 0.38, 0.39)
    ]
    seconds = {}
    for start in (0, far):
        times = []
        for _ in range(3):
            with counting_processor(reader.encoder.processor) as count:
                times.append(_seconds(partial(_first_batch, reader, prompts, start)))
            decoded = max(decoded, count.images)
        seconds[start] = median(times)
    return {
        "skipped_samples": far * prompts,
        "seconds_to_find_the_place": median(found),
        "samples_per_second": far * prompts / median(found),
        "first_batch_at_start_seconds": seconds[0],
        "first_batch_far_in_seconds": seconds[far],
        "images_decoded": decoded,
    }


def shuffle_quality(size: int) -> dict[str, float]:
    """Correlation of neighbours' original positions; a full permutation's is about 0."""
    orders = {
        "ours": [sample_number(0, 0, place, size) for place in range(size)],
        "permutation": list(np.random.default_rng(1).permutation(size)),
        "webdataset_shuffle_1000": list(webdataset.filters.shuffle(1000)(iter(range(size)))),
    }
    return {name: float(np.corrcoef(order[:-1], order[1:])[0, 1]) for name, order in orders.items()}


def loading(
    shards: str, processor: str, *, prompts: int, group: int, batches: int, repetitions: int
) -> dict[str, Any]:
    """Prompts a second, decoded and encoded, for each number of workers and for TRL.

    Args:
        shards: pattern of the shards.
        processor: the model's folder.
        prompts: of a batch.
        group: responses of a prompt (G): how often TRL repeats each.
        batches: of one repetition.
        repetitions: of every figure; variants take turns.
    """
    reader = _reader(shards, processor)

    def ours(workers: int) -> Callable[[], float]:
        return lambda: _clock(_batches(reader, prompts, workers), batches)

    variants = {f"ours_{workers}_workers": ours(workers) for workers in (0, 1, 2)}
    peer = trl_batches(shards, processor, prompts, group, MIN_PIXELS, MAX_PIXELS)
    if peer is not None:
        variants["trl_streaming"] = lambda: _clock(peer(), batches)
    found = interleave(variants, repetitions)
    per_run = prompts * batches
    images = {}
    for name in [name for name in variants if name in ("ours_0_workers", "trl_streaming")]:
        with counting_processor(reader.encoder.processor) as count:
            variants[name]()
        images[name] = count.images / (per_run + prompts)
    rates = {name: per_run / stats.median for name, stats in found.items()}
    return {
        "prompts_per_second": rates,
        "images_processed_per_prompt": images,
        "seconds": {name: stats.to_json() for name, stats in found.items()},
    }


def _reader(shards: str, processor: str) -> TaskReader:
    task = TaskConfig(name="bench", shards=shards, verifier=TextVerifier())
    return TaskReader(task, Encoder(processor, 16384, MIN_PIXELS, MAX_PIXELS))


def _batches(reader: TaskReader, prompts: int, workers: int, start: int = 0) -> Iterator[Any]:
    loader = PromptLoader(
        TrainDataset([reader], seed=0),
        batch_sampler=StreamSampler([1.0], prompts, lambda: start, 0, 1),
        collate_fn=Collate(("bench",)),
        num_workers=workers,
    )
    return iter(loader)


def _find_place(share: float, prompts: int, start: int) -> object:
    return next(iter(StreamSampler([share, 0.41], prompts, lambda: start, 0, 1)))


def _first_batch(reader: TaskReader, prompts: int, start: int) -> object:
    return next(_batches(reader, prompts, 0, start))


def _clock(batches: Iterator[Any], count: int) -> float:
    """Seconds of ``count`` batches after the first."""
    next(batches)
    return _seconds(lambda: [next(batches) for _ in range(count)])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
