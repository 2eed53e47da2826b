"""Where prompts come from: shards, the stream over them, and the batches the model takes."""

from datamodules.reasoning import ReasoningDataModule
from datamodules.tasks import TaskConfig

__all__ = ["ReasoningDataModule", "TaskConfig"]
