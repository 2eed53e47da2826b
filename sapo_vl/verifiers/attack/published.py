"""Targets of the official rules: the attack must find their known oddities, or it is too weak."""

from __future__ import annotations

import json

from sapo_vl.verifiers.attack.answers import FORMULAS, LETTERS, NUMBERS, OPTIONS
from sapo_vl.verifiers.attack.places import BOXES
from sapo_vl.verifiers.attack.targets import Target, hidden_set
from sapo_vl.verifiers.official.chartqa import ChartQAOfficial
from sapo_vl.verifiers.official.docvqa import DocVQAAnls
from sapo_vl.verifiers.official.emma import EmmaFast
from sapo_vl.verifiers.official.mathvision import MathVisionOfficial
from sapo_vl.verifiers.official.mathvista import MathVistaOfficial
from sapo_vl.verifiers.official.mmmu import MMMUOfficial
from sapo_vl.verifiers.official.refcoco import RefCOCOOfficial
from sapo_vl.verifiers.official.zebralogic import ZebraLogicOfficial

_BOX = r"\boxed{%s}"


def official_targets() -> list[Target]:
    """Return the official rules with why each may pay more than guessing, where it may."""
    years = ("2007", "2008", "2009", "2010", "2012", "1999", "2050", "1925")
    grid = '{"House 1": {"Name": "%s"}, "House 2": {"Name": "%s"}}'
    grids = (grid % ("Eric", "Bob"), grid % ("Bob", "Eric"))
    letters = (*"ABCD", "12", "a cat", "neither")
    return [
        Target(
            "mathvision_official",
            MathVisionOfficial,
            hidden_set(FORMULAS),
            1 / len(FORMULAS),
            FORMULAS,
            _BOX,
            odd="two decimals, and what stands before an equals sign is dropped",
        ),
        Target(
            "mathvista_official",
            MathVistaOfficial,
            hidden_set(["12", "18"], ({"options": {"A": "12", "B": "18"}},)),
            1 / 2,
            ("12", "18", "A", "B"),
        ),
        Target("mmmu_official", MMMUOfficial, hidden_set("ABCD", OPTIONS[:2]), 1 / 4, letters),
        Target(
            "mmmu_official: open",
            MMMUOfficial,
            hidden_set(NUMBERS),
            1 / len(NUMBERS),
            NUMBERS,
            odd="any number in the answer counts",
        ),
        Target(
            "chartqa_official",
            ChartQAOfficial,
            hidden_set(years),
            1 / len(years),
            years,
            odd="years are numbers, with 5 % around them",
        ),
        Target("docvqa_anls", DocVQAAnls, hidden_set(LETTERS), 1 / len(LETTERS), LETTERS),
        Target("emma_fast", EmmaFast, hidden_set("ABCD", OPTIONS[:2]), 1 / 4, letters, _BOX),
        Target(
            "zebralogic", ZebraLogicOfficial, hidden_set(grids), 1 / 2, grids, '{"solution": %s}'
        ),
        _refcoco(),
    ]


def _refcoco() -> Target:
    boxes = [json.dumps([a, b, c - a, d - b]) for a, b, c, d in BOXES]
    corners = tuple(json.dumps(box) for box in BOXES)
    return Target(
        "refcoco",
        RefCOCOOfficial,
        hidden_set(boxes, ({"meta": {"size": [1000, 1000]}},)),
        1 / len(boxes),
        corners,
        odd="the best of all boxes counts",
    )
