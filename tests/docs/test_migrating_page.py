"""docs/migrating.md names settings that exist, here and in TRL, and its verifier works."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import lightning as L
import pytest

from datamodules import ReasoningDataModule
from sapo_vl.modules import SAPOModule
from sapo_vl.objectives import GRPO, SAPO
from sapo_vl.types import Prompt

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")
ROOTS = {"model": SAPOModule, "data": ReasoningDataModule, "trainer": L.Trainer}


def rows() -> list[list[str]]:
    table = PAGE.split("| sapo_vl |")[1].split("\n\n")[0]
    return [line.split("|")[1:-1] for line in table.splitlines()[2:]]


def names(column: int) -> list[str]:
    return [name for row in rows() for name in re.findall(r"`([^`]+)`", row[column])]


def annotation(owner: Any, name: str) -> Any:
    """The type of an argument of a class; fails where there is none of that name."""
    init = owner.__init__
    assert name in inspect.signature(owner).parameters, f"{owner.__name__} has no {name}"
    if dataclasses.is_dataclass(owner):
        return typing.get_type_hints(owner)[name]
    return typing.get_type_hints(init).get(name)


def dataclass_in(kind: Any) -> Any:
    """The dataclass that a type is, or holds, such as ``list[Task] | None``."""
    if dataclasses.is_dataclass(kind):
        return kind
    return next((x for x in map(dataclass_in, typing.get_args(kind)) if x is not None), None)


def test_every_key_of_ours_is_an_argument() -> None:
    keys = names(0)
    dotted = [key for key in keys if key.split(".")[0] in ROOTS]
    assert len(dotted) > 20
    for key in dotted:
        root, first, *more = key.replace("[]", "").split(".")
        kind = annotation(ROOTS[root], first)
        for name in more:
            kind = annotation(dataclass_in(kind), name)
    fields = {field.name for objective in (SAPO, GRPO) for field in dataclasses.fields(objective)}
    assert {key for key in keys if key not in dotted} - fields == {".tokens", "--ckpt_path"}


def test_every_name_of_trl_is_an_argument_there() -> None:
    trl = pytest.importorskip("trl", reason="TRL is not installed (pip install sapo-vl[bench])")
    if not trl.__version__.startswith("1.16"):
        pytest.skip(f"the page is of TRL 1.16, not {trl.__version__}")
    known = {field.name for field in dataclasses.fields(trl.GRPOConfig)}
    known |= set(inspect.signature(trl.GRPOTrainer).parameters)
    assert set(names(1)) <= known


def test_every_row_has_four_cells() -> None:
    assert {len(row) for row in rows()} == {4}


def test_the_verifier_of_the_page_judges() -> None:
    scope: dict[str, Any] = {}
    exec(PAGE.split("```python\n")[1].split("```")[0], scope)
    verifier = scope["ExactMatch"]()
    prompt = Prompt(reference="3")
    assert verifier(prompt, "There are three. Answer: 3").score == 1.0
    assert verifier(prompt, "Answer: 4").extracted == "4"
