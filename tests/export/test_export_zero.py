"""Export from what DeepSpeed saves: ZeRO 1, 2 and 3, two real processes."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from export_checks import loaded, merged_by_hand
from safetensors.torch import load_file

from sapo_vl.export import export_checkpoint

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("deepspeed")


@pytest.fixture(scope="module")
def zero(model_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of every case of zero_fits.py."""
    out = tmp_path_factory.mktemp("zero")
    script = Path(__file__).with_name("zero_fits.py")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
    done = subprocess.run(
        [sys.executable, *launcher, str(script), str(model_folder("qwen3_vl")), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize(
    "case", ["zero1", "zero2", "zero2-bf16", "zero2-no-frozen", "zero3", "zero3-bf16"]
)
def test_weights_are_those_in_memory_to_the_bit(
    zero: Path, case: str, tmp_path: Path, model_folder: Callable[[str], Path]
) -> None:
    export_checkpoint(zero / case / "checkpoint", tmp_path / "hf")
    model = loaded(tmp_path / "hf")
    memory = load_file(zero / case / "memory.safetensors")
    weights = dict(model.named_parameters())
    assert weights.keys() == memory.keys()
    for name, value in memory.items():
        assert weights[name].dtype == value.dtype
        assert torch.equal(weights[name], value), name
    base = dict(loaded(model_folder("qwen3_vl")).named_parameters())
    moved = "model.language_model.embed_tokens.weight"
    assert not torch.equal(weights[moved].float(), base[moved])


@pytest.mark.parametrize("case", ["zero2-lora", "zero3-lora"])
def test_adapters_are_merged(zero: Path, case: str, tmp_path: Path) -> None:
    export_checkpoint(zero / case / "checkpoint", tmp_path / "hf")
    memory = load_file(zero / case / "memory.safetensors")
    expected = merged_by_hand(memory, scale=8 / 4)
    weights = dict(loaded(tmp_path / "hf").named_parameters())
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-7, msg=name)


def test_a_missing_shard_is_named(zero: Path, tmp_path: Path) -> None:
    shutil.copytree(zero / "zero3/checkpoint", tmp_path / "checkpoint")
    next((tmp_path / "checkpoint/checkpoint").glob("*rank_1_*optim_states.pt")).unlink()
    with pytest.raises(ValueError, match=r"ZeRO-3 shards do not fit together.*but found 1"):
        export_checkpoint(tmp_path / "checkpoint", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


class Evil:
    """A pickle that runs code when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("case", ["zero2", "zero3"])
@pytest.mark.parametrize("pattern", ["*rank_0*model_states.pt", "*rank_0*optim_states.pt"])
def test_nothing_in_a_checkpoint_is_run(
    zero: Path, case: str, pattern: str, tmp_path: Path
) -> None:
    shutil.copytree(zero / case / "checkpoint", tmp_path / "checkpoint")
    pattern = pattern if case == "zero3" or "optim" in pattern else "mp_rank_00_model_states.pt"
    path = next((tmp_path / "checkpoint/checkpoint").glob(pattern))
    content = torch.load(path, weights_only=False)
    content["extra"] = Evil(tmp_path / "ran")
    torch.save(content, path)
    pickle.loads(pickle.dumps(Evil(tmp_path / "would_run")))
    assert (tmp_path / "would_run").exists()  # the trap works
    if case == "zero2" and "optim" in pattern:
        export_checkpoint(tmp_path / "checkpoint", tmp_path / "hf")  # these are not even read
    else:
        with pytest.raises(ValueError, match="checkpoint"):
            export_checkpoint(tmp_path / "checkpoint", tmp_path / "hf")
    assert not (tmp_path / "ran").exists()
