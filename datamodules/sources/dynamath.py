"""DynaMath: variants of diagram and graph problems, choices in the question (evaluation only)."""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

DYNAMATH = FolderSet(
    name="dynamath",
    split="test",
    origin="https://github.com/DynaMath/DynaMath",
    licence="MIT",
)
