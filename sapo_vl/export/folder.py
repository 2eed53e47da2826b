"""A folder that is there as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_folder(folder: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a hidden folder beside ``folder`` to write to; it gets its name when all is written.

    After an error nothing is left. A process that is killed leaves the hidden folder,
    ``.NAME.PID.partial``, which may be removed.

    Args:
        folder: the name; an empty folder may be there.
        replace: let what is there go, once the new folder is whole.

    Raises:
        FileExistsError: something is there, and ``replace`` is off.
    """
    folder = Path(folder)
    if not replace and (folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise FileExistsError(f"{folder} is there already; name a new or an empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a killed process with the same id
    partial.mkdir()
    try:
        yield partial
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
