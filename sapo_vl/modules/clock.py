"""Seconds of an iteration's phases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def clock(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the time that a ``with`` block takes to ``seconds[name]``."""
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
