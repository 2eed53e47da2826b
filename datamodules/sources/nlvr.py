"""NLVR: a statement about three boxes of shapes, true or false (training).

``structured_rep`` in the meta names every shape with its place, so exact counts can be derived.
"""

from __future__ import annotations

from datamodules.sources.folder import FolderSet

NLVR = FolderSet(
    name="nlvr",
    answers="text",
    question="Is this statement about the picture true or false? {question}",
    origin="https://github.com/lil-lab/nlvr",
    licence="CC-BY-4.0",
)
