"""VLMEvalKit's own evaluation over tables that we exported.

The kit's data sets are built without their data, which would have to be downloaded: the table that
they look items up in is the exported one. Where a judge would extract the answer, our extraction
stands in for what it says, so that what is compared is the kit's scoring of an extracted answer.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_vl.report.kits.outcome import Item, Outcome

_STAND_IN = "our extraction in place of the judge's"
_DATASET = "vlmeval.dataset"


@dataclass(frozen=True, slots=True)
class _Check:
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
        check = _CHECKS[name]
        table = _load(file)
        dataset = _dataset(check.owner, name, _load(file))  # its own: ``evaluate`` may change it
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
    module: Any = importlib.import_module(f"{_DATASET}.{owner.partition(':')[0]}")
    module.build_judge = lambda **_: _Judge(answers)


def _dataset(owner: str, name: str, table: Any) -> Any:
    """The kit's data set over our table; its constructor, which downloads, is not run."""
    module, _, cls = owner.partition(":")
    kind = getattr(importlib.import_module(f"{_DATASET}.{module}"), cls)
    dataset = object.__new__(kind)
    dataset.dataset_name = name
    dataset.data = table
    # RefCOCO's evaluation asks whether its own table is there; the exported one takes its place.
    dataset._ensure_metadata_ready = lambda: None
    return dataset


def _load(file: Path) -> Any:
    """A table as the kit reads it."""
    return importlib.import_module("vlmeval.smp").load(str(file))


def _function(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module(f"{_DATASET}.{module}"), name)
    return function


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.stem}{suffix}.xlsx")


def _column(suffix: str, column: str) -> Callable[[Path], list[float]]:
    """A column of what the kit wrote beside the file, in the file's order."""

    def items(file: Path) -> list[float]:
        written = _load(_beside(file, suffix))
        by_index = dict(zip(written["index"], written[column], strict=True))
        return [float(by_index[i]) for i in _load(file)["index"]]

    return items


def _vqa(name: str) -> Callable[[Path], list[float]]:
    """Scores of one of the kit's VQA data sets, made of its matches with each reference."""

    def items(file: Path) -> list[float]:
        written = _load(_beside(file, "_results"))
        lines = [{"match": ast.literal_eval(str(match))} for match in written["eval_match"]]
        return [float(x) for x in _function("utils.vqa_eval", "hit_calculate")(lines, name)]

    return items


def _post_check(module: str) -> Callable[[Path], list[float]]:
    """The kit's rule on the answers that its (stand-in) judge extracted."""

    def items(file: Path) -> list[float]:
        post_check = _function(f"utils.{module}", "post_check")
        table = _load(_beside(file, "_exact_matching"))
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
    table = _load(file)
    pairs = zip(table["prediction"], table["answer"], strict=True)
    return [float(extract(prediction)[0] == answer) for prediction, answer in pairs]


def _puzzle(file: Path) -> list[float]:
    extract = _function("utils.puzzlevqa", "extract_answer")
    table = _load(file)
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
    table = _load(file)
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
_MATHVISION = _Check(
    "image_vqa:MathVision",
    _overall("Subject", "Overall"),
    _post_check("mathv"),
    prompts=_judged("mathv", "build_mathv_gpt4_prompt"),
)
_MMMU_PRO = _Check(
    "image_mcq:MMMUProDataset",
    _share,
    _column("_cotpost_exact_matching_result", "hit"),
    note=_OWN_MATCHING,
)
_CHECKS: dict[str, _Check] = {
    "ChartQA_TEST": _Check("image_vqa:ImageVQADataset", _percent, _vqa("ChartQA_TEST")),
    "DocVQA_VAL": _Check("image_vqa:ImageVQADataset", _percent, _vqa("DocVQA_VAL")),
    "MathVision": _MATHVISION,
    "MathVision_MINI": _MATHVISION,
    "MathVista_MINI": _Check(
        "image_vqa:MathVista",
        _overall("Task&Skill", "Overall"),
        _post_check("mathvista"),
        prompts=_judged("mathvista", "build_mathvista_gpt4_prompt"),
    ),
    "CountBenchQA": _Check(
        "image_vqa:CountBenchQA",
        lambda result: float(result["accuracy"]) / 100,
        _countbench,
        note="the kit: the count anywhere in the answer",
    ),
    # These two divide by the number of items of every category of theirs: for whole sets alone.
    "VisuLogic": _Check("image_mcq:VisuLogic", None, _visulogic),
    "PuzzleVQA": _Check(
        "image_mcq:PuzzleVQA",
        None,
        _puzzle,
        note="the kit reads 'Answer: X', the authors' rule the last letter",
    ),
    "MMMU_DEV_VAL": _Check(
        "image_mcq:MMMUDataset",
        _share,
        _column("_exact_matching_result", "hit"),
        note=_OWN_MATCHING,
    ),
    "MMMU_Pro_10c_COT": _MMMU_PRO,
    "MMMU_Pro_V_COT": _MMMU_PRO,
    "RefCOCO": _Check(
        "refcoco:RefCOCODataset",
        lambda result: float(result["Precision@1"].iloc[-1]) / 100,
        _column("_detail", "hit"),
        note="the kit reads the first box alone, in thousandths",
    ),
    "WeMath": _Check(
        "image_mcq:WeMath",
        None,
        _wemath,
        note="answers alone: the four-part scheme needs all 525 problems",
    ),
    "DynaMath": _Check(
        "dynamath:Dynamath",
        lambda result: float(result["Overall"].iloc[0]),
        _column("_exact_matching", "correct"),
        prompts=lambda table: [""] * len(table),
        note="where the JSON cannot be read the kit asks its judge; here nobody answers",
    ),
}
VLMEVALKIT_SETS = tuple(_CHECKS)
