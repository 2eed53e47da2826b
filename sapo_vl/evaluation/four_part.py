"""We-Math's metric: what a problem and its one-step parts, taken together, say of a model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from sapo_vl.evaluation.prompt_mean import PromptMean, Row
from sapo_vl.types import Verdict

Case = Literal[
    "insufficient_knowledge",
    "inadequate_generalization",
    "complete_mastery",
    "rote_memorization",
]
Part = Literal["score", Case]

_WHOLE = "multi"
_STEP = re.compile(r"(\d+)steps_(\d+|multi)")
_BY_STRICTNESS = ("score", "complete_mastery", "rote_memorization")
_WORTH: Mapping[str, float] = {"complete_mastery": 1.0, "inadequate_generalization": 0.5}


class FourPart(PromptMean):
    """One number of We-Math's four-part metric over problems and their steps (arXiv 2407.01284).

    Every problem is one of four cases. Composed problem wrong: inadequate generalization where
    every step is right, else insufficient knowledge. Composed problem right: complete mastery where
    every step is right (loose: any step), else rote memorization.

    The score is the share of complete mastery and half that of inadequate generalization. Rote
    memorization is its share of the problems whose composed form is right, as in the official
    script; the other parts are shares of all problems. ``n`` counts the problems in the
    denominator. A problem that lacks one of its questions is left out; the official script would
    divide by 525 even so. With several samples each is judged by itself (the j-th of every
    question), then averaged.

    Args:
        part: the score or one of the cases.
        loose: one right step is enough for complete mastery.
        field: category that says which question of its problem a prompt is: ``2steps_1``,
            ``2steps_2``, ``2steps_multi``, ...

    Raises:
        ValueError: an unknown part.
    """

    broken_down = False  # a category holds parts of problems

    def __init__(self, part: Part = "score", loose: bool = False, field: str = "step") -> None:
        super().__init__()
        if part not in (*get_args(Case), "score"):
            raise ValueError(f"part is {part!r}; it must be score, {', '.join(get_args(Case))}")
        self.part, self.loose, self.field = part, loose, field
        strictness = "_loose" if loose else "_strict"
        self.name = part + (strictness if part in _BY_STRICTNESS else "")

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """Right or not, sample by sample."""
        return [float(verdict.score >= 1) for verdict in verdicts]

    def combine(self, rows: Sequence[Row]) -> Sequence[Row]:
        """One row a problem of which every question is there.

        Raises:
            ValueError: a prompt doesn't say which question of its problem it is.
        """
        problems: dict[tuple[str, int], dict[str, Sequence[float]]] = {}
        for problem, categories, values, _ in rows:
            steps, step = self._place(problem, categories)
            problems.setdefault((problem, steps), {})[step] = values
        combined: list[Row] = []
        for (problem, steps), found in problems.items():
            names = [*map(str, range(1, steps + 1)), _WHOLE]
            if all(name in found for name in names):
                samples = zip(*(found[name] for name in names), strict=False)
                counted = [self._count([right == 1 for right in one]) for one in samples]
                weight = math.fsum(of for _, of in counted)
                if weight:
                    combined.append((problem, {}, [value for value, _ in counted], weight))
        return combined

    def _place(self, problem: str, categories: Mapping[str, Sequence[str]]) -> tuple[int, str]:
        values = categories.get(self.field, ())
        read = _STEP.fullmatch(values[0]) if len(values) == 1 else None
        if read is None:
            shown = problem.replace("\n", " ")
            raise ValueError(
                f"{self.name}: the category {self.field!r} of {shown!r} is {list(values)}; it must"
                " be like 2steps_1 or 2steps_multi, and named in the task's categories"
            )
        return int(read[1]), read[2]

    def _count(self, rights: Sequence[bool]) -> tuple[float, float]:
        """What one sample of a problem adds to numerator and denominator."""
        case = case_of(rights[:-1], rights[-1], self.loose)
        if self.part == "score":
            return _WORTH.get(case, 0.0), 1.0
        of = self.part != "rote_memorization" or rights[-1]
        return float(case == self.part), float(of)


def case_of(steps: Sequence[bool], whole: bool, loose: bool) -> Case:
    """Which of the four cases right and wrong answers to a problem and its steps are."""
    if not whole:
        return "inadequate_generalization" if all(steps) else "insufficient_knowledge"
    mastered = any(steps) if loose else all(steps)
    return "complete_mastery" if mastered else "rote_memorization"
