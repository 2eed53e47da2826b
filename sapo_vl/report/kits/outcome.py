"""What a kit made of one exported file, beside what our verifier made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_CLOSE = 1e-6
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One answer as both scored it."""

    sample: str
    ours: float
    kit: float
    response: str = ""

    @property
    def same(self) -> bool:
        """Whether both gave the same score."""
        return abs(self.ours - self.kit) < _CLOSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One file.

    Args:
        kit: vlmevalkit or lmms-eval.
        task: of ours, or of the kit where its file is named by it.
        file: that was read.
        rule: our score that stands beside the kit's: ``score``, or the name of a part.
        total: mean score that the kit reports for the whole file.
        items: every answer.
        note: what the kit was not asked, e.g. its judge.
    """

    kit: str
    task: str
    file: str
    rule: str
    total: float
    items: Sequence[Item]
    note: str = ""

    def record(self) -> dict[str, Any]:
        """Counts, means and the first answers that are scored differently."""
        n = len(self.items)
        differing = [item for item in self.items if not item.same]
        return {
            "kit": self.kit,
            "task": self.task,
            "file": self.file,
            "rule": self.rule,
            "items": n,
            "ours": sum(item.ours for item in self.items) / n,
            "kit_total": self.total,
            "kit_items": sum(item.kit for item in self.items) / n,
            "same": n - len(differing),
            "note": self.note,
            "differing": [
                {"sample": i.sample, "ours": i.ours, "kit": i.kit, "response": i.response[-200:]}
                for i in differing[: 10 * _SHOWN]
            ],
        }

    def line(self) -> str:
        """A row of the table."""
        r = self.record()
        return (
            f"{r['kit']:<11}{r['task']:<26}{r['rule']:<15}{r['items']:>6}{r['ours']:>9.4f}"
            f"{r['kit_total']:>9.4f}{r['same']:>7}  {r['note']}"
        )


HEADER = f"{'kit':<11}{'task':<26}{'our score':<15}{'items':>6}{'ours':>9}{'kit':>9}{'same':>7}"
