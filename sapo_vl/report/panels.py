"""Which charts a training stage gets, and the sentence that explains each to a newcomer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sapo_vl.report.records import Series
from sapo_vl.report.scale import MINUS

Metrics = Mapping[str, Series]
NOT_A_TASK = {"reward/mean", "reward/accuracy", "reward/uniform_groups_share"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What one chart shows: ``curves`` maps metric names to labels; the rest is line_chart's.

    ``styles`` numbers the curves' colours (6 and up: dashed); in their order where it is empty.
    """

    group: str
    title: str
    note: str
    curves: Mapping[str, str]
    unit: str = ""
    lo: float | None = None
    hi: float | None = None
    log: bool = False
    smooth: bool = False
    stacked: bool = False
    styles: tuple[int, ...] = ()


PANELS = (
    Panel(
        group="Learning",
        title="Reward and accuracy",
        note="How much the verifier liked the sampled training answers, and the share it called "
        "right.",
        curves={"reward/accuracy": "accuracy", "reward/mean": "mean reward"},
        unit="%",
        lo=0,
        hi=1,
        smooth=True,
    ),
    Panel(
        group="Learning",
        title="Groups without signal",
        note="Share of prompts whose answers all got the same reward: their advantages are 0, so "
        "nothing is learned from them.",
        curves={"reward/uniform_groups_share": "uniform groups"},
        unit="%",
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Learning",
        title="Imitation loss",
        note="Cross-entropy per target token while the model imitates worked answers.",
        curves={"sft/loss": "loss"},
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Learning",
        title="Token accuracy",
        note="Share of target tokens that were the model's first choice.",
        curves={"sft/token_accuracy": "token accuracy"},
        unit="%",
        hi=1,
        smooth=True,
    ),
    Panel(
        group="The gate",
        title="Gate weight by advantage sign",
        note="The gate scales each token's gradient by how far its probability ratio r has moved, "
        f"in the paper by w = sech²(τ(r{MINUS}1)/2): 1 means untouched, 0 means ignored.",
        curves={
            "gate/weight_mean_pos": "advantage > 0",
            "gate/weight_mean_neg": "advantage < 0",
            "gate/weight_mean": "all tokens",
        },
        hi=1,
    ),
    Panel(
        group="The gate",
        title="Effective weight w·r",
        note="What a token really counts: ↑ tokens became more likely since the rollout (r > 1), "
        f"↓ less likely; + and {MINUS} are the sign of the advantage.",
        curves={
            "gate/effective_pos_up": "+ ↑",
            "gate/effective_pos_down": "+ ↓",
            "gate/effective_neg_up": f"{MINUS} ↑",
            "gate/effective_neg_down": f"{MINUS} ↓",
        },
        styles=(0, 6, 1, 7),
    ),
    Panel(
        group="The gate",
        title="Distance from the rollout |log r|",
        note="Quantiles over tokens of how far the policy moved within an iteration; the gate acts "
        "on the upper ones.",
        curves={
            "gate/abs_log_ratio_max": "max",
            "gate/abs_log_ratio_p99": "p99",
            "gate/abs_log_ratio_p95": "p95",
            "gate/abs_log_ratio_p50": "median",
        },
        log=True,
    ),
    Panel(
        group="The gate",
        title="Tokens held back",
        note="Share of tokens whose gate weight fell below one half, and to nothing; what GRPO "
        "(0.2) and GSPO (3e-4, 4e-4) would have clipped of the same tokens.",
        curves={
            "gate/under_half_share": "w < 1/2",
            "gate/closed_share": "w = 0",
            "gate/grpo_clipped_share": "GRPO would clip",
            "gate/gspo_clipped_share": "GSPO would clip",
        },
        unit="%",
        lo=0,
    ),
    Panel(
        group="Policy",
        title="Entropy",
        note="How undecided the policy is per token, in nats; near 0 all answers of a group are "
        "alike and learning stops.",
        curves={"policy/entropy": "entropy"},
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="Response length",
        note="Mean tokens per sampled answer.",
        curves={"rollout/length_mean": "tokens"},
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="Answers cut off",
        note="Share of answers that reached the token limit before they ended.",
        curves={"rollout/truncated_share": "truncated"},
        unit="%",
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="Gradient norm",
        note="Length of the gradient before clipping; lasting growth or lone spikes warn of "
        "instability.",
        curves={"policy/grad_norm": "norm"},
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="KL to the old policy",
        note="Estimated divergence from the policy that started the iteration.",
        curves={"policy/kl_old": "KL"},
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="KL to the reference policy",
        note="Estimated divergence from the policy that the KL penalty holds it near.",
        curves={"policy/kl_reference": "KL"},
        lo=0,
        smooth=True,
    ),
    Panel(
        group="Policy",
        title="Learning rate",
        note="Step size of the optimizer.",
        curves={"policy/lr": "rate"},
        lo=0,
    ),
    Panel(
        group="Cost",
        title="Time per iteration",
        note="Where the seconds of an iteration go.",
        curves={
            "time/rollout": "rollout",
            "time/update": "update",
            "time/old_logp": "old log-probs",
            "time/reference": "reference log-probs",
            "time/verify": "verify",
            "time/sync": "weights to the engine",
            "time/iteration": "other",
        },
        unit="s",
        stacked=True,
    ),
    Panel(
        group="Cost",
        title="Throughput",
        note="Response tokens handled per second of an iteration.",
        curves={"time/tokens_per_second": "tokens/s"},
        lo=0,
        smooth=True,
    ),
)


def task_panels(metrics: Metrics) -> Iterator[Panel]:
    """One chart with the reward of every task, where the run logged any."""
    rewards = [n for n in metrics if n.startswith("reward/") and n not in NOT_A_TASK]
    tasks = sorted(
        name for name in rewards if name.count("/") == 1 and not name.startswith("reward/status_")
    )
    if tasks:
        yield Panel(
            group="Learning",
            title="Reward by task",
            note="Mean reward of each task's training answers (running mean).",
            curves={name: name.removeprefix("reward/") for name in tasks},
            unit="%",
            lo=0,
            hi=1,
            smooth=True,
        )


def eval_panels(metrics: Metrics) -> Iterator[Panel]:
    """One chart for all tasks together, then one per sampling with a line per task."""
    names = sorted(n for n in metrics if n.startswith("eval/") and n.count("/") >= 2)
    names = [n for n in names if n.removesuffix("_n").removesuffix("_stderr") not in {*names} - {n}]
    base = Panel(group="Evaluation while training", title="", note="", curves={}, unit="%", hi=1)
    overall = {n: n.split("/", 2)[2] for n in names if n.startswith("eval/all/")}
    if overall:
        note = "Accuracy on held-out prompts; avg4 is the mean over 4 sampled answers, and so on."
        yield replace(base, title="All tasks", note=note, curves=overall, lo=0)
    by_sampling: dict[str, dict[str, str]] = {}
    for name in names:
        if name not in overall:
            _, task, sampling = name.split("/", 2)
            by_sampling.setdefault(sampling, {})[name] = task
    for sampling, curves in by_sampling.items():
        note = f"Held-out accuracy of each task, {sampling} answers."
        yield replace(base, title=f"By task, {sampling}", note=note, curves=curves, lo=0)
