"""How fast prompts are read, TRL's streaming path beside it: bench_data.py [--quick] [--json FILE].

How each figure is measured stands in sapo_vl/bench/reading.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from datamodules.bench import Reading
from sapo_vl.bench.machine import describe_machine
from sapo_vl.bench.photos import build_processor, write_samples
from sapo_vl.bench.quiet import quiet_libraries
from sapo_vl.bench.reading import index_speed, loading, shuffle_quality, skip_speed, to_text
from sapo_vl.verifiers import TextVerifier

PIXELS = (65536, 1048576)  # of an image, least and most


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a table, write the JSON."""
    args = _parse(arguments)
    quiet_libraries()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        processor, shards = args.processor, args.shards
        if processor is None:
            processor = build_processor(Path(folder) / "model")
        if shards is None:
            shards = write_samples(Path(folder), args.samples, args.size)
        reading = Reading(shards, processor, args.prompts, PIXELS, TextVerifier())
        report = {
            "machine": describe_machine(),
            "settings": {k: v for k, v in vars(args).items() if k != "json"},
            "index": index_speed(reading, Path(folder), args.index_samples),
            "skip": skip_speed(reading),
            "shuffle": shuffle_quality(reading, args.index_samples),
            **loading(
                reading,
                processor,
                PIXELS,
                group=args.group,
                batches=args.batches,
                repetitions=args.repetitions,
            ),
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


if __name__ == "__main__":
    main()
