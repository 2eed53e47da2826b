"""The evaluation YAMLs as objects: what `sapo-vl test` would make of them, without a model."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningDataModule

from datamodules import TaskConfig
from datamodules.benchmarks import read_benchmarks
from sapo_vl.cli import SapoCLI
from sapo_vl.modules.base import PolicyModule

ROOT = Path(__file__).resolve().parents[2]
EVAL = ROOT / "configs" / "eval"
PARTS = {"model", "trainer"}  # what the benchmarks' files take in
BENCHMARKS = sorted(path.stem for path in EVAL.glob("*.yaml") if path.stem not in PARTS)
SAMPLINGS = sorted(path.stem for path in (EVAL / "sampling").glob("*.yaml"))


def command(*names: str) -> list[str]:
    """``--config`` for each of some files of configs/eval."""
    return [x for name in names for x in ("--config", f"configs/eval/{name}.yaml")]


@contextmanager
def at_root() -> Any:
    """Work in the checkout's root, as a person would who gives ``configs/eval/...``."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(before)


def load(*names: str, more: tuple[str, ...] = ()) -> SapoCLI:
    """Parse files of configs/eval and make every object in them; no weights are read."""
    with at_root():
        return SapoCLI(
            PolicyModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            save_config_callback=None,
            run=False,
            parser_kwargs={"parser_mode": "yaml"},
            args=[*command(*names), "--model.policy.path", "FOLDER", *more],
        )


@lru_cache(maxsize=64)
def tasks(name: str) -> dict[str, TaskConfig]:
    """The benchmarks of one file, by name."""
    return {task.name: task for task in read_benchmarks(EVAL / f"{name}.yaml")}
