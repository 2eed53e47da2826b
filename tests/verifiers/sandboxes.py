"""What the tests of the sandbox share."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sapo_vl.verifiers.sandbox import Sandbox, SandboxError

LIMITS = Sandbox(seconds=5, memory_mb=256, output_kb=64, scratch_mb=4, processes=8)


def usable(sandbox: Sandbox) -> Sandbox:
    """Return the sandbox, or skip the test where this machine cannot isolate."""
    try:
        sandbox.check()
    except SandboxError as error:
        pytest.skip(str(error))
    return sandbox


def said(sandbox: Sandbox, code: str, stdin: str = "") -> str:
    outcome = sandbox.run(code, stdin)
    assert outcome.status == "ok", outcome
    return outcome.stdout.strip()


def sleepers() -> int:
    count = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            count += b"sandbox_child" in Path(path).read_bytes()
        except OSError:
            continue
    return count


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it did not come true within a minute")
