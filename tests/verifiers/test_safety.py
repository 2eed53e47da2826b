from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_nothing_a_model_wrote_reaches_eval() -> None:
    """No text or code object is compiled or executed in this process while answers are judged.

    Told by the events that CPython raises for compile, exec and eval, whoever calls them (sympify
    and parse_expr do). Two kinds pass: the loading of modules, and the code that sympy generates
    for products of powers, whose names are checked.
    """
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, str(here / "audited.py")],
        env={"PYTHONPATH": f"{here.parents[1]}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["found"] == []
    assert result["judged"] > 1000
