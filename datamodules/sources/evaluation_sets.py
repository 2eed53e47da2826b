"""More public sets by name, all of them benchmarks that nobody trains on; see `public`."""

from __future__ import annotations

from typing import Any

from datamodules.sources import benchmarks
from datamodules.sources.described import Columns, TableSet

# Five versions of each of 788 problems; choices stand in the question or in the picture.
MATHVERSE = TableSet(
    name="mathverse",
    split="test",
    columns=Columns(id=("sample_index",)),
    prepare=benchmarks.mathverse,
    by="problem_version",
    verifier="text",
    evaluation_only=True,
    origin="https://github.com/ZrrSkywalker/MathVerse",
    licence="MIT",
)


def _mmmu_pro(name: str, **changes: Any) -> TableSet:
    return TableSet(
        name=name,
        split="test",
        answers="label",
        by="subject",
        verifier="choice",
        evaluation_only=True,
        origin="https://huggingface.co/datasets/MMMU/MMMU_Pro",
        licence="Apache-2.0",
        **changes,
    )


# Three forms of the same 1,730 questions; in the last one the picture shows question and options.
MMMU_PRO_4 = _mmmu_pro("mmmu_pro_4")
MMMU_PRO_10 = _mmmu_pro("mmmu_pro_10")
MMMU_PRO_VISION = _mmmu_pro("mmmu_pro_vision", prepare=benchmarks.mmmu_pro_vision)

# Options stand in the picture. Two answers are no letters; some hold several ("B, D").
LOGICVISTA = TableSet(
    name="logicvista",
    split="test",
    only_answers="[A-G](, ?[A-G])*",
    image_path="images/{imagename}",
    by="skill",
    verifier="choice",
    evaluation_only=True,
    origin="https://github.com/Yijia-Xiao/LogicVista",
    licence='Apache-2.0 repository; every item says "liscenced": "false"',
)

# Four options, shown in the picture.
VISULOGIC = TableSet(
    name="visulogic",
    split="test",
    columns=Columns(answer=("label", "answer")),
    answers="label",
    options=("A", "B", "C", "D"),
    by="tag",
    verifier="choice",
    evaluation_only=True,
    origin="https://huggingface.co/datasets/VisuLogic/VisuLogic",
    licence="Apache-2.0",
)

# Multiple choice and open questions with up to five images; they come before the text, in which the
# markers <image_1> stay.
EMMA = TableSet(
    name="emma",
    split="test",
    columns=Columns(id=("pid", "id")),
    answers="label",
    image_markers=False,
    by="subject",
    verifier="math",
    evaluation_only=True,
    origin="https://huggingface.co/datasets/luckychao/EMMA",
    licence="unstated",
)

# "text" is the picture's caption, which gives the count away; it stays in the meta.
COUNTBENCH = TableSet(
    name="countbench",
    split="test",
    columns=Columns(question=("question",), answer=("number", "answer")),
    verifier="number",
    evaluation_only=True,
    origin="https://huggingface.co/datasets/vikhyatk/CountBenchQA",
    licence="unstated; pictures from LAION",
)


def _refcoco(name: str) -> TableSet:
    return TableSet(
        name=name,
        split="val",
        prepare=benchmarks.refcoco,
        verifier="",  # its box is in pixels of the picture, see the benchmark's verifier
        evaluation_only=True,
        origin=f"https://huggingface.co/datasets/lmms-lab/{name}",
        licence="see the origin; pictures of COCO, Flickr terms",
    )


REFCOCO = _refcoco("RefCOCO")
REFCOCO_PLUS = _refcoco("RefCOCOplus")
REFCOCOG = _refcoco("RefCOCOg")

EVALUATION_SETS = (
    MATHVERSE,
    MMMU_PRO_4,
    MMMU_PRO_10,
    MMMU_PRO_VISION,
    LOGICVISTA,
    VISULOGIC,
    EMMA,
    COUNTBENCH,
    REFCOCO,
    REFCOCO_PLUS,
    REFCOCOG,
)
