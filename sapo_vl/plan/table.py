"""A plan as tables for people and as numbers for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sapo_vl.plan.plan import GIB, Largest, Plan, with_sharding
from sapo_vl.plan.sharding import STRATEGIES

# Terms that are estimates; the others follow from shapes alone.
ESTIMATED = {
    "communication",
    "gathered layers",
    "optimizer step",
    "one layer",
    "vision block",
    "sampling",
    "reading prompts",
    "context",
}


def render(plan: Plan, memory: int, most: Largest) -> RenderableType:
    """Everything that is printed."""
    return Group(
        _run(plan),
        _states(plan),
        _ways(plan),
        _phases(plan, memory),
        Text(_verdict(plan, memory, most)),
        _strategies(plan, memory),
        _arithmetic(plan),
        Text("GiB; ~ marks estimates (5 % for fragments is added to what comes and goes).", "dim"),
    )


def to_json(plan: Plan, memory: int, most: Largest) -> dict[str, Any]:
    """The same as bytes and counts."""
    return {
        "policy": plan.run.policy.path,
        "ranks": plan.run.sharding.ranks,
        "sharding": asdict(plan.run.sharding),
        "parameters": {part.part: asdict(part) for part in plan.counts.parts},
        "adapter_parameters": plan.counts.adapters,
        "lengths": asdict(plan.lengths),
        "packed": plan.packed,
        "states": asdict(plan.states),
        "micro_batch": asdict(plan.micro_batch) | {"total_tokens": plan.micro_batch.tokens},
        "activations": {
            name: asdict(way) | {"peak": way.peak} for name, way in plan.activations.items()
        },
        "rollout": asdict(plan.rollout) | {"peak": plan.rollout.peak},
        "peaks": plan.peaks,
        "memory": memory,
        "fits": plan.fits(memory),
        "strategies": {
            name: with_sharding(plan, sharding).peaks for name, sharding in STRATEGIES.items()
        },
        "largest": asdict(most),
        "arithmetic": asdict(plan.arithmetic),
        "estimates": sorted(ESTIMATED),
    }


def show(plan: Plan, memory: int, most: Largest, width: int | None = None) -> None:
    """Print it."""
    Console(width=width, highlight=False).print(render(plan, memory, most))


def gib(number: float) -> str:
    """Bytes in GiB, two digits behind the point."""
    return f"{number / GIB:,.2f}"


def _run(plan: Plan) -> Table:
    table = _table(plan.run.policy.path, "part", "parameters", "trained")
    for part in plan.counts.parts:
        trained = 0 if plan.counts.adapters else part.trainable
        table.add_row(part.part, f"{part.total:,}", f"{trained:,}")
    if plan.counts.adapters:
        table.add_row("adapters", f"{plan.counts.adapters:,}", f"{plan.counts.adapters:,}")
    table.add_row("all", f"{plan.counts.total:,}", f"{plan.counts.trainable:,}", style="bold")
    return table


def _states(plan: Plan) -> Table:
    sharding, held = plan.run.sharding, plan.states
    table = _table(f"Held by each of {sharding.ranks} GPUs, {sharding.name}", "", "GiB")
    rows = {
        "weights": held.weights,
        **({"reference policy": held.reference} if plan.run.reference else {}),
        "gradients": held.gradients,
        "gradients between micro-batches": held.unreduced,
        "optimizer states": held.optimizer,
        "communication": held.communication,
        "gathered layers": held.layers,
        "gathered for a rollout": held.whole,
        "optimizer step": held.step,
        "context": held.context,
    }
    for label, number in rows.items():
        if number or label != "gradients between micro-batches":
            table.add_row(_marked(label), gib(number))
    if held.cpu:
        table.add_row("CPU memory instead", gib(held.cpu))
    return table


def _ways(plan: Plan) -> Table:
    size = plan.micro_batch
    table = _table(
        f"Activations: {size.rows} responses of {size.response_tokens:,} tokens to {size.prompts} "
        f"prompts of {size.prompt_tokens:,}",
        "",
        *("layers", "one layer", "head's chunk", "vision", "vision block", "peak"),
    )
    for name, way in plan.activations.items():
        label = "this run" if name == "run" else name
        columns = (way.kept + way.ends, way.layer, way.head, way.vision, way.block, way.peak)
        table.add_row(label, *map(gib, columns), style="bold" if name == "run" else None)
    return table


def _phases(plan: Plan, memory: int) -> Table:
    table = _table(f"Peak by phase, of {gib(memory)} GiB", "", "GiB", "")
    rollout = plan.rollout
    notes = {
        "rollout": f"cache {gib(rollout.cache)}, {_marked('sampling')} {gib(rollout.sampling)}, "
        f"{_marked('reading prompts')} {gib(rollout.reading + rollout.vision)}",
        "update": "one micro-batch, forward and backward",
        "optimizer step": "gradients in float32",
    }
    if not plan.run.in_process:
        weights = gib(plan.counts.total * plan.run.policy.activation_size)
        notes["rollout"] = f"nothing: the vLLM servers hold {weights} of weights, and their cache"
    for name, peak in plan.peaks.items():
        fits = "fits" if peak <= memory else f"{gib(peak - memory)} too much"
        table.add_row(name, gib(peak), f"{fits}; {notes[name]}")
    return table


def _strategies(plan: Plan, memory: int) -> Table:
    ranks = plan.run.sharding.ranks
    table = _table(f"The same by strategy, on {ranks} GPUs", "", *plan.peaks, "CPU memory", "")
    for name, sharding in STRATEGIES.items():
        other = with_sharding(plan, sharding)
        peaks = [gib(peak) for peak in other.peaks.values()]
        cpu = gib(other.states.cpu * ranks) if other.states.cpu else "-"
        table.add_row(name, *peaks, cpu, "fits" if other.fits(memory) else "")
    return table


def _verdict(plan: Plan, memory: int, most: Largest) -> str:
    if plan.fits(memory):
        text = f"Fits, with {gib(memory - plan.peak)} GiB to spare."
    else:
        phase = max(plan.peaks, key=lambda name: plan.peaks[name])
        text = f"Does not fit: {phase} takes {gib(plan.peak)} GiB."
        if plan.states.held + plan.states.whole > memory and plan.states.whole:
            text += (
                " The in-process sampler gathers all weights on every GPU; this model is too large"
                " for that on this GPU. Sample with vLLM servers instead (docs/rollout.md)."
            )
    text += f"\nLargest micro-batch to fit: {most.responses} responses, {most.tokens:,} tokens."
    if plan.run.in_process:
        text += f" Largest group, or pass of the sampler: {most.rows} responses."
    return text


def _arithmetic(plan: Plan) -> Table:
    work, lengths = plan.arithmetic, plan.lengths
    table = _table("One iteration of one rank, every length at its limit", "", "")
    image = f"{lengths.image:,} of them an image of {plan.run.pixels:,} pixels"
    rows = {
        "prompts": f"{work.prompts} of {lengths.prompt:,} tokens, {image}",
        "responses": f"{work.responses} of {lengths.response:,} tokens",
        "sampler passes": f"{work.passes}",
        "tokens read and drawn": f"{work.rollout_tokens:,}",
        "updates": f"{len(work.micro_batches)}, of {_counts(work.micro_batches)} micro-batches",
        "tokens of all updates": f"{work.update_tokens:,}",
    }
    if work.reference_tokens:
        rows["tokens of the reference policy"] = f"{work.reference_tokens:,}"
    if work.iterations is not None:
        rows["run"] = (
            f"{work.optimizer_steps:,} optimizer steps, {work.iterations:,} iterations, "
            f"{work.prompts_of_run:,} prompts and {work.responses_of_run:,} responses in all"
        )
    for label, value in rows.items():
        table.add_row(label, value)
    return table


def _counts(numbers: tuple[int, ...]) -> str:
    return " and ".join(map(str, dict.fromkeys(numbers)))


def _marked(label: str) -> str:
    return f"~ {label}" if label in ESTIMATED else label


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        heading = _marked(column)
        table.add_column(heading, justify="left" if number == 0 or not column else "right")
    return table
