r"""The public sets by name: where each keeps its question, answer, options and images.

Column names are those of the published files (Hugging Face parquet, the authors' JSON, VLMEvalKit
TSV) and of the prepared ``samples.jsonl``: the first that a row has counts. ``evaluation_only``
sets can't be written as train.
"""

from __future__ import annotations

from datamodules.sources import benchmarks, livecodebench, zebralogic
from datamodules.sources.described import Columns, TableSet
from datamodules.sources.evaluation_sets import EVALUATION_SETS

_PUZZLES = "https://github.com/declare-lab/LLM-PuzzleTest"

# Patterns with one part missing, three or four options.
PUZZLEVQA = TableSet(
    name="puzzlevqa", answers="text", by="puzzle", verifier="math", origin=_PUZZLES, licence="MIT"
)

# Puzzles solved by an algorithm, two or four options.
ALGOPUZZLEVQA = TableSet(
    name="algopuzzlevqa",
    answers="text",
    by="puzzle",
    verifier="math",
    origin=_PUZZLES,
    licence="MIT",
)

# A statement about three boxes of shapes. "structured_rep" names every shape with its place, so
# exact counts can be derived. Only the first of the six orders of the boxes is used; identifiers
# n-0 to n-3 were written about pictures shown together, so they share the group "directory".
NLVR = TableSet(
    name="nlvr",
    columns=Columns(
        id=("id", "identifier"), question=("question", "sentence"), answer=("answer", "label")
    ),
    answers="text",
    options=("true", "false"),
    question="Is this statement about the picture true or false? {question}",
    image_path="images/{directory}/{file}-{identifier}-0.png",
    group="directory",
    verifier="choice",
    origin="https://github.com/lil-lab/nlvr",
    licence="CC-BY-4.0",
)

# Counting shapes, crossings, squares and grid cells.
VLMSBLIND = TableSet(
    name="vlmsblind",
    columns=Columns(question=("question", "prompt"), answer=("answer", "groundtruth")),
    by="task",
    verifier="text",
    origin="https://github.com/anguyen8/vision-llms-are-blind",
    licence="MIT",
)

# Geometry problems with a figure; the value is the answer ("choices" and "ground_truth" in other
# copies).
GEOMETRY3K = TableSet(
    name="geometry3k",
    columns=Columns(
        question=("problem", "question"), answer=("answer", "ground_truth"), options=("choices",)
    ),
    verifier="math",
    origin="https://huggingface.co/datasets/hiyouga/geometry3k",
    licence="MIT",
)

# Counting questions about rendered scenes: R1-V's parquet (problem, solution with <answer>), CLEVR
# itself (question, answer, image_filename; questions that count nothing are left out) and
# CountBenchQA (question, number).
CLEVR_COUNT = TableSet(
    name="clevr_count",
    columns=Columns(
        question=("problem", "question"),
        answer=("solution", "answer", "number"),
        images=("images", "image"),
    ),
    answer_pattern=r"(?:.*<answer>|^)\s*(.*?)\s*(?:</answer>.*|$)",
    only_answers=r"[0-9]+(\.0+)?",
    image_path="../images/{split}/{image_filename}",
    group="image_index",
    verifier="number",
    origin="https://cs.stanford.edu/people/jcjohns/clevr/",
    licence="CC-BY-4.0",
)

# Competition problems, free answers or five options. Each problem has one merged image, whatever
# number of <imageN> its text names, so the markers stay text. A choice's answer is its label
# already, and options may be bare letters.
MATHVISION = TableSet(
    name="mathvision",
    split="test",
    columns=Columns(images=("decoded_image", "images", "image")),
    answers="label",
    image_markers=False,
    by="subject",
    verifier="math",
    evaluation_only=True,
    origin="https://github.com/mathllm/MATH-V",
    licence="MIT (part of the problems come from MATH; pictures from competition papers)",
)

# "query" is the official prompt with hint and choices written out; it stays in the meta, so does
# "precision". The answer of a choice is its text.
MATHVISTA = TableSet(
    name="mathvista",
    split="test",
    columns=Columns(
        id=("pid", "id"), question=("question",), images=("decoded_image", "images", "image")
    ),
    answers="text",
    by="question_type",
    verifier="math",
    evaluation_only=True,
    origin="https://mathvista.github.io",
    licence="CC-BY-SA-4.0; its authors rule training on it out",
)

