"""Read a pickle of plain data, and nothing else: no class, no function, no code.

Unpickling calls whatever the file names. LiveCodeBench publishes its private tests as a pickle of
a text, so this reader takes texts, bytes, numbers, lists, dicts and tuples and refuses the first
reference to anything that would have to be imported.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it asks for a persistent object")


def load_plain(data: bytes) -> Any:
    """Load a pickle that holds plain data.

    Raises:
        ValueError: it asks for anything else, or is no pickle; nothing of it was run.
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    # A broken pickle raises nearly anything: IndexError, KeyError, TypeError, MemoryError, ...
    except Exception as error:
        raise ValueError(f"refused: {error or type(error).__name__}") from None
