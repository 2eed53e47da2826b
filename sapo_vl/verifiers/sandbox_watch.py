"""Follows a sandboxed process to its end: collects its output, holds its limits, kills the rest."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

_SETUP_SECONDS = 20.0  # for starting an interpreter on a busy machine
_MAX_ERRORS = 4000  # bytes of standard error that are kept
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended."""

    status: Literal["ok", "failed", "timeout", "output"]
    stdout: str = ""
    detail: str = ""  # for a person: the end of the error output, or the limit that was hit


def watch(
    process: subprocess.Popen[bytes], said: int, seconds: float, max_output: int
) -> tuple[Outcome, str]:
    """Read until the process ends or a limit is hit, kill its group, and say how it went.

    Args:
        process: started in a session of its own, with pipes for stdout and stderr.
        said: pipe on which it says that set-up is over; closed here. Time counts from then on.
        seconds: wall-clock limit.
        max_output: bytes of stdout.

    Returns:
        The outcome, and what was said on ``said``.
    """
    streams = {said: "said"}
    out, err = cast(IO[bytes], process.stdout), cast(IO[bytes], process.stderr)
    streams |= {out.fileno(): "out", err.fileno(): "err"}
    got = {"said": bytearray(), "out": bytearray(), "err": bytearray()}
    try:
        status = _collect(streams, got, process, seconds, max_output)
    finally:
        # Before it is waited for, so that its number cannot belong to another group by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(said)
        out.close()
        err.close()
    text = {name: bytes(data).decode("utf-8", "replace") for name, data in got.items()}
    if status == "timeout":
        return Outcome("timeout", detail=f"took more than {seconds:g} s"), text["said"]
    if status == "output":
        return Outcome("output", detail=f"printed more than {max_output} bytes"), text["said"]
    failed = process.returncode != 0
    last = text["err"].strip().rpartition("\n")[2]
    detail = last or f"exit status {process.returncode}" if failed else ""
    return Outcome("failed" if failed else "ok", text["out"], detail), text["said"]


def kill_all_of(uid: int) -> None:
    """Kill every process of a user that was made up for one run, in whatever session it is."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    os.kill(int(entry.name), signal.SIGKILL)


def _collect(
    streams: dict[int, str],
    got: dict[str, bytearray],
    process: subprocess.Popen[bytes],
    seconds: float,
    max_output: int,
) -> str:
    deadline = time.monotonic() + _SETUP_SECONDS
    with selectors.DefaultSelector() as selector:
        for descriptor in streams:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events and time.monotonic() >= deadline:
                return "timeout"
            for key, _ in events:
                name, data = streams[key.fd], os.read(key.fd, _CHUNK)
                if name == "said":
                    deadline = time.monotonic() + seconds
                if not data:
                    selector.unregister(key.fd)
                elif name != "err" or len(got[name]) < _MAX_ERRORS:
                    got[name] += data
            if len(got["out"]) > max_output:
                return "output"
            if time.monotonic() >= deadline:
                return "timeout"
    return _await_end(process, deadline)


def _await_end(process: subprocess.Popen[bytes], deadline: float) -> str:
    # Not Popen.wait: the process must stay unreaped until its group is killed.
    pause = 0.001
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= deadline:
            return "timeout"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return "ended"
