"""The official rule of LiveCodeBench, in our sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.code_answer import last_fenced_lines
from sapo_vl.verifiers.code_run import score_code
from sapo_vl.verifiers.code_tests import read_tests, tests_or_verdict, unusable_tests
from sapo_vl.verifiers.extraction import after_thinking
from sapo_vl.verifiers.sandbox import Sandbox

_MORE_SECONDS = 5.0


@dataclass(frozen=True)
class LiveCodeBenchOfficial:
    """Score a response as LiveCodeBench does: 1 where every test passes.

    The code is what stands between the last two lines with a fence, **whatever it is**: a block
    with an example output after the code replaces it. Outputs are compared line by line, then as
    decimals without any tolerance; each test has six seconds.

    Not kept is the runner, which executes code in its own process with a mocked standard input:
    there a solution can read the expected output or patch the comparison, and honest programs that
    iterate ``sys.stdin``, read ``open(0)`` or use ``global`` fail. Here those cheats fail and those
    programs pass, so scores may differ from published ones by such programs.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
        sandbox: isolation and limits.
    """

    thinking: bool = False
    sandbox: Sandbox = field(default_factory=Sandbox)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0.

        Raises:
            SandboxError: the configured isolation cannot be had.
        """
        tests = tests_or_verdict(prompt)
        if isinstance(tests, Verdict):
            return tests
        text = after_thinking(response, self.thinking)
        code = last_fenced_lines(text) if text is not None else None
        if code is None:
            return Verdict(score=0.0, status="no_answer", reason="no fenced block of code")
        total = self._total(len(tests.inputs))
        return score_code(
            code, tests, self.sandbox, rel_tol=0.0, fraction=False, total_seconds=total
        )

    def check_machine(self) -> None:
        """Run nothing in the sandbox, to see before a run that it can be had.

        Raises:
            SandboxError: the configured isolation cannot be had on this machine.
        """
        self.sandbox.check()

    def seconds_for(self, prompt: Prompt) -> float:
        """Return how long one verdict may take: the benchmark's limit grows with the tests."""
        try:
            return self._total(len(read_tests(prompt).inputs))
        except ValueError:
            return 0.0

    def _total(self, tests: int) -> float:
        return (self.sandbox.seconds + 1) * tests + _MORE_SECONDS

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the tests unusable; None where they are fine."""
        return unusable_tests(prompt)
