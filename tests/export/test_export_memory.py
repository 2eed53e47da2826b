"""An export makes one copy of the model at most; measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from models import architecture, build_model, small_tokenizer

from sapo_vl.modules.base import PolicyModule
from sapo_vl.policy import AdapterConfig, PolicyConfig

ROOT = Path(__file__).resolve().parents[2]
# Memory of its own (RssAnon); pages of a mapped checkpoint can be dropped by the system.
MEASURE = """
import json, sys, threading, time
from sapo_vl.export import export_checkpoint
from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

def own():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024

start, peak, running = own(), 0, True
def watch():
    global peak
    while running:
        peak = max(peak, own())
        time.sleep(0.002)
thread = threading.Thread(target=watch)
thread.start()
export_checkpoint(sys.argv[1], sys.argv[2], max_shard_size="10MB")
running = False
thread.join()
print(json.dumps(peak - start))
"""


def wide() -> dict[str, Any]:
    """About 25 M parameters, 100 MB."""
    content = architecture("qwen3_vl")
    content["text_config"] |= {
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "head_dim": 16,
    }
    content["vision_config"]["out_hidden_size"] = 512
    return content


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize(("lora", "copies"), [(None, 0.5), (AdapterConfig(rank=4), 1.5)])
def test_peak_memory(tmp_path: Path, lora: AdapterConfig | None, copies: float) -> None:
    build_model(wide(), small_tokenizer(), tmp_path / "base")
    module = PolicyModule(PolicyConfig(path=str(tmp_path / "base"), lora=lora))
    module.configure_model()
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, tmp_path / "a.ckpt")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "a.ckpt"), str(tmp_path / "hf")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    size = sum(path.stat().st_size for path in (tmp_path / "hf").glob("*.safetensors"))
    assert size > 80e6
    assert json.loads(done.stdout.splitlines()[-1]) < copies * size
