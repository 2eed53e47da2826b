"""VLMEvalKit's data sets that take an exported table, and how each is asked."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """How one of the kit's data sets is asked.

    Args:
        owner: module and class.
        total: the result of ``evaluate`` -> mean score, 0 to 1; None: only answers are scored.
        items: the exported file, after ``evaluate`` -> a score an item, in the order of the file.
        rule: which of our scores says the same.
        prompts: the exported table -> what the judge is asked, an item; None: no judge.
        note: what is special.
    """

    owner: str
    total: Callable[[Any], float] | None
    items: Callable[[Path], list[float]]
    rule: str = "score"
    prompts: Callable[[Any], list[str]] | None = None
    note: str = ""


def kit_module(name: str) -> Any:
    """A module of the kit's data sets, by its name below ``vlmeval.dataset``."""
    return importlib.import_module(f"vlmeval.dataset.{name}")


def load_table(file: Path) -> Any:
    """A table as the kit reads it."""
    return importlib.import_module("vlmeval.smp").load(str(file))


def _function(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(kit_module(module), name)
    return function


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.stem}{suffix}.xlsx")


def _column(suffix: str, column: str) -> Callable[[Path], list[float]]:
    """A column of what the kit wrote beside the file, in the file's order."""

    def items(file: Path) -> list[float]:
        written = load_table(_beside(file, suffix))
        by_index = dict(zip(written["index"], written[column], strict=True))
        return [float(by_index[i]) for i in load_table(file)["index"]]

    return items


def _vqa(name: str) -> Callable[[Path], list[float]]:
    """Scores of one of the kit's VQA data sets, made of its matches with each reference."""

    def items(file: Path) -> list[float]:
        written = load_table(_beside(file, "_results"))
        lines = [{"match": ast.literal_eval(str(match))} for match in written["eval_match"]]
        return [float(x) for x in _function("utils.vqa_eval", "hit_calculate")(lines, name)]

    return items


def _post_check(module: str) -> Callable[[Path], list[float]]:
    """The kit's rule on the answers that its (stand-in) judge extracted."""

    def items(file: Path) -> list[float]:
        post_check = _function(f"utils.{module}", "post_check")
        table = load_table(_beside(file, "_exact_matching"))
        return [float(post_check(table.iloc[i])) for i in range(len(table))]

    return items


def _judged(module: str, builder: str) -> Callable[[Any], list[str]]:
    """What the kit's function ``builder`` asks a judge, an item."""

    def prompts(table: Any) -> list[str]:
        build = _function(f"utils.{module}", builder)
        return [build(table.iloc[i]) for i in range(len(table))]

    return prompts


def _overall(column: str, key: str) -> Callable[[Any], float]:
    """Per cent in the ``acc`` of the row whose ``column`` is ``key``."""

    def total(result: Any) -> float:
        rows = result[result[column] == key]
        return float(rows["acc"].iloc[0]) / 100

    return total


def _visulogic(file: Path) -> list[float]:
    extract = _function("utils.visulogic", "extract_answer")
    table = load_table(file)
    pairs = zip(table["prediction"], table["answer"], strict=True)
    return [float(extract(prediction)[0] == answer) for prediction, answer in pairs]


def _puzzle(file: Path) -> list[float]:
    extract = _function("utils.puzzlevqa", "extract_answer")
    table = load_table(file)
    letters = [label for label in "ABCDEFGHIJ" if label in table]
    right = [
        next((x for x in letters if str(row[x]) == str(row["answer"])), "")
        for row in table.to_dict("records")
    ]
    return [
        float(extract(str(p)).lower() == r.lower())
        for p, r in zip(table["prediction"], right, strict=True)
    ]


def _countbench(file: Path) -> list[float]:
    table = load_table(file)
    pairs = zip(table["prediction"], table["answer"], strict=True)
    return [float(str(answer) in str(prediction)) for prediction, answer in pairs]


def _wemath(file: Path) -> list[float]:
    return [
        float(x) for x in _function("utils.wemath", "load_and_process_data")(str(file))["joker"]
    ]


def _share(result: Any) -> float:
    return float(result["Overall"].iloc[0])


def _percent(result: Any) -> float:
    return float(result["Overall"].iloc[0]) / 100


_OWN_MATCHING = "the kit's own matching, not the authors' rule"
_MATHVISION = Check(
    "image_vqa:MathVision",
    _overall("Subject", "Overall"),
    _post_check("mathv"),
    prompts=_judged("mathv", "build_mathv_gpt4_prompt"),
)
_MMMU_PRO = Check(
    "image_mcq:MMMUProDataset",
    _share,
    _column("_cotpost_exact_matching_result", "hit"),
    note=_OWN_MATCHING,
)
CHECKS: dict[str, Check] = {
    "ChartQA_TEST": Check("image_vqa:ImageVQADataset", _percent, _vqa("ChartQA_TEST")),
    "DocVQA_VAL": Check("image_vqa:ImageVQADataset", _percent, _vqa("DocVQA_VAL")),
    "MathVision": _MATHVISION,
    "MathVision_MINI": _MATHVISION,
    "MathVista_MINI": Check(
        "image_vqa:MathVista",
        _overall("Task&Skill", "Overall"),
        _post_check("mathvista"),
        prompts=_judged("mathvista", "build_mathvista_gpt4_prompt"),
    ),
    "CountBenchQA": Check(
        "image_vqa:CountBenchQA",
        lambda result: float(result["accuracy"]) / 100,
        _countbench,
        note="the kit: the count anywhere in the answer",
    ),
    # These two divide by the number of items of every category of theirs: for whole sets alone.
    "VisuLogic": Check("image_mcq:VisuLogic", None, _visulogic),
    "PuzzleVQA": Check(
        "image_mcq:PuzzleVQA",
        None,
        _puzzle,
        note="the kit reads 'Answer: X', the authors' rule the last letter",
    ),
    "MMMU_DEV_VAL": Check(
        "image_mcq:MMMUDataset",
        _share,
        _column("_exact_matching_result", "hit"),
        note=_OWN_MATCHING,
    ),
    "MMMU_Pro_10c_COT": _MMMU_PRO,
    "MMMU_Pro_V_COT": _MMMU_PRO,
    "RefCOCO": Check(
        "refcoco:RefCOCODataset",
        lambda result: float(result["Precision@1"].iloc[-1]) / 100,
        _column("_detail", "hit"),
        note="the kit reads the first box alone, in thousandths",
    ),
    "WeMath": Check(
        "image_mcq:WeMath",
        None,
        _wemath,
        note="answers alone: the four-part scheme needs all 525 problems",
    ),
    "DynaMath": Check(
        "dynamath:Dynamath",
        lambda result: float(result["Overall"].iloc[0]),
        _column("_exact_matching", "correct"),
        prompts=lambda table: [""] * len(table),
        note="where the JSON cannot be read the kit asks its judge; here nobody answers",
    ),
}
