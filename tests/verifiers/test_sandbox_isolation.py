"""What code in the sandbox cannot reach, and what is left of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandboxes import LIMITS, said, sleepers, usable, wait_for

from sapo_vl.verifiers.sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return usable(LIMITS)


def test_it_is_nobody_and_may_not_become_anybody(sandbox: Sandbox) -> None:
    code = """
import os
print(os.getuid() == 0, os.getgroups())
for call in (lambda: os.setuid(0), lambda: os.chroot("/"), lambda: os.nice(-5)):
    try:
        call()
        print("allowed")
    except OSError:
        pass
"""
    assert said(sandbox, code).split("\n")[0].startswith("False [")
    assert "allowed" not in said(sandbox, code)


def test_files_of_this_machine_are_out_of_reach(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "expected.txt"
    secret.write_text("42", encoding="utf-8")
    code = f"""
import os
print(os.path.exists({str(secret)!r}), os.path.exists("/proc"), os.path.exists("/etc/passwd"))
for path in ("/usr/lib/escape_probe", os.path.dirname(os.__file__) + "/escape_probe"):
    try:
        open(path, "w")
        print("wrote", path)
    except OSError:
        pass
"""
    assert said(sandbox, code) == "False False False"


def test_what_it_writes_is_gone_afterwards(sandbox: Sandbox) -> None:
    probe = f"/tmp/escape_probe_{os.getpid()}"
    code = f"open({probe!r}, 'w').write('x'); open('here', 'w').write('x'); print(2)"
    assert said(sandbox, code) == "2"
    assert not os.path.exists(probe)
    assert said(sandbox, "import os; print(os.listdir('/tmp'))") == "[]"


def test_the_disk_cannot_be_filled(sandbox: Sandbox) -> None:
    code = """
written = 0
try:
    for i in range(100):
        with open(f"f{i}", "wb") as file:
            written += file.write(b"x" * (1 << 20))
except OSError:
    print(written <= 4 << 20)
"""
    assert said(sandbox, code) == "True"


def test_there_is_no_network(sandbox: Sandbox) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        code = f"""
import socket
import subprocess
import sys
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), timeout=2)
    print("connected")
except OSError:
    print("refused", socket.if_nameindex())
"""
        assert said(sandbox, code) == "refused [(1, 'lo')]"


def test_other_processes_cannot_be_seen_or_hit(sandbox: Sandbox) -> None:
    code = f"""
import os
for pid in ({os.getpid()}, 1, -1):
    try:
        os.kill(pid, 9)
    except OSError:
        pass
print(os.getpid() < 20)
"""
    outcome = sandbox.run(code, "")  # kill(-1) takes those of its own user with it
    assert outcome.stdout.strip() in ("", "True")
    assert said(sandbox, "print(1)") == "1"


def test_a_fork_bomb_is_small_and_short(sandbox: Sandbox) -> None:
    # Every failed fork is ignored, and every child goes on: as bad as eight processes at a time
    # can be. One that ends makes room for another, so that a few more than eight come to an end.
    code = """
import os
n = 0
while True:
    try:
        os.fork()
    except OSError:
        n += 1
        if n > 3:
            break
print("done")
"""
    begin = time.monotonic()
    outcome = sandbox.run(code, "")
    assert outcome.stdout.count("done") <= 64
    assert time.monotonic() - begin < 15


def test_what_it_leaves_behind_is_killed(sandbox: Sandbox) -> None:
    # A daemon in a session of its own escapes a kill of the process group, not of the namespace.
    marker = f"{os.getpid()}.25"
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep({marker})
    os._exit(0)
os.wait()
print("left")
"""
    before = sleepers()
    assert said(sandbox, code) == "left"
    wait_for(lambda: sleepers() <= before)


def test_it_ends_with_its_caller(sandbox: Sandbox) -> None:
    # As when a pool kills a worker that has used up its time.
    before = sleepers()
    code = "from sapo_vl.verifiers.sandbox import Sandbox\n"
    code += "Sandbox(seconds=300).run('import time; time.sleep(300)', '')"
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for(lambda: sleepers() >= before + 3)  # two that wait and one that sleeps
    finally:
        caller.kill()
        caller.wait()
    wait_for(lambda: sleepers() <= before)
