"""Measures the verifiers: verdicts a second here and in a pool, and what hostile answers cost."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt
from sapo_vl.verifiers import (
    BoxVerifier,
    GridVerifier,
    MathVerifier,
    NumberVerifier,
    VerifierPool,
)
from sapo_vl.verifiers.bench_answers import HOSTILE, Careless, Pair, mixed

_REPEATS = 3  # of each rate, of which the best counts: other work on the machine only slows


def measure(count: int, workers: int, seconds: float) -> dict[str, Any]:
    """Judge the same answers here and in pools, then hostile ones among good ones in a pool.

    ``direct``, ``pool`` and ``pool_of_one`` are verdicts a second of wall clock; ``overhead_us`` is
    what one verdict costs more in a pool of one worker. ``hostile`` holds, for each answer given to
    three rules and for rules without guards ("careless"), the wall-clock seconds with the good
    answers around it, the statuses, and how many of the good ones were spoilt (none may be).
    """
    direct = _rate(VerifierPool(workers=0), count)
    with VerifierPool(workers=1, seconds=seconds) as one:
        alone = _rate(one, count)
    with VerifierPool(workers=workers, seconds=seconds) as pool:
        pooled = _rate(pool, count)
        hostile = {name: _hostile(pool, _guarded(text)) for name, text in HOSTILE.items()}
        for name, text in (("power", "9**9**9"), ("regex bomb", "a" * 60)):
            bad = (Prompt(reference="", verifier=Careless()), text)
            hostile[f"careless: {name}"] = _hostile(pool, [bad])
    if not direct["scores"] == alone.pop("scores") == pooled.pop("scores"):
        raise RuntimeError("the pool's verdicts are not those of a direct call")
    return {
        "answers": count,
        "mean_score": sum(direct.pop("scores")) / (_REPEATS * count),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "workers": workers,
        "limit_seconds": seconds,
        "direct": direct,
        "pool_of_one": alone,
        "pool": pooled,
        "overhead_us": (1 / alone["per_second"] - 1 / direct["per_second"]) * 1e6,
        "hostile": hostile,
        "spoilt": sum(entry["spoilt"] for entry in hostile.values()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="bench_verifiers.py", description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of one verdict")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    given = parser.parse_args(arguments)
    result = measure(given.answers, given.workers, given.seconds)
    text = json.dumps(result, indent=1)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


def _rate(pool: VerifierPool, count: int) -> dict[str, Any]:
    started = time.perf_counter()
    pool.judge(mixed(200))  # starts the workers; lazy imports and caches, on all sides
    ready = time.perf_counter()
    rates, scores = [], []
    for seed in range(1, _REPEATS + 1):  # others each time: the algebra remembers formulas
        pairs, began = mixed(count, seed), time.perf_counter()
        verdicts = pool.judge(pairs)
        rates.append(count / (time.perf_counter() - began))
        scores += [verdict.score for verdict in verdicts]
    return {"per_second": max(rates), "start_seconds": ready - started, "scores": scores}


def _guarded(text: str) -> list[Pair]:
    asked: list[tuple[Verifier, str]] = [
        (MathVerifier(form="whole"), "x"),
        (BoxVerifier(), "[1, 2, 3, 4]"),
        (GridVerifier(), '{"House 1": {"Name": "Eric"}}'),
    ]
    return [(Prompt(reference=reference, verifier=v), text) for v, reference in asked]


def _hostile(pool: VerifierPool, bad: list[Pair]) -> dict[str, Any]:
    """Judge bad answers between good ones, which must all score 1."""
    good: Pair = (Prompt(reference="3", verifier=NumberVerifier()), r"\boxed{3}")
    started = time.perf_counter()
    verdicts = pool.judge([good, *(pair for one in bad for pair in (one, good))])
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "statuses": dict(Counter(verdict.status for verdict in verdicts[1::2])),
        "spoilt": sum(verdict.score != 1 for verdict in verdicts[::2]),
    }
