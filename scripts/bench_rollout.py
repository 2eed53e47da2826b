"""Our sampler against transformers' generate, tokens a second: bench_rollout.py --json FILE."""

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.bench.cases import Case
from sapo_vl.bench.machine import describe_machine
from sapo_vl.bench.models import build_folder
from sapo_vl.bench.options import add_model_options, chosen_model
from sapo_vl.bench.quiet import quiet_libraries
from sapo_vl.bench.rollouts import compare_rollouts, to_json, to_markdown


def main(arguments: list[str] | None = None) -> None:
    """Measure every P with every G, print the table, write the JSON."""
    args = _parse(arguments)
    quiet_libraries()
    torch.set_num_threads(args.threads)
    spec = chosen_model(args)
    entries, machine = [], describe_machine()
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        build_folder(spec, model)
        for prompt, group in product(args.prompt, args.group):
            case = Case(prompt=prompt, response=args.response, group=group)
            print(case.name, flush=True)
            found = compare_rollouts(spec, model, case, args.prompts, args.repetitions)
            entries.append(to_json(case, args.prompts, found))
    if args.json:
        report = {"machine": machine, "settings": spec.to_json(), "cases": entries}
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(to_markdown(entries))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--prompt", type=int, nargs="+", default=[100, 313, 1300], help="P")
    parser.add_argument("--response", type=int, default=64, help="C")
    parser.add_argument("--group", type=int, nargs="+", default=[4, 8, 16], help="G")
    parser.add_argument("--prompts", type=int, default=1, help="prompts sampled at a time")
    parser.add_argument("--repetitions", type=int, default=5)
    add_model_options(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
