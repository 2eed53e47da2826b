"""What a benchmark is scored by: torchmetrics over answers, each named in a task's ``metrics``.

Every metric is a ratio of sums over prompts, with a standard error and a 95 % bootstrap interval
over problems. Counts are those of the samples that exist. A prompt whose reference the verifier
could not read says nothing about the model and is left out of every ``n``; a verifier that raised
or ran out of time counts as a wrong answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from sapo_vl.evaluation.prompt_mean import PromptMean, Row
from sapo_vl.types import Verdict


class AvgAtN(PromptMean):
    """avg@n: the mean score of a prompt's n samples, averaged over prompts.

    The verifier's scores are taken as they are: where it gives ANLS, relaxed accuracy or IoU, this
    is mean ANLS, relaxed accuracy or mean IoU.
    """

    name = "avg"

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The mean score."""
        return [math.fsum(v.score for v in verdicts) / len(verdicts)]


class Accuracy(PromptMean):
    """Share of a prompt's samples whose score reaches a threshold, averaged over prompts.

    Args:
        threshold: least score of a right answer; 0.5 on an IoU gives ACC@0.5.
    """

    def __init__(self, threshold: float = 1.0) -> None:
        super().__init__()
        self.threshold = _share(threshold, "threshold")
        self.name = "accuracy" if threshold == 1 else f"accuracy_{threshold:g}"

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The share of right samples."""
        return [sum(_rights(verdicts, self.threshold)) / len(verdicts)]


class PassAtK(PromptMean):
    """Unbiased pass@k: 1 - C(n - c, k) / C(n, k) with c of n samples right (arXiv 2107.03374).

    Args:
        k: how many samples may be tried; every prompt needs at least as many.
        threshold: least score of a right answer.
    """

    def __init__(self, k: int, threshold: float = 1.0) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"k of PassAtK is {k}; it must be at least 1")
        self.k, self.threshold = k, _share(threshold, "threshold")
        self.name, self.least_samples = f"pass_at_{k}", k

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The chance that k of the samples, drawn without replacement, hold a right one."""
        n, right = len(verdicts), sum(_rights(verdicts, self.threshold))
        return [1 - math.comb(n - right, self.k) / math.comb(n, self.k)]


class MajorityAtK(PromptMean):
    """maj@k: the score of the answer that most of the first k samples gave.

    Answers are compared as the verifier extracted them, without outer blanks. Of equally frequent
    ones the one that came first counts. A sample without an answer has no vote; a prompt without
    any vote scores 0.

    Args:
        k: how many samples vote; null: all.
    """

    def __init__(self, k: int | None = None) -> None:
        super().__init__()
        if k is not None and k < 1:
            raise ValueError(f"k of MajorityAtK is {k}; it must be at least 1, or null for all")
        self.k = k
        self.name, self.least_samples = ("maj", 2) if k is None else (f"maj_at_{k}", k)

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The score of the majority's answer."""
        votes = [(v.extracted.strip(), v.score) for v in verdicts[: self.k] if v.extracted]
        if not votes:
            return [0.0]
        # Counter keeps the order of first appearance among equals.
        winner = Counter(answer for answer, _ in votes).most_common(1)[0][0]
        return [next(score for answer, score in votes if answer == winner)]


class WorstCase(PromptMean):
    """A problem counts when all its variants are right; ``n`` counts problems.

    With several samples each is judged by itself (the j-th of every variant), then averaged.

    Args:
        threshold: least score of a right answer.
    """

    name = "worst_case"

    def __init__(self, threshold: float = 1.0) -> None:
        super().__init__()
        self.threshold = _share(threshold, "threshold")

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """Right or not, sample by sample."""
        return [float(right) for right in _rights(verdicts, self.threshold)]

    def combine(self, rows: Sequence[Row]) -> Sequence[Row]:
        """One row a problem: the worst of its variants."""
        problems: dict[str, list[Sequence[float]]] = {}
        for problem, _, values, _ in rows:
            problems.setdefault(problem, []).append(values)
        return [
            (
                problem,
                {},
                [min(sample) for sample in zip(*variants, strict=False)],
                len(variants[0]),
            )
            for problem, variants in problems.items()
        ]


class CategoryMean(PromptMean):
    """avg@n over the prompts of which a category has one of some values.

    Args:
        category: its name, one of the task's ``categories``.
        values: prompts with any of these count, the others are left out.
        name: what results call it.
    """

    broken_down = False

    def __init__(self, category: str, values: list[str], name: str) -> None:
        super().__init__()
        self.category, self.values, self.name = category, tuple(values), name

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The mean score."""
        return [math.fsum(v.score for v in verdicts) / len(verdicts)]

    def combine(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of those prompts.

        Raises:
            ValueError: the task doesn't break its scores down by the category.
        """
        if any(self.category not in row[1] for row in rows):
            raise ValueError(
                f"{self.name} needs the category {self.category!r}; name it in the task's"
                " categories"
            )
        return [row for row in rows if not set(self.values).isdisjoint(row[1][self.category])]


class PartMean(PromptMean):
    """Mean of one part of the verdicts' breakdown; a verdict without it counts 0.

    Args:
        part: its name in ``Verdict.parts``, such as "iou" or "cell".
        name: what results call it; the part's name by default.
    """

    def __init__(self, part: str, name: str | None = None) -> None:
        super().__init__()
        self.part, self.name = part, name or part

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The mean of the part."""
        return [math.fsum(v.parts.get(self.part, 0.0) for v in verdicts) / len(verdicts)]


class PartRatio(PromptMean):
    """Sum of one part of the breakdown over the sum of another, over all samples.

    Cell accuracy over all cells of all grids is such a ratio: large grids weigh more.

    Args:
        right: part in the numerator; a verdict without it counts 0.
        total: part in the denominator; a verdict without it counts 0.
        name: what results call it.
    """

    def __init__(self, right: str, total: str, name: str) -> None:
        super().__init__()
        self.right, self.total, self.name = right, total, name

    def value(self, verdicts: Sequence[Verdict]) -> Sequence[float]:
        """The numerators."""
        return [v.parts.get(self.right, 0.0) for v in verdicts]

    def weight(self, verdicts: Sequence[Verdict]) -> float:
        """The denominators' sum."""
        return math.fsum(v.parts.get(self.total, 0.0) for v in verdicts)


def _rights(verdicts: Sequence[Verdict], threshold: float) -> list[bool]:
    return [v.score >= threshold for v in verdicts]


def _share(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"{name} is {value}; it must lie in (0, 1]")
    return value
