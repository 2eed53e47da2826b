"""Verifier for programming tasks: the code of a response is run through the task's tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.code_answer import last_block
from sapo_vl.verifiers.code_run import score_code
from sapo_vl.verifiers.code_tests import tests_or_verdict, unusable_tests
from sapo_vl.verifiers.extraction import after_thinking
from sapo_vl.verifiers.sandbox import Sandbox


@dataclass(frozen=True)
class CodeVerifier:
    """Accept code that passes every test of its task.

    The code is the last complete fenced block marked as Python, or the last complete block where
    none is marked. A task has programs that read standard input, or a function to define, as
    LiveCodeBench has them; see `code_tests.read_tests` for where the tests stand. Every test runs
    in a fresh sandbox, which never sees an expected output.

    Args:
        thinking: the model reasons before ``</think>``.
        fraction: score the share of tests that pass, and run all; else all or nothing.
        rel_tol: how far a number that is no integer may be off; 0: not at all.
        total_seconds: for all tests together; one test has ``sandbox.seconds``.
        sandbox: isolation and limits.

    Raises:
        ValueError: a number out of range.
    """

    thinking: bool = False
    fraction: bool = False
    rel_tol: float = 1e-9
    total_seconds: float = 60.0
    sandbox: Sandbox = field(default_factory=Sandbox)

    def __post_init__(self) -> None:
        if not 0 <= self.rel_tol < 1:
            raise ValueError(f"rel_tol is {self.rel_tol}; it must lie in [0, 1)")
        if not self.total_seconds > 0:
            raise ValueError(f"total_seconds is {self.total_seconds}; it must be positive")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` from 0.0 to 1.0.

        Raises:
            SandboxError: the configured isolation cannot be had; that is no fault of the response.
        """
        tests = tests_or_verdict(prompt)
        if isinstance(tests, Verdict):
            return tests
        text = after_thinking(response, self.thinking)
        code = last_block(text) if text is not None else None
        if code is None or not code.strip():
            return Verdict(score=0.0, status="no_answer", reason="no complete block of code")
        return score_code(
            code,
            tests,
            self.sandbox,
            rel_tol=self.rel_tol,
            fraction=self.fraction,
            total_seconds=self.total_seconds,
        )

    def check_machine(self) -> None:
        """Run nothing in the sandbox, to see before a run that it can be had.

        Raises:
            SandboxError: the configured isolation cannot be had on this machine.
        """
        self.sandbox.check()

    def seconds_for(self, prompt: Prompt) -> float:
        """Return how long one verdict may take."""
        return self.total_seconds

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the tests unusable; None where they are fine."""
        return unusable_tests(prompt)
