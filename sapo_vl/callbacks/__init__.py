"""Observers of what the modules return: they log, write and check, and never change training.

Exceptions: ParityCheck may turn the shared prefix off, which changes the speed and no number;
StopFile may end the fit early; TemperatureSchedule and TemperatureController turn the temperatures.
"""

from sapo_vl.callbacks.best import BestCheckpoint
from sapo_vl.callbacks.checkpoint import IterationCheckpoint
from sapo_vl.callbacks.evaluation_bar import EvaluationBar
from sapo_vl.callbacks.gate import GateMonitor
from sapo_vl.callbacks.parity import ParityCheck
from sapo_vl.callbacks.results import AnswerWriter, ResultWriter
from sapo_vl.callbacks.rewards import RewardMonitor
from sapo_vl.callbacks.samples import SampleLog
from sapo_vl.callbacks.skips import SkipLog
from sapo_vl.callbacks.stop import StopFile
from sapo_vl.callbacks.temperature import TemperatureController, TemperatureSchedule
from sapo_vl.callbacks.throughput import ThroughputMonitor

__all__ = [
    "AnswerWriter",
    "BestCheckpoint",
    "EvaluationBar",
    "GateMonitor",
    "IterationCheckpoint",
    "ParityCheck",
    "ResultWriter",
    "RewardMonitor",
    "SampleLog",
    "SkipLog",
    "StopFile",
    "TemperatureController",
    "TemperatureSchedule",
    "ThroughputMonitor",
]
