"""A pool of worker processes: no answer can stop a run, eat its memory or cost more than a limit.

Inside one call to a computer algebra system no signal is delivered, and signals reach main threads
only; so what takes too long is killed from outside, with its process.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.opening import LimitsItself
from sapo_vl.verifiers.rounds import Job, Round
from sapo_vl.verifiers.sandbox import SandboxError
from sapo_vl.verifiers.worker_handle import WorkerHandle


class VerifierPool:
    r"""Judges responses in worker processes, each with a limit of time and memory.

    A response that takes longer than ``seconds`` gets score 0 and status "timeout", one whose
    verifier raises, runs out of memory or ends its process gets "error"; the others never notice,
    and the stuck worker is killed and replaced. Workers start at the first call and are killed by
    ``close``, by the garbage collector or at exit. Calls from several threads take turns; a copy
    (pickle, fork, deepcopy) starts workers of its own, also inside dataloader workers.

    Args:
        workers: processes; 0 judges in this process, without any limit.
        seconds: wall-clock limit of one verdict. Starting a worker is not counted.
        memory_mb: memory of one verdict on top of what the verifiers' imports take, in MiB; Linux
            only.

    Verifiers must be importable and picklable; prompts are sent without images and videos.

    Example: ``VerifierPool(workers=2).judge([(prompt, r"\boxed{3}")])``.

    Raises:
        ValueError: a number out of range.
    """

    def __init__(self, workers: int = 2, seconds: float = 5.0, memory_mb: int = 2048) -> None:
        if workers < 0:
            raise ValueError(f"workers is {workers}; it must be 0 (in process) or more")
        if not 0 < seconds < 86_400:
            raise ValueError(f"seconds is {seconds}; it must be more than 0 and under a day")
        if memory_mb < 16:
            raise ValueError(f"memory_mb is {memory_mb}; a verdict needs 16 or more")
        self.workers, self.seconds, self.memory_mb = workers, seconds, memory_mb
        self._reset()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers, self.seconds, self.memory_mb)

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def judge(self, pairs: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """Return a verdict for every prompt with a response, in their order.

        Raises:
            ValueError: a prompt has no verifier, or one that a worker cannot be sent or load, or
                one that may take longer than the pool allows.
            RuntimeError: workers cannot be started.
            SandboxError: a verifier of code cannot have its isolation.
        """
        if self.workers == 0:
            return [judge_one(prompt, text) for prompt, text in pairs]
        if not pairs:
            return []
        jobs, verifiers = _pack(pairs, self.seconds)
        if self._pid != os.getpid():  # after a fork the workers are the parent's
            self._reset()
        with self._lock:
            running = Round(jobs, verifiers, self._handles, self._start)
            try:
                return running.run(self.workers)
            except BaseException:
                self._kill()  # their answers to this call must not be taken for the next one's
                raise

    def close(self) -> None:
        """Kill the workers; the next call starts new ones."""
        if self._pid == os.getpid():
            with self._lock:
                self._kill()

    def _start(self) -> WorkerHandle:
        return WorkerHandle(self.seconds, self.memory_mb)

    def _kill(self) -> None:
        _kill_all(self._handles, self._pid)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._handles: list[WorkerHandle] = []
        weakref.finalize(self, _kill_all, self._handles, self._pid)


def judge_one(prompt: Prompt, text: str) -> Verdict:
    """Judge one response in this process; a verifier that raises gives score 0, status "error".

    Raises:
        ValueError: the prompt has no verifier.
        SandboxError: a verifier of code cannot have its isolation; no response is at fault.
    """
    verifier = verifier_of(prompt)
    try:
        return verifier(prompt, text)
    except SandboxError:
        raise
    # One bad answer must not end a run; the share of errors is logged.
    except Exception as error:
        return Verdict(score=0.0, status="error", reason=f"{type(error).__name__}: {error}")


def verifier_of(prompt: Prompt) -> Any:
    """Return the prompt's verifier.

    Raises:
        ValueError: it has none.
    """
    if prompt.verifier is None:
        raise ValueError(
            f"prompt {prompt.key} of task {prompt.task!r} has no verifier; name one under "
            "the task's `verifier:` in the data config"
        )
    return prompt.verifier


def _pack(pairs: Sequence[tuple[Prompt, str]], seconds: float) -> tuple[list[Job], list[bytes]]:
    """Pickle every prompt and every verifier once, however many responses share them."""
    verifiers: dict[bytes, int] = {}
    prompts: dict[int, tuple[bytes, int]] = {}
    jobs = []
    for prompt, text in pairs:
        if id(prompt) not in prompts:
            _check_seconds(prompt, seconds)
            blob = _pickled(verifier_of(prompt), prompt)
            bare = dataclasses.replace(prompt, images=(), videos=(), verifier=None)
            number = verifiers.setdefault(blob, len(verifiers))
            prompts[id(prompt)] = (pickle.dumps(bare), number)
        jobs.append(Job(*prompts[id(prompt)], text.encode("utf-8", "surrogatepass")))
    return jobs, list(verifiers)


def _check_seconds(prompt: Prompt, seconds: float) -> None:
    verifier = verifier_of(prompt)
    needed = verifier.seconds_for(prompt) if isinstance(verifier, LimitsItself) else 0.0
    if needed >= seconds:
        raise ValueError(
            f"the verifier of task {prompt.task!r} may take {needed:g} s for one verdict; the pool "
            f"kills a worker after {seconds:g} s; set the pool's seconds above that, or give the "
            "verifier less time (CodeVerifier: total_seconds)"
        )


def _pickled(verifier: Any, prompt: Prompt) -> bytes:
    try:
        return pickle.dumps(verifier)
    # Pickle raises three kinds for this alone.
    except Exception as error:
        raise ValueError(
            f"the verifier of task {prompt.task!r} cannot be sent to a worker: {error}; define its "
            "class at the top of an importable module, or use workers=0"
        ) from error


def _kill_all(handles: list[WorkerHandle], pid: int) -> None:
    if pid == os.getpid():
        for handle in handles:
            handle.kill()
    handles.clear()
