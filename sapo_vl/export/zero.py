"""Read DeepSpeed's checkpoints: one file with the model (ZeRO 1, 2), or shards of it (ZeRO 3)."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sapo_vl.export.safe_load import load

WHOLE = "mp_rank_00_model_states.pt"  # ZeRO 1 and 2: every weight, in the dtype of training
SHARDED = "zero_pp_rank_0_mp_rank_00_model_states.pt"  # ZeRO 3: names and frozen shards
ZERO_FILES = ("latest", f"checkpoint/{WHOLE}", f"checkpoint/{SHARDED}")


def open_zero(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a checkpoint folder says, and its weights by name; those of ZeRO 3 are still in shards.

    Raises:
        ImportError: ZeRO 3 without DeepSpeed.
        ValueError: no checkpoint of DeepSpeed's, a shard is missing, or it cannot be read safely.
    """
    tagged = _tagged(folder)
    if (tagged / WHOLE).is_file():
        content = load(tagged / WHOLE)
        return content, content["module"]
    content = load(tagged / SHARDED)
    return content, _gathered(folder, tagged.name)


def _tagged(folder: Path) -> Path:
    """The subfolder that holds the state; the file ``latest`` names it."""
    latest = folder / "latest"
    tagged = folder / (latest.read_text().strip() if latest.is_file() else "checkpoint")
    if not any((tagged / name).is_file() for name in (WHOLE, SHARDED)):
        raise ValueError(
            f"{folder} is no checkpoint folder of DeepSpeed's: no {WHOLE} and no {SHARDED} in "
            f"{tagged.name!r}. A checkpoint without DeepSpeed is a file, iteration-....ckpt."
        )
    return tagged


def _gathered(folder: Path, tag: str) -> dict[str, Any]:
    if find_spec("deepspeed") is None:
        raise ImportError(
            f"{folder} is a ZeRO-3 checkpoint; putting its shards together takes DeepSpeed: "
            'pip install "sapo-vl[deepspeed]"'
        )
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    try:
        with _nothing_unpickled(), contextlib.redirect_stdout(io.StringIO()):
            return dict(
                get_fp32_state_dict_from_zero_checkpoint(str(folder), tag=tag, lazy_mode=True)
            )
    except Exception as error:  # DeepSpeed raises whatever its files bring up
        raise ValueError(
            f"{folder}: its ZeRO-3 shards do not fit together: {error}. Every rank's files of one "
            "save have to be there, unchanged."
        ) from error


@contextlib.contextmanager
def _nothing_unpickled() -> Iterator[None]:
    """Make DeepSpeed's own loader, which unpickles whatever it meets, take tensors alone.

    Its optimizer files hold three harmless objects besides, which are let through by name.
    """
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    known = [ZeroStageEnum, fragment_address, LossScaler, DynamicLossScaler]
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # overrules weights_only=False at the call
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with torch.serialization.safe_globals(known):
            yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
