"""Where prompts come from: shards, the stream over them, and the batches the model takes."""

from datamodules.benchmarks import BenchmarkDataModule
from datamodules.reasoning import ReasoningDataModule
from datamodules.tasks import BenchmarkCard, TaskConfig
from datamodules.templates import PromptTemplate

__all__ = [
    "BenchmarkCard",
    "BenchmarkDataModule",
    "PromptTemplate",
    "ReasoningDataModule",
    "TaskConfig",
]
