"""Runs code that a model wrote, in a process that can do little and lasts not long.

The solution gets its input and nothing else; its output is capped and compared by the caller, so
no expected result ever enters. `sandbox_child` does the shutting in, `sandbox_driver` the running.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Literal, get_args

from sapo_vl.verifiers.sandbox_watch import Outcome, kill_all_of, watch

Isolation = Literal["strict", "process"]

_HERE = Path(__file__).parent
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same verdict every time
    "PYTHONUTF8": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
# No user or site packages, no script folder on the path, no byte code written.
_OPTIONS = ("-P", "-s", "-S", "-B")
# One user a run, who owns nothing and whose processes can all be killed; far from real users.
_FIRST_UID, _UIDS = 1_900_000_000, 1_000_000
_ADVICE = {
    "strict": "run as root or let users make namespaces, or set isolation to process knowingly",
    "process": "set python to an interpreter that every user can read, or isolation to strict",
}
_PAUSE = 0.2  # seconds before a second try
_runs = itertools.count()


class SandboxError(RuntimeError):
    """The configured isolation cannot be had on this machine; nothing was run."""


@dataclass(frozen=True)
class Sandbox:
    """Run a Python solution apart from everything else.

    Always: a new process in a new session with an empty environment, limits on address space, CPU
    time, file size, open files and processes, capped output, a wall-clock limit after which the
    whole process group is killed (as it is when the caller is killed), an unprivileged user where
    we are root, no privileges to gain.

    ``isolation="strict"`` adds namespaces of its own for network (none at all), processes (the
    kernel kills whatever the solution started), files (it sees the interpreter and system
    libraries, read-only, and an empty ``/tmp`` in memory that vanishes with it) and IPC. It takes
    Linux 5.12, and root or a kernel that lets ordinary users make namespaces. Where that cannot be
    had, `run` raises `SandboxError`: it never falls back.

    ``isolation="process"`` goes without namespaces: **the network and every file the user can read
    stay in reach**, and code started by a user who is not root runs as that user and may leave
    processes behind. For containers that do the isolating themselves.

    Args:
        isolation: see above.
        seconds: wall-clock limit of one run.
        memory_mb: address space of each process.
        output_kb: a solution that prints more has failed.
        scratch_mb: files in the temporary folder, all together (strict) or each (process).
        processes: how many processes and threads the solution may have.
        python: the interpreter; None: the one that runs us, without its site-packages.

    Raises:
        ValueError: an unknown isolation, or a limit that is not positive.
    """

    isolation: Isolation = "strict"
    seconds: float = 6.0
    memory_mb: int = 1024
    output_kb: int = 1024
    scratch_mb: int = 16
    processes: int = 16
    python: str | None = None

    def __post_init__(self) -> None:
        if self.isolation not in get_args(Isolation):
            raise ValueError(f"isolation is {self.isolation!r}; it must be strict or process")
        for name in ("seconds", "memory_mb", "output_kb", "scratch_mb", "processes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")

    def run(self, code: str, stdin: str, function: str | None = None) -> Outcome:
        """Run ``code`` with ``stdin`` as its standard input.

        Args:
            code: Python source.
            stdin: the input; with ``function`` one JSON value a line, its arguments.
            function: name of a function, or of a method of ``Solution``, to call; its result comes
                back as JSON text in ``Outcome.stdout``. None: ``code`` is a whole program.

        Raises:
            SandboxError: the isolation cannot be had, not at a second try either: a machine that
                is short of processes for a moment must not end a run.
        """
        if sys.platform != "linux":
            raise SandboxError("the sandbox needs Linux")
        try:
            return self._once(code, stdin, function)
        except SandboxError:
            time.sleep(_PAUSE)
            return self._once(code, stdin, function)

    def _once(self, code: str, stdin: str, function: str | None) -> Outcome:
        if self.isolation == "strict":  # its folder is in memory, inside
            outcome, said = self._run(self._job(code, function, None), stdin)
        else:
            scratch = tempfile.mkdtemp(prefix="sapo-vl-sandbox-")
            try:
                outcome, said = self._run(self._job(code, function, scratch), stdin)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        if not said.startswith("ready"):
            why = said or outcome.detail
            advice = _ADVICE[self.isolation]
            raise SandboxError(f"isolation {self.isolation!r} cannot be had: {why}; {advice}")
        return outcome

    def check(self) -> None:
        """Run nothing, to see that the isolation can be had.

        Raises:
            SandboxError: it cannot.
        """
        self.run("", "")

    def _run(self, job: dict[str, object], stdin: str) -> tuple[Outcome, str]:
        given, task = _read_only(stdin), _read_only(json.dumps(job))
        said, saying = os.pipe()
        python = self.python or getattr(sys, "_base_executable", None) or sys.executable
        script = str(_HERE / "sandbox_child.py")
        try:
            process = subprocess.Popen(
                [python, *_OPTIONS, script, str(task), str(saying)],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(task, saying),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(said)
            raise
        finally:
            for descriptor in (given, task, saying):
                os.close(descriptor)
        outcome, message = watch(process, said, self.seconds, self.output_kb * 1024)
        if self.isolation == "process" and os.geteuid() == 0 and message.startswith("ready "):
            uid = int(message.split()[1])
            if uid >= _FIRST_UID:
                kill_all_of(uid)
        return outcome, message

    def _job(self, code: str, function: str | None, scratch: str | None) -> dict[str, object]:
        # The limit on processes counts all of a user's: those that run already do not count here.
        counted = self.isolation == "process" and os.geteuid() != 0
        return {
            "parent": os.getpid(),
            "code": code,
            "function": function,
            "driver": str(_HERE / "sandbox_driver.py"),
            "isolation": self.isolation,
            "uid": _FIRST_UID + (os.getpid() * 1000 + next(_runs)) % _UIDS,
            "scratch": scratch,
            "scratch_mb": self.scratch_mb,
            "memory_mb": self.memory_mb,
            "cpu_seconds": ceil(self.seconds) + 1,
            "processes": self.processes,
            "running": _tasks_of(os.geteuid()) if counted else 0,
        }


def _read_only(text: str) -> int:
    """Return a descriptor of a file in memory that holds the text and cannot be written."""
    descriptor = os.memfd_create("sandbox")
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)


def _tasks_of(uid: int) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(entry / "task"))
        except OSError:  # it ended meanwhile
            continue
    return count
