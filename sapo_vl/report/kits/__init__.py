"""Exported answers, read back and scored by the evaluation kits themselves."""

from sapo_vl.report.kits.command import main
from sapo_vl.report.kits.outcome import Item, Outcome

__all__ = ["Item", "Outcome", "main"]
