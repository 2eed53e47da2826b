"""Measure one case on both sides, the peer as far as it can be had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from sapo_vl.bench.cases import PROMPTS_PER_ITERATION, ModelSpec
from sapo_vl.bench.measure import (
    Run,
    counting_processor,
    counting_tokens,
    interleave,
    timed,
)
from sapo_vl.bench.memory import peak_memory
from sapo_vl.bench.ours import MODES, Ours
from sapo_vl.bench.peer import Peer, PeerError
from sapo_vl.bench.prompts import make_prompts
from sapo_vl.bench.result import CaseResult

log = logging.getLogger(__name__)

SECTIONS = ("update", "old_logp", "rollout", "iteration", "memory")
MEMORY_OF = ("shared", "plain", "trl")
# Largest difference of log-probs between the sides at which comparing their times makes sense.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}


def run_case(
    spec: ModelSpec,
    folder: Path,
    result: CaseResult,
    repetitions: int,
    sections: Sequence[str],
    workspace: Path,
) -> Iterator[str]:
    """Measure sections of ``result.case`` into it; yields the name of each when it is done.

    The model of ``spec`` lies in ``folder``.
    """
    case = result.case
    prompts = make_prompts(case, PROMPTS_PER_ITERATION)
    ours = Ours(spec, folder, case, prompts)
    peer: Peer | None = None
    try:
        peer = Peer(spec, folder, case, prompts, workspace)
        result.peer_passes = peer.passes
        ids_BT = peer.prepare()
        _compare(result, spec, ours, peer, ids_BT)
        _count(result, "trl", peer.model, peer.update)
    except Exception as error:  # whatever the peer does, our own figures are still wanted
        peer, ids_BT = None, ours.rollout()
        result.peer_passes = None
        result.peer_missing = str(error) or type(error).__name__
        log.warning("%s: no figures of TRL: %s", case.name, result.peer_missing)
    for mode in MODES:
        _count(result, mode, ours.policy.model, partial(ours.update, mode, ids_BT))
    for section in sections:
        log.info("%s: %s", case.name, section)
        if section == "memory":
            _memory(result, spec, folder, peer)
        elif section == "iteration":
            _iterations(result, ours, peer, repetitions)
        else:
            result.stats[section] = interleave(_runs(section, ours, peer, ids_BT), repetitions)
        yield section


def _compare(result: CaseResult, spec: ModelSpec, ours: Ours, peer: Peer, ids_BT: Tensor) -> None:
    """Both sides' log-probs of the same responses; no timing of two different things.

    The policy never samples vision marks and gives them no probability, TRL does: with the ban
    lifted the two must agree, and the difference that it makes is recorded, too.
    """
    theirs, difference = peer.logps(), result.logp_difference
    with torch.no_grad():
        difference["with_our_bans"] = _gap(ours.score("shared", ids_BT).logp_BT, theirs)
        banned_V = ours.policy.banned_V.clone()
        ours.policy.banned_V.zero_()
        for mode in MODES:
            difference[mode] = _gap(ours.score(mode, ids_BT).logp_BT, theirs)
        ours.policy.banned_V.copy_(banned_V)
    worst = max(difference[mode] for mode in MODES)
    if worst > TOLERANCE[spec.dtype]:
        raise PeerError(
            f"log-probs of the same responses differ by {worst:.2g}, more than "
            f"{TOLERANCE[spec.dtype]:g}: the two sides do not compute the same thing"
        )


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _runs(section: str, ours: Ours, peer: Peer | None, ids_BT: Tensor) -> Mapping[str, Run]:
    """What to run in turn for a section: ours first, then the peer's."""
    runs: dict[str, Run] = {}
    if section == "rollout":
        runs["ours"] = timed(ours.rollout)
        if peer:
            inputs = peer.generation_inputs()
            runs["trl"] = timed(partial(peer.rollout, inputs))
        return runs
    ours_does = {"update": ours.update, "old_logp": ours.old_logp}[section]
    for mode in MODES:
        runs[mode] = timed(partial(ours_does, mode, ids_BT))
    if peer:
        runs["trl"] = timed({"update": peer.update, "old_logp": peer.logps}[section])
    return runs


def _count(result: CaseResult, name: str, model: Any, update: Callable[[], None]) -> None:
    """Count what an update computes; also the run that warms it up."""
    with counting_tokens(model) as count, FlopCounterMode(display=False) as operations:
        update()
    result.computed[name] = {
        "tokens": count.tokens,
        "vision_patches": count.patches,
        "operations": operations.get_total_flops(),  # of matrix products and convolutions
    }


def _memory(result: CaseResult, spec: ModelSpec, folder: Path, peer: Peer | None) -> None:
    for name in (name for name in MEMORY_OF if peer or name != "trl"):
        try:
            result.memory[name] = peak_memory(name, spec, folder, result.case)
        except RuntimeError as error:  # such as: killed for want of memory
            if name != "trl":
                raise
            result.peer_missing = str(error)


def _iterations(result: CaseResult, ours: Ours, peer: Peer | None, repetitions: int) -> None:
    """Whole iterations, and what each asked the processor for."""
    counts: dict[str, list[float]] = {}

    def counted(name: str, run: Run) -> Run:
        def wrapped() -> float:
            with counting_processor(ours.policy.processor) as count:
                seconds = run()
            totals = counts.setdefault(name, [0.0, 0.0, 0.0])
            for place, value in enumerate((count.calls, count.images, count.seconds)):
                totals[place] += value
            return seconds

        return wrapped

    runs = {"ours": counted("ours", ours.iteration)}
    if peer:
        runs["trl"] = counted("trl", peer.iteration)
    result.stats["iteration"] = interleave(runs, repetitions)
    for name, totals in counts.items():
        per_prompt = [total / (repetitions * PROMPTS_PER_ITERATION) for total in totals]
        keys = ("processor_calls", "images_processed", "seconds")
        result.processor[name] = dict(zip(keys, per_prompt, strict=True))
