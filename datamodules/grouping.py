"""What evaluation groups samples by, and what it reports of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from datamodules.tasks import TaskConfig
from sapo_vl.types import Prompt


def grouped(prompt: Prompt, problem: str | None, categories: Sequence[str]) -> Prompt:
    """Give a prompt its problem and categories, out of fields of its sample's JSON.

    A field that is missing gives an empty value.
    """
    if problem is None and not categories:
        return prompt
    return dataclasses.replace(
        prompt,
        problem="" if problem is None else ", ".join(_values(prompt.meta, problem)),
        categories={name: _values(prompt.meta, name) for name in categories},
    )


def described(task: TaskConfig) -> dict[str, Any]:
    """Everything about a task that its score depends on, as JSON."""
    return {
        "shards": task.shards,
        "template": str(task.template),  # of several wordings the name and text of the one used
        "max_samples": task.max_samples,
        "subset_seed": task.subset_seed,
        "verifier": _described(task.verifier),
        "metrics": [_described(metric) for metric in task.metrics or ()],
        "categories": list(task.categories),
        "problem": task.problem,
    }


def _values(meta: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value: Any = meta
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        return tuple(dict.fromkeys(str(entry) for entry in value)) or ("",)
    return ("" if value is None else str(value),)


def _described(value: Any) -> Any:
    """An object as its class and settings; what JSON knows as it is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        entries = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_described(entry) for entry in entries]
    kind = type(value)
    return {"class": f"{kind.__module__}.{kind.__qualname__}", **_settings(value)}


def _settings(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "name"):  # a metric: its name tells its settings apart
        names = ["name"]
    else:
        names = [name for name in getattr(value, "__dict__", {}) if not name.startswith("_")]
    return {name: _described(getattr(value, name)) for name in names}
