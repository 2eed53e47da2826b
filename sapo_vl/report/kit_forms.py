"""What the kits call a benchmark, and the fields by which they score it.

A table of VLMEvalKit and a document of lmms-eval hold what the published data set holds, under the
names that the kit's own scoring reads. Here stands what is not the same for all benchmarks. Names
and types are those of VLMEvalKit 0.2rc1 and lmms-eval 0.7.3.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sapo_vl.report.records import Sample

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KitForm:
    """A benchmark in the kits.

    Args:
        vlmevalkit: its name among VLMEvalKit's data sets; empty: not there, or under other rules.
        lmms_eval: its name among lmms-eval's tasks; empty: as above.
        columns: a row's columns in VLMEvalKit's table beside the general ones.
        document: a document's fields in lmms-eval beside the general ones.
        absent: fields of the general document that the published one lacks.
        whole: more columns that depend on the other rows, a row a sample.
    """

    vlmevalkit: str = ""
    lmms_eval: str = ""
    columns: Callable[[Sample], Row] = lambda sample: {}
    document: Callable[[Sample], Row] = lambda sample: {}
    absent: tuple[str, ...] = ()
    whole: Callable[[Sequence[Sample]], list[Row]] = lambda samples: [{} for _ in samples]


def form_of(task: str) -> KitForm:
    """The form of a benchmark of ``configs/eval``; a general one for any other task."""
    return _FORMS.get(task, KitForm())


def _choices(sample: Sample) -> list[str]:
    return list(sample.options.values())


def _chosen(sample: Sample) -> str:
    """The reference; of a choice the text of the right option."""
    return sample.options.get(sample.reference, sample.reference)


def _answers(sample: Sample) -> list[str]:
    found = sample.meta.get("answers")
    return [str(answer) for answer in found] if isinstance(found, list) else [sample.reference]


def _mathvista(sample: Sample) -> Row:
    metadata = sample.meta.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return {
        "answer": _chosen(sample),
        "answer_option": sample.reference if sample.options else "",
        "choices": str(_choices(sample)),
        "question_type": sample.meta.get("question_type"),
        "answer_type": sample.meta.get("answer_type"),
        "precision": sample.meta.get("precision"),
        "task": metadata.get("task", ""),
        "skills": str(metadata.get("skills", [])),
    }


def _mathvista_document(sample: Sample) -> Row:
    return {"choices": _choices(sample) or None, "answer": _chosen(sample)}


def _mmmu_document(sample: Sample) -> Row:
    answers = _answers(sample)
    answer = str(answers) if len(answers) > 1 else sample.reference
    return {"options": str(_choices(sample)), "answer": answer}


def _mmmu(sample: Sample) -> Row:
    return {"id": sample.meta.get("id"), "answer": _mmmu_document(sample)["answer"]}


def _chartqa(sample: Sample) -> Row:
    people = str(sample.meta.get("type")).startswith("human")
    return {"split": "test_human" if people else "test_augmented"}


def _refcoco(sample: Sample) -> Row:
    width, height = sample.meta["size"]
    sides = dict(zip(("x1", "y1", "x2", "y2"), json.loads(sample.reference), strict=True))
    return {"width": width, "height": height, **sides}


def _refcoco_document(sample: Sample) -> Row:
    left, top, right, bottom = json.loads(sample.reference)
    return {"bbox": [left, top, right - left, bottom - top]}


def _dynamath(samples: Sequence[Sample]) -> list[Row]:
    """Problem and variant; the kit wants the first variant's ``index`` as the problem's name."""
    problems: dict[str, int] = {}
    seen: Counter[str] = Counter()
    rows = []
    for sample in samples:
        number = problems.setdefault(sample.problem or sample.key, len(problems))
        seen[sample.problem or sample.key] += 1
        rows.append({"qid": number, "varid": seen[sample.problem or sample.key]})
    for row in rows:
        row["index"] = row["qid"] + (row["varid"] - 1) * len(problems)
    return rows


def _of_meta(*names: str) -> Callable[[Sample], Row]:
    return lambda sample: {name: sample.meta.get(name) for name in names}


_MATHVISION = KitForm(
    vlmevalkit="MathVision",
    lmms_eval="mathvision_test",
    columns=lambda s: {"choices": str(_choices(s)), "level": s.meta.get("level")},
    document=lambda s: {"options": _choices(s)},
)
_MMMU_PRO = KitForm(columns=_of_meta("id"), document=_mmmu_document)
_REFCOCO_OTHER = KitForm(columns=_refcoco, document=_refcoco_document)
_REFCOCO = replace(_REFCOCO_OTHER, vlmevalkit="RefCOCO")

_FORMS: dict[str, KitForm] = {
    "mathvision": _MATHVISION,
    "mathvision_testmini": replace(
        _MATHVISION, vlmevalkit="MathVision_MINI", lmms_eval="mathvision_testmini"
    ),
    **dict.fromkeys(
        ("mathvista_rule", "mathvista_judge"),
        KitForm(
            vlmevalkit="MathVista_MINI",
            lmms_eval="mathvista_testmini_format",
            columns=_mathvista,
            document=_mathvista_document,
        ),
    ),
    "mmmu": KitForm(
        vlmevalkit="MMMU_DEV_VAL", lmms_eval="mmmu_val", columns=_mmmu, document=_mmmu_document
    ),
    "mmmu_pro_standard_4": _MMMU_PRO,
    "mmmu_pro_standard_10": replace(
        _MMMU_PRO, vlmevalkit="MMMU_Pro_10c_COT", lmms_eval="mmmu_pro_standard_cot"
    ),
    "mmmu_pro_vision": KitForm(
        vlmevalkit="MMMU_Pro_V_COT",
        lmms_eval="mmmu_pro_vision_cot",
        columns=_of_meta("id"),
        document=_mmmu_document,
        absent=("question",),
    ),
    "chartqa": KitForm(vlmevalkit="ChartQA_TEST", lmms_eval="chartqa", columns=_chartqa),
    "docvqa": KitForm(
        vlmevalkit="DocVQA_VAL",
        lmms_eval="docvqa_val",
        columns=lambda s: {"answer": str(_answers(s))},
        document=lambda s: {"answers": _answers(s)},
    ),
    "countbench": KitForm(
        vlmevalkit="CountBenchQA",
        lmms_eval="countbenchqa",
        document=lambda s: {"number": s.reference},
    ),
    "visulogic": KitForm(
        vlmevalkit="VisuLogic", lmms_eval="visulogic", document=lambda s: {"label": s.reference}
    ),
    "emma_fast": KitForm(
        vlmevalkit="EMMA_COT",
        lmms_eval="emma",
        columns=_of_meta("type", "context", "subject"),
        document=lambda s: {"options": _choices(s) or None},
    ),
    "dynamath": KitForm(
        vlmevalkit="DynaMath",
        columns=_of_meta("answer_type", "subject", "knowledge_level"),
        whole=_dynamath,
    ),
    "wemath": KitForm(
        vlmevalkit="WeMath",
        columns=lambda s: {
            **_of_meta("ID", "knowledge concept", "knowledge concept description")(s),
            "key": s.meta.get("step"),
        },
    ),
    "puzzlevqa": KitForm(
        vlmevalkit="PuzzleVQA",
        columns=lambda s: {"options": str(_choices(s)), "answer": _chosen(s)},
    ),
    **dict.fromkeys(
        (
            *("refcoco_testA", "refcoco_testB"),
            *("refcoco_plus_val", "refcoco_plus_testA", "refcoco_plus_testB"),
            *("refcocog_val", "refcocog_test"),
        ),
        _REFCOCO_OTHER,
    ),
    "refcoco_val": _REFCOCO,
}
