"""Ask each prompt's verifier about its responses: training and evaluation both judge here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from sapo_vl.types import Answers, Prompt, Rollout, Verdict
from sapo_vl.verifiers.runner import VerifierPool, judge_one


def judge(
    prompts: Sequence[Prompt], rollout: Rollout, pool: VerifierPool | None = None
) -> tuple[Verdict, ...]:
    """One verdict a response, prompt after prompt.

    A verifier that raises gives score 0 with status "error", so that one bad answer never ends a
    run; the share of errors is logged.

    Args:
        prompts: each with its verifier.
        rollout: their responses.
        pool: judges in worker processes, within limits; None: in this process, without any.

    Raises:
        ValueError: a prompt has no verifier, or one that a worker cannot load.
        RuntimeError: the pool cannot start its workers.
        SandboxError: a verifier of code cannot have its isolation.
    """
    g = rollout.group_size
    pairs = [(prompts[row // g], text) for row, text in enumerate(rollout.texts)]
    if pool is None:
        return tuple(judge_one(prompt, text) for prompt, text in pairs)
    return tuple(pool.judge(pairs))


def answers_of(
    prompts: Sequence[Prompt], rollout: Rollout, verdicts: Sequence[Verdict], sampling: str
) -> list[Answers]:
    """Group a rollout's rows by prompt, as records for logs and reports."""
    g, lengths = rollout.group_size, rollout.length_B.tolist()
    finished = rollout.finished_B.tolist()
    return [
        Answers(
            prompt,
            sampling,
            texts=rollout.texts[i * g : (i + 1) * g],
            verdicts=verdicts[i * g : (i + 1) * g],
            lengths=lengths[i * g : (i + 1) * g],
            finished=finished[i * g : (i + 1) * g],
        )
        for i, prompt in enumerate(prompts)
    ]


class Judging:
    """Judges answers in the pool's processes while the next ones are drawn.

    Args:
        pool: None, or one without workers, judges at once, in this process.
        depth: rollouts that may wait for their verdicts; bounds memory.
    """

    def __init__(self, pool: VerifierPool | None, depth: int) -> None:
        self.pool = pool if pool is not None and pool.workers else None
        self.in_process = pool
        self.depth = depth
        self._thread = ThreadPoolExecutor(1, "judge")  # the pool judges one call at a time
        self._waiting: deque[Future[list[Answers]]] = deque()

    def submit(self, prompts: Sequence[Prompt], rollout: Rollout, sampling: str) -> None:
        """Take a rollout to be judged."""
        if self.pool is not None:
            self._waiting.append(
                self._thread.submit(_judged, prompts, rollout, sampling, self.pool)
            )
            return
        done: Future[list[Answers]] = Future()
        done.set_result(_judged(prompts, rollout, sampling, self.in_process))
        self._waiting.append(done)

    def collect(self, *, everything: bool) -> list[Answers]:
        """What has been judged, in the order it came; waits for all or while too much waits.

        Raises:
            ValueError, RuntimeError, SandboxError: as `judge`.
        """
        found: list[Answers] = []
        while self._waiting:
            if everything or self._waiting[0].done() or len(self._waiting) > self.depth:
                found += self._waiting.popleft().result()
            else:
                break
        return found


def _judged(
    prompts: Sequence[Prompt], rollout: Rollout, sampling: str, pool: VerifierPool | None
) -> list[Answers]:
    return answers_of(prompts, rollout, judge(prompts, rollout, pool), sampling)
