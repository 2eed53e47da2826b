"""The ranks that Lightning starts beside the first when no launcher does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lightning as L
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher


@contextmanager
def ending_children(trainer: L.Trainer) -> Iterator[None]:
    """Where this process fails, end the ranks that were started from it.

    Lightning ends all when one of those fails; when the first does, they wait for it.
    """
    try:
        yield
    except Exception:
        launcher = trainer.strategy.launcher
        if isinstance(launcher, _SubprocessScriptLauncher):
            for child in launcher.procs:
                child.kill()  # a rank that waits in an exchange hears no other signal
        raise
