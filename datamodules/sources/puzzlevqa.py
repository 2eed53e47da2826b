"""PuzzleVQA: abstract patterns with one part missing, three or four options (training)."""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

PUZZLEVQA = FolderSet(
    name="puzzlevqa",
    answers="text",
    origin="https://github.com/declare-lab/LLM-PuzzleTest",
    licence="MIT",
)
