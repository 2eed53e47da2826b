"""``docs/sizes.md``: the plans of every file in ``configs/model`` under the strategy it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sapo_vl.plan.plan import GIB, Largest, Plan, gpu_bytes, largest, make_plan
from sapo_vl.plan.settings import read_settings
from sapo_vl.plan.sharding import STRATEGIES

MEMORY = gpu_bytes(80)
HEAD = """\
# Sizes

What each file of `configs/model` takes on GPUs of 80 GB (79.2 GiB) under the strategy it names, in
GiB for one GPU. Made by `python scripts/size_table.py`; do not edit it by hand. One size in
detail, with all strategies beside each other and the arithmetic of the run:

```bash
python scripts/plan.py --config configs/base.yaml --config configs/model/qwen3_vl_8b.yaml \\
    --config configs/strategy/zero2.yaml --config configs/data/example.yaml [--gpu-memory 141]
```

Every length is at its limit: prompts of 4,096 tokens with an image of 1,024, responses of 2,048.
Updates read a group's prompt once, but for Qwen3.5. The micro-batch and the rows decoded at a time
are the largest that fit; the peaks are those of the file's own. CPU memory is that of one host,
where states are offloaded.
"""
COLUMNS = (
    "model",
    "parameters",
    "GPUs",
    "strategy",
    "rollout",
    "update",
    "optimizer step",
    "CPU memory",
    "fits",
    "largest micro-batch",
    "rows at a time",
)
TAIL = """
## What does not fit

The in-process sampler decodes with whole weights on every GPU, and ZeRO-3 gathers them for a
rollout. Where 2 bytes a parameter and a cache exceed one GPU, no number of GPUs helps: only the
updates of these files fit. Give the rollout GPUs that hold the weights (`--gpu-memory` tells), or
sample with vLLM servers, which split them: [rollout.md](rollout.md).

## How far to trust it

- Weights, gradients, optimizer states, caches and what layers keep for their backward pass follow
  from shapes. Against what autograd keeps, in the published layouts at 1 to 50 M parameters, the
  formulas are within 1 % (6 % for Qwen3.5 in float32, for packed rows and with checkpointing);
  against the most that torch allocates in an update within 10 %
  (`tests/plan/test_activation_formulas.py`). That was measured on a CPU. Nothing here has been
  measured on a GPU yet.
- What each rank holds under FSDP2 (shares, whole gradients between micro-batches, weights gathered
  for a rollout) was compared with what two processes hold, within 0.5 %
  (`tests/strategies/test_fsdp2.py`).
- Communication buffers, weights gathered while it works, the optimizer's temporaries, the
  CUDA context (2 GiB) and fragments (5 % of what comes and goes) are estimates; `scripts/plan.py`
  marks them with ~.
- Qwen3.5's linear attention is counted as transformers' own torch code runs it; the kernels of
  flash-linear-attention keep less, so that larger micro-batches fit.

Published figures beside them: EasyR1's requirements for full fine-tuning with GRPO in pure bfloat16
(README of hiyouga/EasyR1; AdamW in bfloat16 too, 8 bytes a parameter and no float32 masters, and
rollouts by vLLM over several GPUs) are 3B on 1 x 40 GB, 7B on 4 x 40 GB, 32B on 8 x 80 GB and 72B
on 16 x 80 GB; with float32 masters 7B on 8 x 40 GB and 32B on 16 x 80 GB.
"""


@dataclass(frozen=True, slots=True)
class Size:
    """One file of configs/model, planned."""

    name: str
    strategy: str
    plan: Plan
    most: Largest


def recommended(file: Path) -> str:
    """The strategy that a model file names in its first line.

    Raises:
        ValueError: it names none that is known.
    """
    first = file.read_text(encoding="utf-8").splitlines()[0]
    found = re.search(r"configs/strategy/(\w+)\.yaml", first)
    if not found or found[1] not in STRATEGIES:
        raise ValueError(f"{file}: the first line names no file of configs/strategy")
    return found[1]


@cache
def plan_file(file: Path) -> Size:
    """Plan a file of configs/model with base.yaml, its strategy and the example's data."""
    configs, strategy = file.parents[1], recommended(file)
    files = (configs / "base.yaml", file, configs / "data" / "example.yaml")
    run = read_settings([x for path in files for x in ("--config", str(path))])
    sharding = replace(STRATEGIES[strategy], ranks=run.sharding.ranks)
    plan = make_plan(replace(run, sharding=sharding))
    return Size(file.stem, strategy, plan, largest(plan, MEMORY))


def page(files: Iterable[Path]) -> str:
    """The whole page."""
    sizes = sorted((plan_file(file) for file in files), key=lambda s: s.plan.counts.total)
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(_row(size))} |" for size in sizes]
    return "\n".join([HEAD, *lines, TAIL])


def _row(size: Size) -> list[str]:
    plan, most = size.plan, size.most
    ranks, nodes = plan.run.sharding.ranks, plan.run.nodes
    peaks = [f"{peak / GIB:,.0f}" for peak in plan.peaks.values()]
    cpu = f"{plan.states.cpu * ranks / nodes / GIB:,.0f}" if plan.states.cpu else ""
    update = plan.peaks["update"] <= MEMORY and plan.peaks["optimizer step"] <= MEMORY
    verdict = "yes" if plan.fits(MEMORY) else ("updates alone" if update else "no")
    micro = f"{most.responses} responses, {most.tokens:,} tokens"
    billions = f"{plan.counts.total / 1e9:.2f} B"
    start = [f"`{size.name}`", billions, str(ranks), size.strategy]
    return [*start, *peaks, cpu, verdict, micro, str(most.rows) if most.rows else "none"]
