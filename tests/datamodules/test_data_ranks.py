"""One, two and three processes see one stream: nothing twice, nothing lost, nobody waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import png
from recorder import Recorder, SaveAt, iterations, source, trainer

from datamodules.shards import write_shards

TESTS = Path(__file__).parent
LENGTHS = {"few": [5], "many-a": [1], "many-b": [2], "many-c": [30]}  # samples of each shard
START, STOP, END = 2, 14, 16  # iterations: alone, then on several ranks, then alone again


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """One shard of the one task and three of very different length of the other."""
    folder = tmp_path_factory.mktemp("uneven")
    for name, (length,) in LENGTHS.items():
        samples = [
            {"key": f"{i:03d}", "images": [png((16, 16))], "question": "Q?", "answer": str(i)}
            for i in range(length)
        ]
        write_shards(samples, folder, name)
    return folder


@pytest.fixture(scope="module")
def alone(processor, uneven, tmp_path_factory):
    """What one process sees without workers, and its checkpoint at START."""
    path = tmp_path_factory.mktemp("alone") / "start.ckpt"
    module = Recorder()
    data = source(processor, str(uneven), workers=0)
    trainer(**iterations(END), callbacks=[SaveAt(path, START)]).fit(module, datamodule=data)
    trainer().test(module, datamodule=data, verbose=False)
    return module.seen, path


def run_ranks(processor, shards, out, ranks, start):
    """Run recorder.py in several processes; gives what each of them saw."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
    arguments = [processor, str(shards), str(out), str(ranks), str(start), str(STOP)]
    done = subprocess.run(
        [sys.executable, *launch, str(TESTS / "recorder.py"), *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def flat(batches):
    return [key for batch in batches for key in batch]


def test_an_epoch_holds_every_sample_once(alone):
    keys = flat(alone[0]["fit"])
    assert len(keys) == 6 * END
    few = [key for key in keys if key.startswith("few")]
    many = [key for key in keys if key.startswith("many")]
    assert len(set(many[:33])) == 33
    assert all(len(set(few[start : start + 5])) == 5 for start in range(0, 45, 5))


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_ranks_with_more_workers_than_shards_see_the_batches_of_one(
    processor, uneven, alone, tmp_path, ranks
):
    seen, start = alone
    parts = run_ranks(processor, uneven, tmp_path, ranks, start)
    batches = zip(*(part["fit"] for part in parts), strict=True)
    assert [flat(of_ranks) for of_ranks in batches] == seen["fit"][START:STOP]
    assert [part["position"]["iteration"] for part in parts] == [STOP] * ranks
    assert all(part["position"] == parts[0]["position"] for part in parts)
    tested = flat(flat(part["test"] for part in parts))
    assert sorted(tested) == sorted(flat(seen["test"]))
    assert len(set(tested)) == 38
    # A checkpoint of several ranks goes on in one, with another number of workers.
    resumed = Recorder()
    trainer(**iterations(END)).fit(
        resumed,
        datamodule=source(processor, str(uneven), workers=1),
        ckpt_path=tmp_path / "ranks.ckpt",
    )
    assert resumed.seen["fit"] == seen["fit"][STOP:]
