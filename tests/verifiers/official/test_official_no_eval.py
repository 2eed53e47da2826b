"""No official rule hands model text to compile, exec or eval."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# In a process of its own: an audit hook cannot be taken off again.
AUDITED = r"""
import json, sys
import test_official_fuzz as fuzz
from sapo_vl.verifiers.official import OFFICIAL

found, listening, count = [], False, 0

def hook(event, arguments):
    global listening
    if event in ("compile", "exec") and listening:
        listening = False  # what the hook itself does is none of it
        frame, loading = sys._getframe(1), False
        while frame is not None:
            loading = loading or "importlib" in frame.f_code.co_filename
            frame = frame.f_back
        if not loading:
            found.append(f"{event}: {str(arguments[0])[:200]}")
        listening = True

hostile = [r"\boxed{%s}" % text for text in (
    "__import__('canary')", "canary(1)", "31415926535.25", r"31415926535 + \sqrt{27182818284}",
    r"\frac{31415926535.5}{2}", "(31415926535.25, 2)", "31415926535/27182818284")]
sys.addaudithook(hook)
listening = True
for name in fuzz.RULES:
    for prompt in fuzz.PROMPTS[name]:
        for text in [*hostile, *fuzz.texts(100), *fuzz.HOSTILE]:
            OFFICIAL[name]()(prompt, text)
            count += 1
clean = list(found)
eval("1 + 1")
print(json.dumps({"judged": count, "found": clean, "control": len(found) > len(clean)}))
"""


def test_under_an_audit_hook() -> None:
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, "-c", AUDITED], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["control"], "the hook is blind"
    assert said["judged"] > 1000
    assert said["found"] == []