# Options are a text that holds a Python list; <image 1> and so on in the text name image_1 to
# image_7. An open answer may be a text with a list of accepted answers.
MMMU = TableSet(
    name="mmmu",
    split="val",
    answers="label",
    by="subfield",
    verifier="text",
    evaluation_only=True,
    origin="https://mmmu-benchmark.github.io",
    licence="Apache-2.0",
)

CHARTQA = TableSet(
    name="chartqa",
    columns=Columns(question=("question", "query"), answer=("answer", "label")),
    by="type",
    group="imgname",
    verifier="chart",
    origin="https://github.com/vis-nlp/ChartQA",
    licence="GPL-3.0",
)

DOCVQA = TableSet(
    name="docvqa",
    columns=Columns(id=("questionId", "id"), answer=("answers", "answer")),
    by="data_split",
    group="docId",
    verifier="anls",
    origin="https://www.docvqa.org",
    licence="its own terms: research use; see the origin",
)

# One to three steps of one problem, which share its "ID", so that is no key; "option" is a line
# "A. one;B. two".
WEMATH = TableSet(
    name="wemath",
    split="test",
    prepare=benchmarks.wemath,
    columns=Columns(id=()),
    answers="label",
    by="step",
    verifier="math",
    evaluation_only=True,
    origin="https://github.com/We-Math/We-Math",
    licence="CC-BY-NC-4.0",
)

# Ten variants of each of 501 problems, one file a variant; "id" names the problem, so it is no key.
DYNAMATH = TableSet(
    name="dynamath",
    split="test",
    columns=Columns(
        id=(),
        answer=("ground_truth", "answer"),
        images=("decoded_image", "images", "image", "image_path"),
    ),
    by="subject",
    verifier="text",
    evaluation_only=True,
    origin="https://github.com/DynaMath/DynaMath",
    licence="MIT (README badge alone)",
)

ZEBRALOGIC = TableSet(
    name="zebralogic",
    split="test",
    prepare=zebralogic.plain_columns,
    by="size",
    verifier="zebralogic",
    evaluation_only=True,
    origin="https://huggingface.co/datasets/allenai/ZebraLogicBench-private",
    licence="gated; see the origin",
)

LIVECODEBENCH = TableSet(
    name="livecodebench",
    split="test",
    prepare=livecodebench.plain_columns,
    by="difficulty",
    verifier="livecodebench",
    evaluation_only=True,
    origin="https://huggingface.co/datasets/livecodebench/code_generation_lite",
    licence="CC (problems belong to their contest sites)",
)


def _text_math(name: str, licence: str, origin: str) -> TableSet:
    """Describe a set of mathematical texts; all of them are benchmarks."""
    return TableSet(
        name=name,
        split="test",
        columns=Columns(
            id=("id", "unique_id", "problem_idx"),
            question=("problem", "question"),
            answer=("answer", "expected_answer"),
        ),
        # GSM8K as published ends its worked answer in "#### 18".
        answer_pattern=r"(?:.*####\s*|^)(.*)$",
        by="subject",
        verifier="math",
        evaluation_only=True,
        origin=origin,
        licence=licence,
    )


AIME24 = _text_math("aime24", "problems (c) MAA", "https://huggingface.co/MathArena")
AIME25 = _text_math("aime25", "problems (c) MAA", "https://huggingface.co/MathArena")
HMMT25 = _text_math("hmmt25", "CC-BY-NC-SA-4.0", "https://huggingface.co/MathArena")
BEYONDAIME = _text_math(
    "beyondaime", "see the origin", "https://huggingface.co/datasets/ByteDance-Seed/BeyondAIME"
)
AMC23 = _text_math("amc23", "problems (c) MAA", "https://github.com/QwenLM/Qwen2.5-Math")
MATH500 = _text_math("math500", "MIT", "https://github.com/openai/prm800k")
GSM8K = _text_math("gsm8k", "MIT", "https://github.com/openai/grade-school-math")

PUBLIC_SETS = (
    PUZZLEVQA,
    ALGOPUZZLEVQA,
    NLVR,
    VLMSBLIND,
    GEOMETRY3K,
    CLEVR_COUNT,
    MATHVISION,
    MATHVISTA,
    MMMU,
    CHARTQA,
    DOCVQA,
    WEMATH,
    DYNAMATH,
    *EVALUATION_SETS,
    AIME24,
    AIME25,
    HMMT25,
    BEYONDAIME,
    AMC23,
    MATH500,
    GSM8K,
    ZEBRALOGIC,
    LIVECODEBENCH,
)
