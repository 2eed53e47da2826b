"""Runs a solution inside the sandbox; loaded by `sandbox_child`, standard library only.

A program runs as ``__main__`` with its real standard streams. A function gets its arguments as
lines of JSON on standard input, and its result leaves as one JSON text. Expected results are not
here, so a solution that writes a result itself has done no more than answer.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import sys
import traceback
import types
from typing import Any

_RECURSION = 50_000
# What solutions to such tasks use without importing it; of equal names the later one wins, so the
# built-ins stay what they are.
_STARRED = (
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "io",
    "sys",
    "json",
    "builtins",
    "typing",
)


def run(code: str, function: str | None) -> int:
    """Run a solution and return the exit status: 0, or 1 where it raised."""
    # A long integer is as good an answer as a short one.
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(_RECURSION)
    sys.argv = ["solution.py"]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main  # dataclass and pickle look for a class's module there
    try:
        modules = {name: importlib.import_module(name) for name in _STARRED}
        for module in modules.values():
            main.__dict__.update(_public(module))
        main.__dict__.update(modules)
        if function is None:
            exec(compile(code, "<solution>", "exec"), main.__dict__)
        else:
            _call(code, function, main.__dict__)
    # Ending early is no fault of a program; what it has printed decides.
    except SystemExit:
        return 0 if function is None else 1
    except BaseException:
        traceback.print_exc(limit=-3)
        return 1
    return 0


def _public(module: types.ModuleType) -> dict[str, Any]:
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    return {name: getattr(module, name) for name in names}


def _call(code: str, function: str, names: dict[str, Any]) -> None:
    # What a function prints is not its result: it goes the way of error messages.
    results = os.dup(1)
    os.dup2(2, 1)
    arguments = [json.loads(line) for line in sys.stdin.read().split("\n")]
    exec(compile(code, "<solution>", "exec"), names)
    solution = names.get("Solution")
    owner = solution() if isinstance(solution, type) and hasattr(solution, function) else None
    target = names[function] if owner is None else getattr(owner, function)
    text = json.dumps(target(*arguments))
    with os.fdopen(results, "w", encoding="utf-8") as file:
        file.write(text)
