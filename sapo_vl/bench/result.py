"""What a case gave, and the ratios that are quoted from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sapo_vl.bench.cases import DEFAULT, PROMPTS_PER_ITERATION, Case
from sapo_vl.bench.measure import Stats, ratio

SUMMARY = {  # key of the summary -> (section, slow, fast)
    "update_vs_repeated": ("update", "repeated", "shared"),
    "update_vs_plain": ("update", "plain", "shared"),
    "update_vs_trl": ("update", "trl", "shared"),
    "old_logp_vs_trl": ("old_logp", "trl", "shared"),
    "rollout_vs_trl": ("rollout", "trl", "ours"),
    "iteration_vs_trl": ("iteration", "trl", "ours"),
}
MEMORY = {"memory_vs_trl": "peak", "memory_above_base_vs_trl": "above_base"}


@dataclass(slots=True)
class CaseResult:
    """What one case gave; ``to_json`` is an entry of the JSON's "cases"."""

    case: Case
    peer_missing: str | None = None  # why TRL has no figures here
    peer_passes: int | None = None  # forward passes in which TRL takes a group
    logp_difference: dict[str, float] = field(default_factory=dict)
    computed: dict[str, dict[str, int]] = field(default_factory=dict)
    stats: dict[str, dict[str, Stats]] = field(default_factory=dict)
    processor: dict[str, dict[str, float]] = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)

    def ratios(self) -> dict[str, float | None]:
        """How many times better the shared prefix is; None where a side was not measured."""
        found = {
            key: ratio(self.stats.get(section, {}).get(slow), self.stats[section].get(fast))
            for key, (section, slow, fast) in SUMMARY.items()
            if section in self.stats
        }
        if self.memory:
            for key, figure in MEMORY.items():
                ours, trl = self.memory["shared"], self.memory.get("trl")
                found[key] = trl[figure] / ours[figure] if trl else None
        return found

    def ideal(self) -> dict[str, float]:
        """The speed-up that counting promises, and the share of it that is reached.

        Tokens: P + G * C instead of G * (P + C). That ignores the vision tower, which "plain" runs
        once, too, and "repeated" G times; the operations count it (matrix products and
        convolutions: torch does not count attention on a CPU, nor elementwise work).
        """
        if "update" not in self.stats:
            return {}
        stats, computed = self.stats["update"], self.computed
        found: dict[str, float] = {
            "tokens_needed": self.case.tokens_needed,
            "ideal_speedup": self.case.ideal_speedup,
        }
        for name in ("shared", "plain", "repeated"):
            tokens = computed[name]["tokens"]
            found[f"needed_over_computed_{name}"] = self.case.tokens_needed / tokens
        for name in ("plain", "repeated"):
            reached = stats[name].median / stats["shared"].median
            operations = computed[name]["operations"] / computed["shared"]["operations"]
            found[f"reached_over_{name}"] = reached
            found[f"share_of_ideal_{name}"] = reached / self.case.ideal_speedup
            found[f"operations_{name}_over_shared"] = operations
            found[f"share_of_operations_{name}"] = reached / operations
        return found

    def to_json(self) -> dict[str, Any]:
        """Every measurement, ready for json.dumps."""
        sections = {
            section: {name: stats.to_json() for name, stats in found.items()}
            for section, found in self.stats.items()
        }
        if "iteration" in sections:
            tokens = PROMPTS_PER_ITERATION * self.case.group * self.case.response
            for entry in sections["iteration"].values():
                entry["tokens_per_second"] = tokens / entry["median"]
        return {
            "name": self.case.name,
            **self.case.to_json(),
            "peer_missing": self.peer_missing,
            "peer_passes": self.peer_passes,
            "logp_difference": self.logp_difference,
            "computed": self.computed,
            **sections,
            "preprocessing": self.processor,
            "memory_mib": self.memory,
            "ideal": self.ideal(),
            "ratios": self.ratios(),
        }


def summarize(results: Sequence[CaseResult]) -> dict[str, float | None]:
    """The ratios of the default case; None where they were not measured."""
    ratios = next((r.ratios() for r in results if r.case == DEFAULT), {})
    ideal = next((r.ideal() for r in results if r.case == DEFAULT), {})
    keys = [*SUMMARY, *MEMORY]
    return {
        **{key: ratios.get(key) for key in keys},
        "share_of_ideal": ideal.get("share_of_ideal_repeated"),
    }
