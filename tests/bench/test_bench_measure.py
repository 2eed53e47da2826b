"""How the benchmark measures: order, medians, counts, memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from models import encode, picture

from sapo_vl.bench.measure import (
    Stats,
    counting_processor,
    counting_tokens,
    interleave,
    ratio,
    timed,
)
from sapo_vl.bench.memory import watch
from sapo_vl.policy import Policy


def test_interleave_alternates_the_order() -> None:
    seen: list[str] = []

    def run(name: str, seconds: float) -> Callable[[], float]:
        return lambda: (seen.append(name), seconds)[1]

    found = interleave({"a": run("a", 1.0), "b": run("b", 3.0)}, repetitions=3)
    assert "".join(seen) == "abbaab"
    assert found["a"].seconds == (1.0, 1.0, 1.0)
    assert ratio(found["b"], found["a"]) == 3.0
    assert ratio(None, found["a"]) is None


def test_stats_are_medians_with_quartiles() -> None:
    stats = Stats((5.0, 1.0, 2.0, 3.0, 100.0))
    assert stats.to_json() == {
        "median": 3.0,
        "quartiles": [2.0, 5.0],
        "seconds": [5.0, 1.0, 2.0, 3.0, 100.0],
    }
    assert Stats((2.0,)).quartiles == (2.0, 2.0)


def test_timed_returns_seconds() -> None:
    assert 0 <= timed(lambda: None)() < 1


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_tokens_and_processor_calls_are_counted(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    with counting_processor(policy.processor) as processor:
        inputs = encode(policy.processor, "How many circles?", [picture(32, 32), picture(48, 32)])
    assert (processor.calls, processor.images) == (1, 2)
    assert processor.seconds > 0
    with counting_tokens(policy.model) as count:
        policy.prefill([inputs])
    assert count.tokens == len(inputs.input_ids_S)
    assert count.patches == len(inputs.media["pixel_values"])
    with torch.no_grad():
        policy.prefill([inputs])  # no longer counted
    assert count.tokens == len(inputs.input_ids_S)


def test_watch_sees_memory_that_is_freed_again() -> None:
    figures = watch(lambda: np.ones(64 * 2**20, dtype=np.uint8).sum())
    assert 60 < figures["above_base"] < 120
    assert figures["peak"] == pytest.approx(figures["base"] + figures["above_base"])
