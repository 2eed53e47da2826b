"""How runs in the sandbox end, and what honest programs have."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandboxes import LIMITS, said, usable

from sapo_vl.verifiers import sandbox as sandbox_module
from sapo_vl.verifiers.sandbox import Sandbox, SandboxError


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return usable(LIMITS)


def test_a_program_has_its_real_streams_and_nothing_else(sandbox: Sandbox) -> None:
    code = """
import os, sys
print(sum(int(line) for line in sys.stdin), len(os.environ) < 10, os.listdir("."), sys.argv)
sys.stderr.write("to nobody")
"""
    assert said(sandbox, code, "1\n2\n") == "3 True [] ['solution.py']"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("while True: pass", "timeout"),
        ("while True:\n    try:\n        while True: pass\n    except: pass", "timeout"),
        ("import os, time\nos.close(1); os.close(2)\ntime.sleep(60)", "timeout"),
        ("while True: print('x' * 1000)", "output"),
        ("x = [0] * 10**10", "failed"),
        ("b'x' * (300 << 20)", "failed"),
        ("raise ValueError('no')", "failed"),
        ("import os; os._exit(3)", "failed"),
        ("import os; os.kill(os.getpid(), 11)", "failed"),
        ("def", "failed"),
        ("import sys; sys.exit(1)", "ok"),
    ],
)
def test_how_runs_end(sandbox: Sandbox, code: str, status: str) -> None:
    short = Sandbox(seconds=1, memory_mb=256, output_kb=64, processes=8)
    begin = time.monotonic()
    outcome = short.run(code, "")
    assert outcome.status == status, outcome
    assert time.monotonic() - begin < 10
    if status != "ok":
        assert outcome.detail


def test_errors_on_standard_error_are_capped(sandbox: Sandbox) -> None:
    code = "import sys\nfor _ in range(20): sys.stderr.write('e' * 100_000)\nsys.exit('last')"
    outcome = sandbox.run(code, "")
    assert outcome.status in ("ok", "failed")
    assert len(outcome.detail) <= 5000


def test_threads_and_deep_recursion_work(sandbox: Sandbox) -> None:
    code = """
import threading
def down(n): return 0 if n == 0 else 1 + down(n - 1)
threading.stack_size(1 << 26)
thread = threading.Thread(target=lambda: print(down(20000)))
thread.start()
"""
    assert said(sandbox, code) == "20000"


def test_a_large_input_arrives_whole(sandbox: Sandbox) -> None:
    assert said(sandbox, "print(len(open(0).read()))", "x" * 3_000_000) == "3000000"
    # It is a file of its own that cannot be written.
    assert said(sandbox, "import os\ntry:\n os.write(0, b'x')\nexcept OSError: print('no')") == "no"


def test_a_function_gives_json_and_its_prints_go_elsewhere(sandbox: Sandbox) -> None:
    code = """
class Solution:
    def f(self, a: List[int], b):
        print("noise")
        return (sum(a), {"k": b})
"""
    outcome = sandbox.run(code, '[1, 2]\n"x"', "f")
    assert (outcome.status, outcome.stdout) == ("ok", '[3, {"k": "x"}]')
    assert sandbox.run("def f(a): return {a}", "1", "f").status == "failed"  # no JSON
    assert sandbox.run("def g(a): return a", "1", "f").status == "failed"
    assert sandbox.run("raise SystemExit", "1", "f").status == "failed"


def test_runs_in_threads_do_not_disturb_each_other(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(4) as pool:
        outputs = pool.map(lambda i: sandbox.run(f"print({i})", "").stdout.strip(), range(8))
        assert list(outputs) == [str(i) for i in range(8)]


def test_a_machine_that_cannot_isolate_is_refused_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_OPTIONS", ("-c", "import os, sys; os.write(1, b'x')"))
    with pytest.raises(SandboxError, match="isolation 'strict' cannot be had"):
        LIMITS.run("print(1)", "")


def test_without_namespaces_it_is_said_or_done() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no system interpreter that every user can read")
    plain = Sandbox(isolation="process", seconds=5, memory_mb=256, python=python)
    outcome = plain.run("import os; print(os.getuid() != 0, os.listdir('.'))", "")
    assert outcome.stdout.strip() == "True []"
    folder = plain.run("import os; open('x', 'w').write('x'); print(os.getcwd())", "").stdout
    assert folder.strip()
    assert not os.path.exists(folder.strip())
    assert plain.run("while True: print('x' * 10000)", "").status == "output"


@pytest.mark.parametrize("wrong", [{"isolation": "none"}, {"seconds": 0}, {"processes": -1}])
def test_wrong_arguments_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sandbox(**wrong)
