"""Ask each prompt's verifier about its responses: training and evaluation both judge here."""

from __future__ import annotations

from collections.abc import Sequence

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
