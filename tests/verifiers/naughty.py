"""Verifiers that misbehave, for the tests of the pool, in a module that workers can import."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.sandbox import SandboxError


@dataclass(frozen=True)
class Naughty:
    """Does what the response says."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        if response == "sleep":
            time.sleep(60)
        elif response == "compute":  # one call that no signal interrupts
            return Verdict(score=float(len(str(9 ** (9**9))) > 0))
        elif response == "memory":
            return Verdict(score=float(bool(bytearray(8 * 2**30))))
        elif response == "exit":
            os._exit(7)
        elif response == "sys.exit":
            sys.exit(3)
        elif response == "raise":
            raise RuntimeError("broken")
        elif response == "no isolation":
            raise SandboxError("no namespaces here")
        elif response == "print":
            print("noise", flush=True)
        elif response == "none":
            return None  # type: ignore[return-value]
        elif response == "images":
            return Verdict(score=float(not prompt.images and not prompt.videos))
        return Verdict(score=1.0, extracted=response, reason=str(os.getpid()), parts={"a": 0.5})


@dataclass(frozen=True)
class Unloadable:
    """Can be pickled here and not loaded there."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        return Verdict(score=1.0)

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, (os.getpid(),)


def _refuse(pid: int) -> Unloadable:
    if pid != os.getpid():
        raise ImportError("not in this process")
    return Unloadable()
