"""One call to `VerifierPool.judge`: deals jobs, collects verdicts, replaces stuck workers."""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sapo_vl.types import Verdict
from sapo_vl.verifiers.sandbox import SandboxError
from sapo_vl.verifiers.worker_handle import LOAD, START, WorkerHandle

_AHEAD = 32  # jobs sent to a worker beyond the current one, so that it never waits for us
_MAX_FAILED_STARTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A prompt with a response, packed for a worker."""

    prompt: bytes  # pickled, without its verifier
    verifier: int  # its place in the round's list
    text: bytes


class Round:
    """The state of one call.

    Args:
        jobs: what is to be judged.
        verifiers: pickled; jobs name them by their place.
        handles: the pool's workers; replaced and added to in place.
        start: starts another worker.
    """

    def __init__(
        self,
        jobs: list[Job],
        verifiers: list[bytes],
        handles: list[WorkerHandle],
        start: Callable[[], WorkerHandle],
    ) -> None:
        self._jobs, self._verifiers = jobs, verifiers
        self._handles, self._start = handles, start
        self._todo = deque(range(len(jobs)))
        self._verdicts: dict[int, Verdict] = {}
        self._failed_starts = 0
        self._selector = selectors.DefaultSelector()

    def run(self, workers: int) -> list[Verdict]:
        """Return the verdicts in the order of the jobs, from ``workers`` workers at most.

        Raises:
            ValueError: a verifier cannot be loaded in a worker.
            RuntimeError: workers cannot be started.
            SandboxError: a verifier of code cannot have its isolation.
        """
        for handle in list(self._handles):
            handle.verifiers.clear()  # numbers mean something else in every call
            if handle.process.poll() is not None:
                self._remove(handle)
        with self._selector:
            for handle in self._handles:
                self._selector.register(handle.pipe, selectors.EVENT_READ, handle)
            while len(self._verdicts) < len(self._jobs):
                self._deal(workers)
                self._wait()
        return [self._verdicts[job] for job in range(len(self._jobs))]

    def _deal(self, workers: int) -> None:
        busy = sum(bool(handle.tasks) for handle in self._handles)
        while len(self._handles) < min(workers, busy + len(self._todo)):
            handle = self._start()
            self._handles.append(handle)
            self._selector.register(handle.pipe, selectors.EVENT_READ, handle)
        # Few at the end, so that no worker waits while another has a queue.
        ahead = min(_AHEAD, len(self._todo) // (2 * workers))
        for handle in self._handles:
            while self._todo and len(handle.tasks) <= ahead:
                self._send(handle, self._todo.popleft())
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if handle.has_output else 0)
            self._selector.modify(handle.pipe, events, handle)

    def _send(self, handle: WorkerHandle, job: int) -> None:
        packed = self._jobs[job]
        if packed.verifier not in handle.verifiers:
            handle.send_verifier(packed.verifier, self._verifiers[packed.verifier])
        handle.send_job(job, packed.verifier, packed.prompt, packed.text)

    def _wait(self) -> None:
        deadlines = [handle.deadline for handle in self._handles if handle.tasks]
        timeout = max(0.0, min(deadlines) - time.monotonic())
        for key, events in self._selector.select(timeout):
            handle: WorkerHandle = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    handle.flush()
                if events & selectors.EVENT_READ:
                    for task, answer in handle.receive():
                        self._take(task, answer)
            except OSError:
                self._replace(handle, "error")
        now = time.monotonic()
        for handle in list(self._handles):
            if handle.tasks and handle.deadline < now:
                self._replace(handle, "timeout")

    def _take(self, task: int, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            raise SandboxError(answer["refused"])
        if task >= 0:
            self._verdicts[task] = Verdict(**answer)
        elif "unloadable" in answer:
            raise ValueError(
                f"a worker cannot load a verifier: {answer['unloadable']}; define its class in a "
                "module that can be imported, or use workers=0"
            )
        self._failed_starts = 0

    def _replace(self, handle: WorkerHandle, why: str) -> None:
        """Kill a worker that is stuck or gone, and blame the job it was at."""
        code = self._remove(handle)
        current = handle.tasks.popleft() if handle.tasks else None
        self._todo.extendleft(job for job in reversed(handle.tasks) if job >= 0)
        if current in (START, LOAD):
            self._failed_starts += 1
            if self._failed_starts == _MAX_FAILED_STARTS:
                raise RuntimeError(
                    f"{_MAX_FAILED_STARTS} verifier workers ended or hung while they started (the "
                    f"last with status {code}); see their messages on stderr"
                )
        elif current is not None:
            self._verdicts[current] = _failure(why, code, handle.seconds)

    def _remove(self, handle: WorkerHandle) -> int | None:
        if handle.pipe in self._registered():
            self._selector.unregister(handle.pipe)
        self._handles.remove(handle)
        return handle.kill()

    def _registered(self) -> set[Any]:
        return {key.fileobj for key in self._selector.get_map().values()}


def _failure(why: str, code: int | None, seconds: float) -> Verdict:
    # The processor's limit is just above the wall clock's: the same thing, seen by the kernel.
    if why == "timeout" or code == -signal.SIGXCPU:
        return Verdict(score=0.0, status="timeout", reason=f"judging took more than {seconds:g} s")
    return Verdict(score=0.0, status="error", reason=f"the worker ended with status {code}")
