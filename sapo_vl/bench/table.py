"""The JSON of a benchmark as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TITLES = {
    "update": "update (score + backward)",
    "old_logp": "old-log-prob pass",
    "rollout": "rollout",
    "iteration": "whole iteration",
}
LABELS = {
    "shared": "ours, shared prefix",
    "plain": "ours, prompt repeated, image once, head on responses only",
    "repeated": "ours, prompt and image repeated, head on responses only",
    "ours": "ours",
    "trl": "TRL",
}


def to_markdown(report: Mapping[str, Any]) -> str:
    """Everything a reader needs: where it ran, what the peer does differently, the figures."""
    machine, settings = report["machine"], report["settings"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if v)
    lines = [
        "# Speed, side by side",
        "",
        f"{machine['cpu']}, {machine['torch_threads']} thread(s), {settings['dtype']}; "
        f"{settings['family']} with {settings['parameters']:,} random parameters, vocabulary "
        f"{settings['vocabulary']:,}. Medians of {settings['repetitions']} interleaved "
        f"repetitions, quartiles in brackets. {versions}.",
        "",
    ]
    if reason := report["peer"]["missing"]:
        lines += [f"**TRL was not measured**: {reason}", ""]
    lines += ["What TRL does differently:", ""]
    lines += [f"- {difference}" for difference in report["peer"]["differences"]]
    whole = [case for case in report["cases"] if not _is_update_alone(case)]
    for case in whole:
        lines += ["", *_case(case)]
    lines += _updates([case for case in report["cases"] if _is_update_alone(case)])
    return "\n".join(lines) + "\n"


def _is_update_alone(case: Mapping[str, Any]) -> bool:
    return set(TITLES) & case.keys() == {"update"} and not case["memory_mib"]


def _updates(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Cases of which nothing but updates was measured, a line each."""
    if not cases:
        return
    yield from ("", "## Updates, size by size", "")
    yield "| P | C | G | ours, seconds | times ours: repeated | plain | TRL | its passes | ideal |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for case in cases:
        ratios = (case["ratios"][f"update_vs_{name}"] for name in ("repeated", "plain", "trl"))
        shown = " | ".join("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
        yield (
            f"| {case['prompt']} | {case['response']} | {case['group']} "
            f"| {case['update']['shared']['median']:.3f} | {shown} | {case['peer_passes'] or ''} "
            f"| {case['ideal']['ideal_speedup']:.2f} |"
        )
    yield ""
    yield (
        f"Repeated: {LABELS['repeated'].removeprefix('ours, ')}. Plain: "
        f"{LABELS['plain'].removeprefix('ours, ')}. Passes: in how many TRL takes the group. "
        "Ideal: tokens with the prompt repeated over tokens needed."
    )


def summary_line(summary: Mapping[str, float | None]) -> str:
    """The ratios of the default case in a line each."""
    shown = {key: "not measured" if v is None else f"{v:.2f}" for key, v in summary.items()}
    return "\n".join(f"{key:>26}  {value}" for key, value in shown.items())


def _case(case: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {case['name']}"
    yield ""
    yield "| what | variant | seconds | times ours | tokens computed | tokens/s |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for section, title in TITLES.items():
        yield from _rows(case, section, title)
    yield from _ideal(case["ideal"])
    yield from _memory(case)
    for side, count in case["preprocessing"].items():
        yield ""
        yield (
            f"Preprocessing, {LABELS[side]}: {count['processor_calls']:g} processor calls, "
            f"{count['images_processed']:g} images and {1000 * count['seconds']:.0f} ms a prompt."
        )
    if difference := case["logp_difference"]:
        worst = max(value for name, value in difference.items() if name != "with_our_bans")
        yield ""
        yield f"Log-probs of the same responses on both sides differ by at most {worst:.1g}."


def _rows(case: Mapping[str, Any], section: str, title: str) -> Iterator[str]:
    found = case.get(section, {})
    for name, stats in found.items():
        low, high = stats["quartiles"]
        ours = found.get("shared") or found["ours"]
        speed = f"{stats['tokens_per_second']:.0f}" if "tokens_per_second" in stats else ""
        tokens = case["computed"].get(name, {}).get("tokens", "") if section == "update" else ""
        yield (
            f"| {title} | {LABELS[name]} | {stats['median']:.3f} ({low:.3f} to {high:.3f}) "
            f"| {stats['median'] / ours['median']:.2f} | {tokens} | {speed} |"
        )


def _ideal(ideal: Mapping[str, float]) -> Iterator[str]:
    if not ideal:
        return
    yield ""
    yield (
        f"By tokens the update could be {ideal['ideal_speedup']:.2f} times faster than with the "
        f"prompt repeated ({ideal['tokens_needed']} tokens are needed). Reached:"
    )
    yield ""
    for name in ("repeated", "plain"):
        reached, possible = ideal[f"reached_over_{name}"], ideal[f"operations_{name}_over_shared"]
        yield (
            f"- {LABELS[name]}: {reached:.2f} ({ideal[f'share_of_ideal_{name}']:.0%} of the ideal "
            f"by tokens; by matrix products, vision tower included, {possible:.2f} would be "
            f"possible: {ideal[f'share_of_operations_{name}']:.0%})"
        )


def _memory(case: Mapping[str, Any]) -> Iterator[str]:
    if not case["memory_mib"]:
        return
    yield ""
    yield "| memory of an update | process at its peak, MiB | above the loaded model, MiB |"
    yield "| --- | --- | --- |"
    for name, found in case["memory_mib"].items():
        yield f"| {LABELS[name]} | {found['peak']:.0f} | {found['above_base']:.0f} |"
