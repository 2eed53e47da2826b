"""The metrics files of a run that was resumed: metrics-1.csv, ..., and the last, metrics.csv."""

from __future__ import annotations

from pathlib import Path


def earlier_parts(metrics: Path) -> list[Path]:
    """The files that were set aside for ``metrics``, oldest first."""
    parts = metrics.parent.glob(f"{metrics.stem}-*{metrics.suffix}")
    numbered = {p.stem.rsplit("-", 1)[1]: p for p in parts}
    return [numbered[n] for n in sorted((n for n in numbered if n.isdigit()), key=int)]


def set_aside(metrics: Path) -> None:
    """Rename ``metrics.csv`` to the next free ``metrics-<n>.csv``, if it is there."""
    if metrics.is_file():
        parts = earlier_parts(metrics)
        last = int(parts[-1].stem.rsplit("-", 1)[1]) if parts else 0
        metrics.rename(metrics.with_name(f"{metrics.stem}-{last + 1}{metrics.suffix}"))
