"""What sets one table of samples apart from another, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

AnswerForm = Literal["auto", "text", "label"]
Prepare = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column holds what: of several names, the first that a row has a value in.

    ``image_1`` in ``images`` stands for ``image_1``, ``image_2`` and so on, as many as have a
    value. Where no column of ``options`` is there, columns ``A``, ``B``, ... are options.
    """

    id: tuple[str, ...] = ("id", "pid", "index", "question_id", "questionId", "ID", "unique_id")
    question: tuple[str, ...] = ("question", "problem", "query", "prompt", "text")
    answer: tuple[str, ...] = (
        "answer",
        "label",
        "answers",
        "solution",
        "expected_answer",
        "ground_truth",
        "groundtruth",
        "gt",
        "number",
    )
    options: tuple[str, ...] = ("options", "choices", "option")
    images: tuple[str, ...] = ("images", "image", "decoded_image", "image_1", "image_path")
    videos: tuple[str, ...] = ("videos", "video")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSet:
    """A table of samples: where what stands, in what form, and what it may be used for.

    Example: ``TableSet(name="mathvision", split="test", answers="label", image_markers=False,
    evaluation_only=True, licence="MIT")``.
    """

    name: str
    split: str = "train"  # the use its licence and its peers leave it; part of the shard's name
    columns: Columns = field(default_factory=Columns)
    answers: AnswerForm = "auto"  # what stands for a choice: the option's text, its label, either
    answer_pattern: str = ""  # group 1 of this regular expression is the answer; "": all of it
    only_answers: str = ""  # rows whose answer doesn't match this whole are left out, counted
    options: tuple[str, ...] = ()  # of every question, where the table has no options
    question: str = "{question}"  # wraps the question, where it isn't one by itself
    image_markers: bool = True  # False: <image1> in a question is text, the images come before it
    image_path: str = ""  # where no column holds the image: its path, made of {columns}
    prepare: Prepare | None = None  # rewrites a row whose values are no plain columns
    by: str = ""  # the manifest counts the values of this field
    group: str = ""  # samples that share this field are variants of one problem
    verifier: str = ""  # promised name of the rule that suits answers without options
    evaluation_only: bool = False  # its licence or its authors rule training out, or papers test it
    origin: str = ""
    licence: str = ""
