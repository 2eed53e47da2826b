"""One worker process as `VerifierPool` holds it: start, send, receive, kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import Any

from sapo_vl.verifiers.worker import HEADER, JOB, VERIFIER

START_SECONDS = 120.0  # for the imports of a worker or of a verifier, on a busy machine
START, LOAD = -1, -2  # what a worker works on, beside jobs (0, 1, ...)

# A plain command and no multiprocessing: that would import the caller's main script again, with
# torch and Lightning, and is forbidden in dataloader workers.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sapo_vl.verifiers.worker import main; "
    "main(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))"
)


class WorkerHandle:
    """A worker process with its socket; ``tasks`` are the jobs it was sent, the current one first.

    Args:
        seconds: wall-clock limit of one job.
        memory_mb: memory of one job on top of what the imports take, in MiB.
    """

    def __init__(self, seconds: float, memory_mb: int) -> None:
        self.seconds = seconds
        self.pipe, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            limits = [str(number), str(seconds), str(memory_mb)]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), *limits],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        self.pipe.setblocking(False)
        self.verifiers: set[int] = set()
        self.tasks: deque[int] = deque([START])
        self.deadline = time.monotonic() + START_SECONDS
        self._out: deque[memoryview] = deque()
        self._in = bytearray()

    @property
    def has_output(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out)

    def send_verifier(self, number: int, blob: bytes) -> None:
        """Have the worker load a pickled verifier under a number."""
        self.verifiers.add(number)
        self._send(LOAD, HEADER.pack(VERIFIER, number, len(blob), 0) + blob)

    def send_job(self, job: int, number: int, prompt: bytes, text: bytes) -> None:
        """Have the worker judge a text with the verifier of a number."""
        self._send(job, HEADER.pack(JOB, number, len(prompt), len(text)) + prompt + text)

    def flush(self) -> None:
        """Send what the socket takes now.

        Raises:
            OSError: the worker has gone.
        """
        with contextlib.suppress(BlockingIOError):
            while self._out:
                sent = self.pipe.send(self._out[0])
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    self._out.popleft()

    def receive(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the tasks that are done since, with the worker's answers.

        Raises:
            OSError: the worker has gone.
        """
        with contextlib.suppress(BlockingIOError):
            data = self.pipe.recv(2**20)
            if not data:
                raise ConnectionResetError("the worker has gone")
            self._in += data
        *lines, rest = self._in.split(b"\n")
        self._in = bytearray(rest)
        done = [(self.tasks.popleft(), json.loads(line)) for line in lines]
        if done:
            self._set_deadline()
        return done

    def kill(self) -> int | None:
        """End the process and whatever it started in its session; return how it ended."""
        self.pipe.close()
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        return self.process.returncode

    def _send(self, task: int, frame: bytes) -> None:
        self.tasks.append(task)
        if len(self.tasks) == 1:
            self._set_deadline()
        self._out.append(memoryview(frame))

    def _set_deadline(self) -> None:
        limit = START_SECONDS if self.tasks and self.tasks[0] < 0 else self.seconds
        self.deadline = time.monotonic() + limit
