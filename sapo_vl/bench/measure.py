"""How things are measured: interleaved repetitions, medians with spread, tokens by hooks."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any
from unittest import mock

Run = Callable[[], float]  # does the work once and returns the seconds it took


@dataclass(frozen=True, slots=True)
class Stats:
    """Seconds of every repetition, in the order they ran."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that is quoted."""
        return median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The spread that is quoted: where the middle half lies."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Median, quartiles and every repetition."""
        return {
            "median": self.median,
            "quartiles": list(self.quartiles),
            "seconds": list(self.seconds),
        }


def timed(work: Callable[[], object]) -> Run:
    """Clock ``work`` from start to end."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def interleave(variants: Mapping[str, Run], repetitions: int) -> dict[str, Stats]:
    """Run the variants in turn, forwards and backwards alternately.

    Whatever slows the machine for a while so meets all of them, and none always runs first.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for repetition in range(repetitions):
        for name in list(variants)[:: 1 if repetition % 2 == 0 else -1]:
            gc.collect()  # not within someone's seconds
            seconds[name].append(variants[name]())
    return {name: Stats(tuple(values)) for name, values in seconds.items()}


def ratio(slow: Stats | None, fast: Stats | None) -> float | None:
    """How many times faster ``fast`` is, by medians; None if either was not measured."""
    return None if slow is None or fast is None else slow.median / fast.median


@dataclass(slots=True)
class TokenCount:
    """Positions that passed through the language model and patches through the vision tower."""

    tokens: int = 0
    patches: int = 0


@contextmanager
def counting_tokens(model: Any) -> Iterator[TokenCount]:
    """Count what a Hugging Face Qwen-VL ``model`` computes, padding included."""
    count = TokenCount()

    def on_layer(_: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        count.tokens += hidden.shape[:-1].numel()

    def on_tower(_: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        pixels = args[0] if args else kwargs["hidden_states"]
        count.patches += pixels.shape[0]

    backbone = model.model
    hooks = [
        backbone.language_model.layers[0].register_forward_pre_hook(on_layer, with_kwargs=True),
        backbone.visual.register_forward_pre_hook(on_tower, with_kwargs=True),
    ]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(slots=True)
class ProcessorCount:
    """What the processor was asked for: calls, pictures in them, seconds."""

    calls: int = 0
    images: int = 0
    seconds: float = 0.0


@contextmanager
def counting_processor(processor: Any) -> Iterator[ProcessorCount]:
    """Count the calls of every processor of this class and the pictures its image part reads."""
    count = ProcessorCount()
    kind, image_kind = type(processor), type(processor.image_processor)
    call, preprocess = kind.__call__, image_kind.preprocess

    @functools.wraps(call)
    def counted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        output = call(self, *args, **kwargs)
        count.seconds += time.perf_counter() - start
        count.calls += 1
        return output

    @functools.wraps(preprocess)
    def counted_preprocess(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = preprocess(self, *args, **kwargs)
        count.images += len(output["image_grid_thw"])
        return output

    with (
        mock.patch.object(kind, "__call__", counted_call),
        mock.patch.object(image_kind, "preprocess", counted_preprocess),
    ):
        yield count
