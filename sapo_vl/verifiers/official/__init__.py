"""The official scorers of benchmarks, as verifiers; one file per rule."""

OFFICIAL: dict[str, type] = {}
EXTRA: dict[str, type] = {}

__all__ = ["EXTRA", "OFFICIAL"]
