"""The other side of `VerifierPool`: a process that judges one response after another.

It reads frames from a socket and writes one line of JSON for each. A frame is a kind, two lengths
and two byte strings: VERIFIER holds a pickled verifier, JOB a pickled prompt and a text. The
pickles come from the process that started this one; nothing that is unpickled here came from a
model, and the answers go back as JSON, so that process unpickles nothing at all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import resource
import socket
import struct
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sapo_vl.verifiers.sandbox import SandboxError

HEADER = struct.Struct("!BIII")  # kind, number of the verifier, lengths of both byte strings
VERIFIER, JOB = 0, 1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Limits:
    """Memory and processor time of one verdict, on top of what the process holds already."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        self.seconds = seconds
        self.memory = memory_mb * 2**20
        self.modules = 0
        self.address_space = 0
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def lift_memory(self) -> None:
        """Allow any size: imports map whole libraries, which is no verdict's fault."""
        _set_soft(resource.RLIMIT_AS, resource.RLIM_INFINITY)

    def set_memory(self) -> None:
        """Limit the address space to what the imports took plus the allowance of a verdict."""
        if len(sys.modules) != self.modules:
            self.modules = len(sys.modules)
            self.address_space = _virtual_size() + self.memory
        _set_soft(resource.RLIMIT_AS, self.address_space)

    def set_cpu(self) -> None:
        """Let the kernel end this process where the next verdict computes for too long.

        The pool kills at the wall clock; this is for a worker whose pool has died.
        """
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used = usage.ru_utime + usage.ru_stime
        _set_soft(resource.RLIMIT_CPU, math.ceil(used + self.seconds) + 1)


def main(descriptor: int, seconds: float, memory_mb: int) -> None:
    """Serve a pool until it closes its end of the socket."""
    import sapo_vl.verifiers  # noqa: F401 (loaded before any limit or clock runs)

    limits = Limits(seconds, memory_mb)
    # A pool that has gone in the middle of a verdict wants no traceback.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(descriptor, limits)


def _serve(descriptor: int, limits: Limits) -> None:
    verifiers: dict[int, Any] = {}
    with socket.socket(fileno=descriptor) as pipe, pipe.makefile("rb") as frames:
        _answer(pipe, {"ready": True})
        last: tuple[bytes, Any] = (b"", None)
        while header := frames.read(HEADER.size):
            kind, number, first, second = HEADER.unpack(header)
            blob, text = frames.read(first), frames.read(second)
            limits.lift_memory()
            if kind == VERIFIER:
                _answer(pipe, _load(verifiers, number, blob))
                continue
            if blob != last[0]:  # a group's responses come with the same prompt
                last = (blob, pickle.loads(blob))
            prompt = replace(last[1], verifier=verifiers[number])
            limits.set_memory()
            limits.set_cpu()
            _answer(pipe, _judge(prompt, text.decode("utf-8", "surrogatepass")))


def _load(verifiers: dict[int, Any], number: int, blob: bytes) -> dict[str, Any]:
    try:
        verifiers[number] = pickle.loads(blob)
    # Whatever an import raises: the pool tells the person who configured it.
    except Exception as error:
        return {"unloadable": f"{type(error).__name__}: {error}"}
    return {"loaded": True}


def _judge(prompt: Any, text: str) -> dict[str, Any]:
    try:
        return asdict(prompt.verifier(prompt, text))
    except SandboxError as error:
        return {"refused": str(error)}
    # BaseException: sys.exit inside a rule must not end the worker.
    except BaseException as error:
        return {"score": 0.0, "status": "error", "reason": f"{type(error).__name__}: {error}"}


def _answer(pipe: socket.socket, value: dict[str, Any]) -> None:
    pipe.sendall(json.dumps(value).encode("ascii") + b"\n")


def _virtual_size() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    except OSError:  # no Linux
        return 0


def _set_soft(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = hard if value == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard))
