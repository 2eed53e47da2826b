"""Scoring of sampled answers: judging them, the metrics, keeping and comparing results."""

from sapo_vl.evaluation.four_part import FourPart
from sapo_vl.evaluation.judge import answers_of, judge
from sapo_vl.evaluation.metrics import (
    Accuracy,
    AvgAtN,
    CategoryMean,
    MajorityAtK,
    PartMean,
    PartRatio,
    PassAtK,
    WorstCase,
)
from sapo_vl.evaluation.prompt_mean import PromptMean

__all__ = [
    "Accuracy",
    "AvgAtN",
    "CategoryMean",
    "FourPart",
    "MajorityAtK",
    "PartMean",
    "PartRatio",
    "PassAtK",
    "PromptMean",
    "WorstCase",
    "answers_of",
    "judge",
]
