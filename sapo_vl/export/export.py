"""Write a checkpoint's model as a Hugging Face folder: weights, processor, chat template."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file

from sapo_vl.export.assemble import adapted_model, trained_model
from sapo_vl.export.checkpoint import open_checkpoint
from sapo_vl.export.folder import whole_folder
from sapo_vl.policy.config import Dtype
from sapo_vl.policy.lora import NAME
from sapo_vl.policy.published import save_published
from sapo_vl.processor import load_processor

SHARD_SIZE = "5GB"


def export_checkpoint(
    checkpoint: str | Path,
    folder: str | Path,
    *,
    adapter: bool = False,
    base: str | None = None,
    dtype: Dtype | None = None,
    max_shard_size: str = SHARD_SIZE,
    replace: bool = False,
) -> None:
    """Write ``checkpoint`` to ``folder``; the folder is there as a whole or not at all.

    Args:
        checkpoint: a Lightning checkpoint file, or a DeepSpeed checkpoint folder (ZeRO 1, 2, 3).
        folder: new or empty.
        adapter: write the LoRA adapters alone, in peft's layout, instead of merging them.
        base: the model folder that the run started from, where it is no longer where it was.
        dtype: of the weights; that of the run by default (adapters alone: float32).
        max_shard_size: of one safetensors file, as in "5GB".
        replace: let go of what is in ``folder``.

    Raises:
        FileExistsError: ``folder`` is not empty.
        FileNotFoundError: no checkpoint, or no base model folder.
        ImportError: a ZeRO-3 checkpoint without DeepSpeed, a quantized one without bitsandbytes.
        ValueError: not a checkpoint, one of another architecture, or no adapters in it.
    """
    with whole_folder(folder, replace=replace) as partial:
        found = open_checkpoint(checkpoint, base)
        processor = load_processor(found.config.path)
        wanted = found.dtype if dtype is None else getattr(torch, dtype)
        if adapter:
            _write_adapter(adapted_model(found, found.dtype), partial, dtype)
        else:
            save_published(trained_model(found, wanted), partial, max_shard_size)
        processor.save_pretrained(partial)


def _write_adapter(model: Any, folder: Path, dtype: Dtype | None) -> None:
    """Adapters in the layout that PeftModel.from_pretrained and vLLM read."""
    state = get_peft_model_state_dict(model, adapter_name=NAME)
    wanted = torch.float32 if dtype is None else getattr(torch, dtype)
    save_file(
        {f"base_model.model.{k}": v.to(wanted).contiguous() for k, v in state.items()},
        folder / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )
    config = model.peft_config[NAME]
    config.base_model_name_or_path = model.name_or_path
    config.inference_mode = True
    config.save_pretrained(folder)


def main(args: Sequence[str] | None = None) -> int:
    """Command line of scripts/export.py."""
    parser = argparse.ArgumentParser(
        description="Write a training checkpoint as a Hugging Face folder."
    )
    parser.add_argument("checkpoint", help="a .ckpt file, or DeepSpeed's checkpoint folder")
    parser.add_argument("out", metavar="OUT_DIR", help="new or empty folder")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--merge", action="store_true", help="merge LoRA adapters (the default)")
    how.add_argument("--adapter", action="store_true", help="write the adapters alone (peft)")
    parser.add_argument("--base", help="the model folder the run started from, if it has moved")
    parser.add_argument("--dtype", choices=get_args(Dtype), help="default: that of the run")
    parser.add_argument("--max-shard-size", default=SHARD_SIZE, help="default: %(default)s")
    a = parser.parse_args(args)
    try:
        export_checkpoint(
            a.checkpoint,
            a.out,
            adapter=a.adapter,
            base=a.base,
            dtype=a.dtype,
            max_shard_size=a.max_shard_size,
        )
    except (FileExistsError, FileNotFoundError, ImportError, ValueError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 1
    print(f"written to {a.out}")
    return 0
