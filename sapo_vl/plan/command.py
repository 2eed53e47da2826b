"""``scripts/plan.py``: print the plan of a run, and say whether it fits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sapo_vl.plan.architecture import load_architecture
from sapo_vl.plan.plan import gpu_bytes, largest, longest, make_plan
from sapo_vl.plan.settings import read_settings
from sapo_vl.plan.shape import Shape
from sapo_vl.plan.table import show, to_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan; returns 0 if the run fits, 1 if not, 2 if there is no plan of it."""
    args, rest = _parser().parse_known_args(arguments)
    given = [x for path in args.config for x in ("--config", path)]
    try:
        run = read_settings([*given, *rest], args.world_size)
        lengths = longest(run, Shape.of(load_architecture(run.policy.path)))
        if args.prompt_tokens:
            image = min(lengths.image, args.prompt_tokens)
            lengths = replace(lengths, prompt=args.prompt_tokens, image=image)
        if args.response_tokens:
            lengths = replace(lengths, response=args.response_tokens)
        plan = make_plan(run, lengths)
    except (ValueError, FileNotFoundError) as error:
        print(f"plan.py: {error}", file=sys.stderr)
        return 2
    memory = gpu_bytes(args.gpu_memory)
    most = largest(plan, memory)
    show(plan, memory, most)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(to_json(plan, memory, most), indent=2) + "\n"
        args.json.write_text(text, encoding="utf-8")
    return 0 if plan.fits(memory) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plan.py",
        description="Memory of one GPU and arithmetic of a run, from the YAML of sapo-vl fit. "
        "Further arguments are those of sapo-vl fit (--model.sampling.group_size 8).",
    )
    parser.add_argument("--config", action="append", required=True, help="as for sapo-vl fit")
    parser.add_argument("--world-size", type=int, help="GPUs, in place of devices x num_nodes")
    parser.add_argument(
        "--gpu-memory", type=float, default=80.0, help="of one GPU, in GB: 40, 80, 141"
    )
    parser.add_argument("--prompt-tokens", type=int, help="in place of data.max_prompt_tokens")
    parser.add_argument("--response-tokens", type=int, help="in place of max_new_tokens")
    parser.add_argument("--json", type=Path, help="write the plan in bytes and counts")
    return parser
