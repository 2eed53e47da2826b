"""VLMEvalKit's own evaluation over tables that we exported.

The kit's data sets are built without their data, which would have to be downloaded: the table that
they look items up in is the exported one. Where a judge would extract the answer, our extraction
stands in for what it says, so that what is compared is the kit's scoring of an extracted answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sapo_vl.report.kits.outcome import Item, Outcome
from sapo_vl.report.kits.vlmevalkit_sets import CHECKS, kit_module, load_table

VLMEVALKIT_SETS = tuple(CHECKS)
_STAND_IN = "our extraction in place of the judge's"


def check_vlmevalkit(kit: Path, files: Mapping[str, Path]) -> Iterator[Outcome]:
    """Let the kit score exported tables.

    Args:
        kit: a checkout of VLMEvalKit; its dependencies must be installed.
        files: name of the kit's data set -> exported ``.xlsx`` or ``.tsv``; results are written
            beside it.

    Raises:
        ImportError: the kit cannot be imported.
    """
    sys.path.insert(0, str(kit))
    for name, file in files.items():
        check = CHECKS[name]
        table = load_table(file)
        # A table of its own: ``evaluate`` may change it.
        dataset = _dataset(check.owner, name, load_table(file))
        if check.prompts is not None:
            said = table["verdict_extracted"].fillna("").astype(str)
            answers = dict(zip(check.prompts(table), said, strict=True))
            _set_judge(check.owner, answers)
        total = None
        if check.total is not None:
            total = check.total(dataset.evaluate(str(file), model="exact_matching", nproc=1))
        scores = check.items(file)
        ours = table["verdict_score" if check.rule == "score" else f"verdict_{check.rule}"]
        rows = zip(table["sample"], ours, scores, table["prediction"], strict=True)
        yield Outcome(
            kit="vlmevalkit",
            task=name,
            file=file.name,
            rule=check.rule,
            total=sum(scores) / len(scores) if total is None else total,
            items=[
                Item(sample=str(s), ours=float(o), kit=float(k), response=str(p))
                for s, o, k, p in rows
            ],
            note=check.note or (_STAND_IN if check.prompts else ""),
        )


class _Judge:
    """Says what is prepared for a prompt."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.system_prompt = ""

    def working(self) -> bool:
        return True

    def generate(self, prompt: str, **_: Any) -> str:
        return self.answers.get(prompt, "")


def _set_judge(owner: str, answers: Mapping[str, str]) -> None:
    module: Any = kit_module(owner.partition(":")[0])
    module.build_judge = lambda **_: _Judge(answers)


def _dataset(owner: str, name: str, table: Any) -> Any:
    """The kit's data set over our table; its constructor, which downloads, is not run."""
    module, _, cls = owner.partition(":")
    kind = getattr(kit_module(module), cls)
    dataset = object.__new__(kind)
    dataset.dataset_name = name
    dataset.data = table
    # RefCOCO's evaluation asks whether its own table is there; the exported one takes its place.
    dataset._ensure_metadata_ready = lambda: None
    return dataset
