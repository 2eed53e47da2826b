"""Runs a solution through the tests of its task, and scores it by what passes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sapo_vl.types import Verdict
from sapo_vl.verifiers.code_compare import same_output, same_result
from sapo_vl.verifiers.code_tests import CodeTests
from sapo_vl.verifiers.sandbox import Sandbox

_MAX_CODE = 100_000  # characters
_MAX_SHOWN = 2000
_MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class Passed:
    """How many tests a solution passed, and what went wrong first."""

    count: int
    of: int
    reason: str


def score_code(
    code: str,
    tests: CodeTests,
    sandbox: Sandbox,
    *,
    rel_tol: float,
    fraction: bool,
    total_seconds: float,
) -> Verdict:
    """Score ``code`` 1 where every test passes, else 0, or with ``fraction`` the share that does.

    The other arguments, and the error raised, are those of `run_tests`.
    """
    shown = code[:_MAX_SHOWN]
    if len(code) > _MAX_CODE:
        reason = f"the code has {len(code)} characters, over {_MAX_CODE}"
        return Verdict(score=0.0, extracted=shown, reason=reason)
    passed = run_tests(
        code, tests, sandbox, rel_tol=rel_tol, run_all=fraction, total_seconds=total_seconds
    )
    score = passed.count / passed.of if fraction else float(passed.count == passed.of)
    reason = f"{passed.count} of {passed.of} tests pass; {passed.reason}"
    return Verdict(score=score, extracted=shown, reason=reason)


def run_tests(
    code: str,
    tests: CodeTests,
    sandbox: Sandbox,
    *,
    rel_tol: float,
    run_all: bool,
    total_seconds: float,
) -> Passed:
    """Run ``code`` once per test, each in a sandbox of its own.

    Args:
        code: Python source, a program or the definition of ``tests.function``.
        tests: what goes in, and what should come out; the latter stays here.
        sandbox: where it runs; its ``seconds`` limit one test.
        rel_tol: see `same_output`.
        run_all: go on after a failure.
        total_seconds: of all tests together; those left when they are used up have failed.

    Raises:
        SandboxError: the isolation cannot be had.
    """
    count, first = 0, ""
    deadline = time.monotonic() + total_seconds
    same = same_output if tests.function is None else same_result
    for i, (given, expected) in enumerate(zip(tests.inputs, tests.outputs, strict=True), start=1):
        left = deadline - time.monotonic()
        if left <= 0:
            first = first or f"test {i}: the {total_seconds:g} s for all tests are used up"
            break
        limited = sandbox if sandbox.seconds <= left else replace(sandbox, seconds=left)
        outcome = limited.run(code, given, tests.function)
        if outcome.status != "ok":
            problem = f"test {i}: {outcome.detail[-_MAX_REASON:]}"
        elif same(outcome.stdout, expected, rel_tol):
            count += 1
            continue
        else:
            problem = f"test {i}: the output differs: {outcome.stdout[:_MAX_REASON]!r}"
        first = first or problem
        if not run_all:
            break
    return Passed(count, len(tests.inputs), first or "every test passes")
