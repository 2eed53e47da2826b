"""AlgoPuzzleVQA: puzzles solved by an algorithm, two or four options (training)."""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

ALGOPUZZLEVQA = FolderSet(
    name="algopuzzlevqa",
    answers="text",
    origin="https://github.com/declare-lab/LLM-PuzzleTest",
    licence="MIT",
)
