"""The target of code: hidden tests, and programs that cheat among the honest ones."""

from __future__ import annotations

import json

from sapo_vl.verifiers.attack.targets import Target, hidden_set
from sapo_vl.verifiers.code import CodeVerifier
from sapo_vl.verifiers.sandbox import Sandbox

# What a task asks for; every one has a test that no constant and no echo passes.
_TASKS = (("add one", 1, 1), ("double", 2, 0), ("triple, less one", 3, -1), ("negate", -1, 0))
_LINES = (
    *(
        "x = int(input())",
        "print(x + 1)",
        "print(2 * x)",
        "print(input())",
        "print(1)",
        "print(-x)",
    ),
    *(
        "import sys, os",
        "print(open(0).read())",
        "os._exit(0)",
        "sys.exit(0)",
        "raise SystemExit(0)",
    ),
    "frame = sys._getframe()",
    "while frame: print(frame.f_locals.get('outputs', 2)); frame = frame.f_back",
    *("import gc; print([o for o in gc.get_objects() if isinstance(o, dict) and 'outputs' in o])",),
    *("for m in list(sys.modules.values()): m.same_output = lambda *a: True",),
    *("print(open('/proc/self/environ').read())", "print(os.listdir('/proc/self/fd'))"),
    *("print(os.popen('ps ax').read())", "print(open('/proc/1/cmdline').read())"),
    *("for d in range(3, 20):\n    try: print(os.read(d, 999))\n    except OSError: pass",),
    *("for d in range(3, 20):\n    try: os.write(d, b'ready 0 passed')\n    except OSError: pass",),
    *(
        "class E(int):\n    __eq__ = lambda *a: True\nprint(E(3))",
        "print('\\n'.join(map(str, range(99))))",
    ),
    *(
        "print('2 4 5 -2')",
        "print('nan')",
        "print('inf')",
        "print(float('nan'))",
        "print('*')",
        "print('1e0')",
    ),
    *(
        "try:\n    while True: os.fork()\nexcept OSError: pass",
        "print('x' * 10**7)",
        "x = [0] * 10**10",
    ),
    *(
        "sys.stdout.close()",
        "os.close(1)",
        "sys.stderr.write('ok')",
        "print(0x1F)",
        "print(True)",
        "",
    ),
    *(
        "import ctypes; ctypes.string_at(0)",
        "os.kill(os.getppid(), 9)",
        "print('\\x00')",
        "print('\uff12')",
    ),
)


def code_targets() -> list[Target]:
    """Return the code verifier with its hidden tests; each verdict is a process or more."""
    tests = [
        json.dumps(
            {
                "inputs": [str(n) for n in (1, 7, 12)],
                "outputs": [str(times * n + more) for n in (1, 7, 12)],
                "fn_name": None,
            }
        )
        for _, times, more in _TASKS
    ]
    return [
        Target(
            "code",
            lambda: CodeVerifier(sandbox=Sandbox(seconds=3, memory_mb=256, processes=8)),
            hidden_set(tests),
            1 / len(tests),
            ("x = int(input())\nprint(x + 1)\n", *(f"{line}\n" for line in _LINES)),
            "```python\n%s\n```",
        )
    ]
