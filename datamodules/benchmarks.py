"""BenchmarkDataModule: benchmarks to test on, with the wording and the kind of model said once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import yaml
from jsonargparse import ArgumentError, ArgumentParser
from typing_extensions import override

from datamodules.reasoning import ReasoningDataModule
from datamodules.remote import ShardCache
from datamodules.tasks import TaskConfig
from datamodules.templates import PromptTemplate
from datamodules.video import VideoLimits
from sapo_vl.types import PromptBatch


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A published score that is the mean over tasks, each counting the same.

    Args:
        name: how logs and reports call it; it is logged as ``eval/NAME/SAMPLING``.
        tasks: names of the tasks.
    """

    name: str
    tasks: list[str]


class BenchmarkDataModule(ReasoningDataModule):
    """Benchmarks for ``validate`` and ``test``.

    Args:
        processor: folder or hub name of the model whose processor makes the inputs.
        benchmarks: the tasks; several ``--config`` add theirs where they write ``benchmarks+:``.
        headlines: means over tasks, where a benchmark's published score is one.
        template: the wording to use where a benchmark has one of this name; None: each its own.
        thinking: the model reasons before ``</think>``: every verifier scores only what follows it,
            and an answer cut inside the reasoning is wrong.
        max_samples: use only the first so many samples of each benchmark.
        eval_batch_size: prompts of one batch, on each rank.
        num_workers: processes that read and encode ahead; 0 does it in the main process.
        max_prompt_tokens: longer prompts, image tokens included, are skipped and counted.
        min_pixels: smaller images are enlarged to about this many pixels.
        max_pixels: larger images are shrunk to about this many pixels.
        video: how much of a video is taken.
        max_skipped_share: a run is ended when a larger share of its samples could not be used.
        shard_cache: where shards that are not plain local tars are kept.
        seed: of the run.

    Raises:
        ValueError: ``template`` names a wording that no benchmark has; a headline is the mean of a
            task that isn't there, or has the name of one.
    """

    def __init__(
        self,
        processor: str,
        benchmarks: list[TaskConfig] | None = None,
        headlines: list[Headline] | None = None,
        template: str | None = None,
        thinking: bool = False,
        max_samples: int | None = None,
        eval_batch_size: int = 64,
        num_workers: int = 2,
        max_prompt_tokens: int = 32768,
        min_pixels: int = 65536,
        max_pixels: int = 1048576,
        video: VideoLimits = VideoLimits(),  # noqa: B008 (frozen)
        max_skipped_share: float = 0.1,
        shard_cache: ShardCache = ShardCache(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        tasks = _worded(benchmarks or [], template)
        self.headlines = {headline.name: headline.tasks for headline in headlines or []}
        _check_headlines(self.headlines, [task.name for task in tasks])
        if thinking:
            tasks = [dataclasses.replace(t, verifier=with_thinking(t.verifier)) for t in tasks]
        if max_samples is not None:
            tasks = [dataclasses.replace(t, max_samples=max_samples) for t in tasks]
        super().__init__(
            processor,
            val_tasks=tasks,
            test_tasks=tasks,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            max_prompt_tokens=max_prompt_tokens,
            min_pixels=min_pixels,
            max_pixels=max_pixels,
            video=video,
            max_skipped_share=max_skipped_share,
            shard_cache=shard_cache,
            seed=seed,
        )

    @override
    def on_after_batch_transfer(self, batch: PromptBatch, dataloader_idx: int) -> PromptBatch:
        batch.headlines = self.headlines
        return super().on_after_batch_transfer(batch, dataloader_idx)


def read_benchmarks(path: str | Path) -> list[TaskConfig]:
    """Read the tasks of an evaluation YAML, such as ``configs/eval/mathvision.yaml``.

    Raises:
        ValueError: its ``data:`` is no valid BenchmarkDataModule.
    """
    return list(read_suite(path).tasks["test"])


def read_suite(path: str | Path) -> BenchmarkDataModule:
    """Make the datamodule of an evaluation YAML, without any model's processor.

    Raises:
        ValueError: its ``data:`` is no valid BenchmarkDataModule.
    """
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["data"]
    content["init_args"]["processor"] = ""
    parser = _parser()
    try:
        made: Any = parser.instantiate_classes(parser.parse_object({"data": content})).data
    except ArgumentError as error:
        raise ValueError(f"{path}: {error}") from None
    return cast(BenchmarkDataModule, made)


@lru_cache(maxsize=1)
def _parser() -> ArgumentParser:
    parser = ArgumentParser(parser_mode="yaml", exit_on_error=False)
    parser.add_subclass_arguments(BenchmarkDataModule, "data")
    return parser


def with_thinking(verifier: Any) -> Any:
    """Give a verifier whose ``thinking`` is true, in all verifiers inside it, too.

    Raises:
        ValueError: nothing in it can be told that the model thinks.
    """
    changed = _thinking(verifier)
    if not _thinks(changed):
        raise ValueError(
            f"data.thinking: {type(verifier).__name__} has no `thinking`; give it such a field or"
            " test this task with thinking: false"
        )
    return changed


def _thinking(value: Any) -> Any:
    if isinstance(value, Mapping):
        changed = {name: _thinking(one) for name, one in value.items()}
        return changed if any(changed[name] is not value[name] for name in value) else value
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        new = True if field.name == "thinking" else _thinking(old)
        if new is not old:
            found[field.name] = new
    return dataclasses.replace(value, **found) if found else value


def _thinks(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_thinks, value.values()))
    if not dataclasses.is_dataclass(value):
        return False
    parts = (getattr(value, field.name) for field in dataclasses.fields(value))
    return getattr(value, "thinking", False) is True or any(map(_thinks, parts))


def _check_headlines(headlines: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> None:
    for name, parts in headlines.items():
        missing = [part for part in parts if part not in tasks]
        if missing or not parts:
            raise ValueError(
                f"data.headlines: {name} is the mean of {', '.join(missing) or 'nothing'}, which is"
                f" no task; there are {', '.join(tasks) or 'none'}"
            )
        if name in (*tasks, "all"):
            raise ValueError(f"data.headlines: {name} is the name of a task; choose another one")


def _worded(tasks: Sequence[TaskConfig], name: str | None) -> list[TaskConfig]:
    """Use the wording called ``name`` in every task that has it."""
    if name is None:
        return list(tasks)
    texts = {t.name: t.template.texts for t in tasks if isinstance(t.template, PromptTemplate)}
    if not any(name in known for known in texts.values()):
        known = sorted({one for several in texts.values() for one in several})
        raise ValueError(
            f"data.template is {name!r}; the benchmarks have {', '.join(known) or 'no wordings'}"
        )
    return [
        dataclasses.replace(t, template=dataclasses.replace(t.template, use=name))
        if isinstance(t.template, PromptTemplate) and name in t.template.texts
        else t
        for t in tasks
    ]
