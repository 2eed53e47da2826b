"""Peak memory of one update, each variant in a process of its own (Linux only).

``python -m sapo_vl.bench.memory`` is the child: it loads one side, runs a pass without gradient to
warm up (TRL makes one itself when it prepares a group) and an update that is watched, and prints
the figures as its last line.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from sapo_vl.bench.cases import PROMPTS_PER_ITERATION, Case, ModelSpec
from sapo_vl.bench.ours import MODES, Ours
from sapo_vl.bench.peer import Peer
from sapo_vl.bench.prompts import make_prompts
from sapo_vl.policy.build import SPECIAL_TOKENS

RESET_PEAK = "5"  # see clear_refs in proc(5)


def peak_memory(variant: str, spec: ModelSpec, folder: Path, case: Case) -> dict[str, float]:
    """MiB of a fresh process: at its peak in an update ("peak"), and before it ("base").

    Raises:
        RuntimeError: the process failed, with the end of what it said.
    """
    task = {
        "variant": variant,
        "spec": spec.to_json(),
        "case": case.to_json(),
        "folder": str(folder),
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-m", "sapo_vl.bench.memory", json.dumps(task)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"memory of {variant}: {done.stderr.strip()[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def watch(work: Callable[[], object]) -> dict[str, float]:
    """MiB of this process before ``work`` and at its peak within it."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what earlier work freed is not this work's
    Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
    base = _status("VmRSS")
    work()
    return {"base": base, "peak": _status("VmHWM"), "above_base": _status("VmHWM") - base}


def _status(field: str) -> float:
    """A field of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    value = next(line for line in lines if line.startswith(field + ":"))
    return int(value.split()[1]) / 1024


def _child(task: dict[str, Any]) -> dict[str, float]:
    spec, case = ModelSpec(**task["spec"]), Case(**task["case"])
    torch.set_num_threads(spec.threads)
    folder, variant = Path(task["folder"]), task["variant"]
    prompts = make_prompts(case, PROMPTS_PER_ITERATION)
    if variant in MODES:
        ours = Ours(spec, folder, case, prompts)
        draw = torch.Generator().manual_seed(0)
        size = (case.group, case.response)
        # Text alone: a vision mark among responses breaks the model's forward pass.
        ids_BT = torch.randint(len(SPECIAL_TOKENS), spec.vocabulary, size, generator=draw)
        ours.old_logp(variant, ids_BT)
        return watch(partial(ours.update, variant, ids_BT))
    with TemporaryDirectory() as workspace:
        peer = Peer(spec, folder, case, prompts, Path(workspace))
        peer.prepare()
        return watch(peer.update)


if __name__ == "__main__":
    figures = _child(json.loads(sys.argv[1]))
    print("\n" + json.dumps(figures))
