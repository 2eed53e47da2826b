"""The formulas against what autograd keeps and torch allocates, in the published layouts."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import pytest

from sapo_vl.plan.measure import Trial, compare_peak, compare_saved
from sapo_vl.plan.small import ABOUT

LAYOUTS = [
    "Qwen2.5-VL-7B-Instruct",
    "Qwen3-VL-8B-Instruct",
    "Qwen3-VL-30B-A3B-Instruct",
    "Qwen3.5-9B",
    "Qwen3.5-35B-A3B",
]
# The torch code of Qwen3.5's delta net copies more in float32 than in bfloat16.
SAVED_TOLERANCE, DELTA_TOLERANCE = 0.01, 0.06
WAYS_TOLERANCE, PEAK_TOLERANCE = 0.06, 0.10


def trial(layout: str, size: str = "1M", **changes: object) -> Trial:
    file = files("sapo_vl.plan") / "architectures" / f"{layout}.json"
    architecture = json.loads(file.read_text(encoding="utf-8"))["config"]
    return replace(Trial(architecture=architecture, small=ABOUT[size]), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_tensors(layout: str, dtype: str) -> None:
    tolerance = DELTA_TOLERANCE if layout.startswith("Qwen3.5") else SAVED_TOLERANCE
    assert abs(compare_saved(trial(layout, dtype=dtype)).error) < tolerance


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"checkpointing": True}, {"freeze": ("vision", "merger")}], ids=str
)
def test_saved_tensors_of_other_ways(changes: dict[str, object], packed: bool) -> None:
    way = trial("Qwen3-VL-8B-Instruct", dtype="bfloat16", packed=packed, **changes)
    assert abs(compare_saved(way).error) < WAYS_TOLERANCE


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("layout", ["Qwen3-VL-8B-Instruct", "Qwen3-VL-30B-A3B-Instruct"])
def test_peak_of_an_update(layout: str, checkpointing: bool, packed: bool) -> None:
    way = trial(layout, dtype="bfloat16", checkpointing=checkpointing, packed=packed)
    assert abs(compare_peak(way).error) < PEAK_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("size", ["10M", "50M"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_larger_models(size: str, dtype: str) -> None:
    way = trial("Qwen3-VL-8B-Instruct", size, dtype=dtype)
    assert abs(compare_saved(way).error) < SAVED_TOLERANCE
    assert abs(compare_peak(way).error) < PEAK_TOLERANCE
