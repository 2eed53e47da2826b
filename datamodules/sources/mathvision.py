"""MathVision (MATH-V): competition problems, free answers or five options (evaluation only).

Each problem has one merged image, whatever number of ``<imageN>`` its text names, so the markers
stay text. A choice's answer is its label already, and options may be bare letters.
"""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

MATHVISION = FolderSet(
    name="mathvision",
    split="test",
    answers="label",
    image_markers=False,
    origin="https://github.com/mathllm/MATH-V",
    licence="MIT",
)
