"""VLMs are blind: counting shapes, crossings, squares and grid cells (training)."""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

VLMSBLIND = FolderSet(
    name="vlmsblind",
    origin="https://github.com/anguyen8/vision-llms-are-blind",
    licence="MIT",
)
