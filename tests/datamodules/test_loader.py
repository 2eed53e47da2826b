from __future__ import annotations

import itertools
import os
import signal
import time

import lightning as L
import pytest
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from recorder import Recorder, iterations, trainer
from torch.utils.data import Dataset

from datamodules.loader import PromptLoader
from sapo_vl.types import Prompt, PromptBatch

SLOW = 0.3  # seconds to make a batch


class Slow(Dataset):
    def __init__(self, size=4, seconds=SLOW, wrong=None):
        self.size, self.seconds, self.wrong = size, seconds, wrong

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        time.sleep(self.seconds)
        if i == self.wrong:
            raise RuntimeError("no batch 2")
        return PromptBatch([Prompt(reference=str(i), meta={"pid": os.getpid()})], [], ())


def loader(workers, **options):
    return PromptLoader(
        Slow(**options), batch_size=None, num_workers=workers, persistent_workers=workers > 0
    )


def references(batches):
    return [batch.prompts[0].reference for batch in batches]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_gives_every_batch_once_in_order_pass_after_pass(workers):
    batches = loader(workers, size=7, seconds=0)
    for _ in range(3):
        assert references(batches) == list("0123456")
    assert references(itertools.islice(batches, 2)) == ["0", "1"]  # left in the middle
    assert references(batches) == list("0123456")


def test_says_how_long_a_batch_was_waited_for():
    assert all(batch.waited >= SLOW for batch in loader(0, size=2))
    busy = []
    for batch in loader(1, size=4):
        busy.append(batch.waited)
        time.sleep(3 * SLOW)
    assert busy[0] >= SLOW
    assert all(waited < SLOW / 3 for waited in busy[1:])


def test_the_wait_travels_to_the_device_with_the_batch():
    (batch,) = loader(0, size=1)
    assert batch.to("cpu").waited == batch.waited > 0


def test_time_of_the_callbacks_is_not_counted_as_waiting_for_data(data_seconds):
    assert len(data_seconds) == 4
    assert all(seconds < 0.1 for seconds in data_seconds[1:])


@pytest.fixture
def data_seconds():
    waits = []

    class Busy(L.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            waits.append(batch.waited)
            time.sleep(0.3)

    own = trainer(**iterations(4), callbacks=[Busy()])
    own.fit(Recorder(), train_dataloaders=loader(1, size=100, seconds=0))
    return waits


def test_an_error_of_a_worker_is_raised():
    with pytest.raises(RuntimeError, match="no batch 2"):
        references(loader(1, seconds=0, wrong=2))


def test_a_killed_worker_is_an_error_and_no_hang():
    def kill(batch):
        os.kill(batch.prompts[0].meta["pid"], signal.SIGKILL)
        time.sleep(0.2)

    batches = loader(1, size=100, seconds=0.05)
    with pytest.raises(RuntimeError, match=r"worker .*(killed|exited unexpectedly)"):
        list(map(kill, batches))


def test_ending_the_workers_while_a_batch_is_read_ends_at_once():
    source = loader(1, size=100, seconds=2.0)
    combined = CombinedLoader([source])
    iter(combined)
    start = time.perf_counter()
    combined.reset()  # as the trainer does when a fit is over
    assert time.perf_counter() - start < 10
    assert source._iterator is None
