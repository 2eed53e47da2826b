"""Which model gave an answer: hashes, so that the answers of two models are never mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

_SHARE = 512  # leading values of each parameter that go into the probe
_OF_SHARD = 8  # of those that are split: as many as any number of ranks leaves on the first


def files_sha256(path: str) -> str | None:
    """SHA-256 over the names and contents of a folder's safetensors files and its config.json.

    Computed once a process. None where ``path`` is no folder with such files, as for a hub name.
    """
    folder = Path(path)
    names = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    if len(names) == 1 or not folder.is_dir():
        return None
    stamps = tuple((str(n), n.stat().st_mtime_ns, n.stat().st_size) for n in names if n.is_file())
    return _sha256(stamps)


def weights_probe(model: nn.Module) -> str:
    """Hash of the first values of every parameter as they lie in memory.

    Tells apart what has the same files: a model trained further in this process, or one whose
    weights came from a checkpoint. Of weights that are split over ranks it takes the first few
    values, which lie on rank 0: to be called there.
    """
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
        digest.update(f"{name} {parameter.dtype} {shape}".encode())
        shard = getattr(parameter, "ds_tensor", None)  # of ZeRO-3
        if isinstance(parameter, DTensor):  # FSDP2 splits by rows
            shard = parameter.to_local().detach().flatten()
        digest.update(_bytes(parameter.detach() if shard is None else shard[:_OF_SHARD]))
    return digest.hexdigest()


def differences(saved: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> list[str]:
    """What two nested settings disagree about, as ``name: was A, is B``."""
    found = []
    for name in dict.fromkeys([*saved, *now]):
        label, was, is_now = f"{where}{name}", saved.get(name), now.get(name)
        if isinstance(was, Mapping) and isinstance(is_now, Mapping):
            found += differences(was, is_now, f"{label}.")
        elif was != is_now:
            found.append(f"{label}: was {was!r}, is {is_now!r}")
    return found


@cache
def _sha256(stamps: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, _, size in stamps:
        digest.update(f"{Path(name).name} {size}\n".encode())
        with Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.flatten()[:_SHARE].contiguous().cpu().view(torch.uint8).numpy().tobytes()
