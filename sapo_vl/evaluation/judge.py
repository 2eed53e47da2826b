"""Ask each prompt's verifier about its responses: training and evaluation both judge here."""

from __future__ import annotations

from collections.abc import Sequence

from sapo_vl.types import Answers, Prompt, Rollout, Verdict


def judge(prompts: Sequence[Prompt], rollout: Rollout) -> tuple[Verdict, ...]:
    """One verdict a response, prompt after prompt.

    A verifier that raises gives score 0 with status "error", so that one bad answer never ends a
    run; the share of errors is logged.

    Raises:
        ValueError: a prompt has no verifier.
    """
    verdicts = []
    for row, text in enumerate(rollout.texts):
        prompt = prompts[row // rollout.group_size]
        if prompt.verifier is None:
            raise ValueError(
                f"prompt {prompt.key} of task {prompt.task!r} has no verifier; name one under "
                "the task's `verifier:` in the data config"
            )
        try:
            verdicts.append(prompt.verifier(prompt, text))
        except Exception as error:
            verdicts.append(
                Verdict(score=0.0, status="error", reason=f"{type(error).__name__}: {error}")
            )
    return tuple(verdicts)


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
