"""Scoring of sampled answers: judging them, averaging them."""

from sapo_vl.evaluation.judge import answers_of, judge
from sapo_vl.evaluation.metrics import AvgAtN

__all__ = ["AvgAtN", "answers_of", "judge"]
