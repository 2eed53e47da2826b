"""A DataLoader whose batches are ready when asked for, and that says how long each took to come.

Torch's own loader takes a batch from its workers only when it is asked for one: reading the pipe
and opening shared memory then takes the trainer's time. Here a thread does that while the trainer
works on the batch before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any

from torch.utils.data import DataLoader
from typing_extensions import override

from sapo_vl.types import PromptBatch

_Read = Future[PromptBatch | None]  # None: there is no more


class PromptLoader(DataLoader[Any]):
    """DataLoader of PromptBatch; sets ``waited`` of each. Arguments are DataLoader's.

    With workers, one batch more than theirs is held ready in the main process.
    """

    _last: _Read | None = None

    @override
    def __iter__(self) -> Iterator[PromptBatch]:  # type: ignore[override]
        if self._iterator is not None and self._last is not None:
            wait([self._last])  # workers that stay must not be reset under a running read
        batches = iter(super().__iter__())
        return self._ahead(batches) if self.num_workers else _asked(batches)

    def _ahead(self, batches: Iterator[PromptBatch]) -> Iterator[PromptBatch]:
        self._last = coming = _read(batches)
        while True:
            start = time.perf_counter()
            batch = coming.result()
            if batch is None:
                return
            batch.waited = time.perf_counter() - start
            self._last = coming = _read(batches)
            yield batch


def _read(batches: Iterator[PromptBatch]) -> _Read:
    read: _Read = Future()

    def work() -> None:
        try:
            read.set_result(next(batches, None))
        except BaseException as error:  # raised where the batch is asked for
            read.set_exception(error)

    # A daemon, since a loader whose workers were ended lets a running read wait for ever.
    Thread(target=work, name="prompt-loader", daemon=True).start()
    return read


def _asked(batches: Iterator[PromptBatch]) -> Iterator[PromptBatch]:
    while True:
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        batch.waited = time.perf_counter() - start
        yield batch
