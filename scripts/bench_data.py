"""How fast prompts are read, TRL's streaming path beside it: bench_data.py [--quick] [--json FILE].

Figures are medians of runs that take turns. Loaders are clocked from their second batch on, without
the start of workers. What TRL does to a prompt is done with its own functions.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import webdataset
from PIL import Image
from webdataset import TarWriter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from datamodules import TaskConfig
from datamodules.encode import Encoder
from datamodules.loader import PromptLoader
from datamodules.mixture import sample_number
from datamodules.shard_index import ShardIndex, expand_shards
from datamodules.stream import Collate, StreamSampler, TaskReader, TrainDataset
from sapo_vl.bench.machine import describe_machine
from sapo_vl.bench.measure import counting_processor, interleave
from sapo_vl.bench.quiet import quiet_libraries
from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.processor import load_processor
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


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a table, write the JSON."""
    args = _parse(arguments)
    quiet_libraries()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        processor, shards = args.processor, args.shards
        if processor is None:
            processor = str(Path(folder) / "model")
            build_model(ARCHITECTURE, train_tokenizer([QUESTION] * 50, 400), Path(processor))
        if shards is None:
            shards = write_samples(Path(folder), args.samples, args.size)
        report = {
            "machine": describe_machine(),
            "settings": {k: v for k, v in vars(args).items() if k != "json"},
            "index": index_speed(Path(folder), args.index_samples),
            "skip": skip_speed(shards, processor, args.prompts),
            "shuffle": shuffle_quality(args.index_samples),
            **loading(shards, processor, args),
        }
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(to_text(report))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under a minute")
    parser.add_argument("--shards", help="your own shards; else photos of noise are made")
    parser.add_argument("--processor", help="model folder; else one is built")
    parser.add_argument("--samples", type=int, default=64, help="made samples")
    parser.add_argument("--size", type=int, default=448, help="pixels a side of made images")
    parser.add_argument("--prompts", type=int, default=8, help="prompts of a batch")
    parser.add_argument("--group", type=int, default=8, help="responses of a prompt (G)")
    parser.add_argument("--batches", type=int, help="batches of one repetition (6; quick: 2)")
    parser.add_argument("--repetitions", type=int, help="of every figure (7; quick: 3)")
    parser.add_argument("--index-samples", type=int, default=4000)
    args = parser.parse_args(arguments)
    args.batches = args.batches or (2 if args.quick else 6)
    args.repetitions = args.repetitions or (3 if args.quick else 7)
    return args


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
        _seconds(lambda s=share: next(iter(StreamSampler([s, 0.41], prompts, lambda: far, 0, 1))))
        for share in (0.22, 0.23, 0.37, 0.38, 0.39)
    ]
    seconds = {}
    for start in (0, far):
        times = []
        for _ in range(3):
            with counting_processor(reader.encoder.processor) as count:
                times.append(_seconds(lambda s=start: next(_batches(reader, prompts, 0, s))))
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


def loading(shards: str, processor: str, args: argparse.Namespace) -> dict[str, Any]:
    """Prompts a second, decoded and encoded, for each number of workers and for TRL."""
    reader = _reader(shards, processor)

    def ours(workers: int) -> Callable[[], float]:
        return lambda: _clock(_batches(reader, args.prompts, workers), args.batches)

    variants = {f"ours_{workers}_workers": ours(workers) for workers in (0, 1, 2)}
    peer = trl_batches(shards, processor, args.prompts, args.group)
    if peer is not None:
        variants["trl_streaming"] = lambda: _clock(peer(), args.batches)
    found = interleave(variants, args.repetitions)
    per_run = args.prompts * args.batches
    images = {}
    for name in [name for name in variants if name in ("ours_0_workers", "trl_streaming")]:
        with counting_processor(reader.encoder.processor) as count:
            variants[name]()
        images[name] = count.images / (per_run + args.prompts)
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


def trl_batches(
    shards: str, processor: str, prompts: int, group: int
) -> Callable[[], Iterator[Any]] | None:
    """What GRPOTrainer does to a batch of prompts from a stream; None where TRL isn't installed.

    From trl 1.16, trainer/grpo_trainer.py: the stream repeats each row G times and no worker reads
    ahead (get_train_dataloader, __init__); the rows go through the processor once to sample
    (_tokenize_prompts) and once more to score (_generate_and_score_completions). With
    steps_per_generation above 1 the rows would be read as many times more.
    """
    if not (importlib.util.find_spec("trl") and importlib.util.find_spec("datasets")):
        return None
    from datasets import load_dataset
    from trl.data_utils import apply_chat_template, prepare_multimodal_messages
    from trl.trainer.utils import identity, repeat_iterable_dataset

    own = load_processor(processor)
    own.image_processor.size = {"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS}
    files = expand_shards(shards)

    def row(sample: dict[str, Any]) -> dict[str, Any]:
        text = sample["json"]["question"]
        return {"prompt": [{"role": "user", "content": text}], "image": sample["jpg"]}

    def batches() -> Iterator[Any]:
        stream = load_dataset("webdataset", data_files=files, split="train", streaming=True)
        stream = stream.map(row, remove_columns=list(stream.features or stream.column_names))
        repeated = repeat_iterable_dataset(
            stream.shuffle(seed=0), mini_repeat_count=group, batch_size=prompts
        )
        loader = torch.utils.data.DataLoader(
            repeated, batch_size=prompts * group, collate_fn=identity, num_workers=0
        )
        for rows in itertools.chain.from_iterable(itertools.repeat(loader)):
            images = [[one["image"]] for one in rows]
            messages = [
                prepare_multimodal_messages(one["prompt"], images=own_images)
                for one, own_images in zip(rows, images, strict=True)
            ]
            tokens = own.apply_chat_template(
                conversation=messages, add_generation_prompt=True, tokenize=True, return_dict=True
            )
            texts = [apply_chat_template({"prompt": m}, own)["prompt"] for m in messages]
            yield tokens, own(images=images, text=texts, padding=True, return_tensors="pt")

    return batches


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


if __name__ == "__main__":
    main()
