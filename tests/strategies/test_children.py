"""Ranks that Lightning has started end with the process they were started from."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from sapo_vl.strategies.children import ending_children


def test_children_end_where_the_first_rank_fails() -> None:
    launcher = _SubprocessScriptLauncher(LightningEnvironment(), num_processes=2, num_nodes=1)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    launcher.procs = [child]
    trainer: Any = SimpleNamespace(strategy=SimpleNamespace(launcher=launcher))
    with ending_children(trainer):
        pass
    assert child.poll() is None
    with pytest.raises(OSError, match="disk full"), ending_children(trainer):
        raise OSError("disk full")
    assert child.wait(timeout=10) == -signal.SIGKILL


def test_other_launchers_do_so_themselves() -> None:
    trainer: Any = SimpleNamespace(strategy=SimpleNamespace(launcher=None))
    with pytest.raises(OSError, match="disk full"), ending_children(trainer):
        raise OSError("disk full")
