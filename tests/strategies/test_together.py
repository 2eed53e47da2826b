"""Ranks that end together where one of them fails; here they are threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from sapo_vl.strategies import together


class Threads:
    """A strategy whose ranks are threads."""

    root_device = torch.device("cpu")
    world_size = 3

    def __init__(self) -> None:
        self.barrier = threading.Barrier(self.world_size, timeout=10)
        self.values: list[Any] = [None] * self.world_size
        self.own = threading.local()

    @property
    def global_rank(self) -> int:
        return int(self.own.rank)

    def _exchange(self, value: Any) -> list[Any]:
        self.barrier.wait()
        self.values[self.global_rank] = value
        self.barrier.wait()
        return list(self.values)

    def reduce(self, tensor: torch.Tensor, reduce_op: str) -> torch.Tensor:
        assert reduce_op == "min"
        return torch.stack(self._exchange(tensor)).min()

    def broadcast(self, value: Any, src: int) -> Any:
        return self._exchange(value)[src]


def on_three_ranks(*errors: Exception | None) -> list[Exception | None]:
    """What each of three ranks ends with, where these errors come up."""
    strategy, found = Threads(), dict[int, Exception]()

    def run(rank: int) -> None:
        strategy.own.rank = rank
        try:
            with together(strategy):
                if error := errors[rank]:
                    raise error
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found.get(rank) for rank in range(3)]


def test_all_raise_where_one_fails() -> None:
    own = OSError("disk full")
    first, second, third = on_three_ranks(None, own, None)
    assert second is own
    assert own.__notes__ == ["on rank 1 of 3, which ends the others"]
    for other in (first, third):
        assert str(other) == "rank 1 of 3 failed: OSError: disk full"


def test_each_keeps_its_own_error_and_the_first_is_named() -> None:
    late, early = ValueError("late"), KeyError("early")
    first, second, third = on_three_ranks(None, early, late)
    assert (second, third) == (early, late)
    assert str(first) == "rank 1 of 3 failed: KeyError: 'early'"


def test_nothing_happens_where_nothing_fails_or_nobody_else_is() -> None:
    assert on_three_ranks(None, None, None) == [None] * 3

    class Alone:
        global_rank, world_size = 0, 1

    with pytest.raises(ValueError, match="alone") as caught, together(Alone()):
        raise ValueError("alone")
    assert not hasattr(caught.value, "__notes__")
