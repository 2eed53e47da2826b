"""scripts/requirements.py tells what is missing, and refuses extras that do not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "scripts"


def run(extras: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "requirements.py"), extras]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_what_is_installed_is_enough() -> None:
    assert run("").returncode == 0


def test_an_unknown_extra_is_named_with_the_known_ones() -> None:
    done = run("test,qlorra")
    assert done.returncode == 2
    assert done.stderr.startswith("requirements.py: no extra is called qlorra; there are ")
    assert "qlora" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_installation_is_begun_for_an_unknown_extra() -> None:
    script = f'EXTRAS=nonsense; SAPO_VL_PYTHON={sys.executable}; set -euo pipefail; source "$0"'
    command = ["bash", "-c", script, str(SCRIPTS / "env.sh")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "installing" not in done.stdout
