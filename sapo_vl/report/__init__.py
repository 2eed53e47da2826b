"""The run report: one HTML file that shows what a run did and opens anywhere, offline."""

from sapo_vl.report.html import Limits, build_report

__all__ = ["Limits", "build_report"]
