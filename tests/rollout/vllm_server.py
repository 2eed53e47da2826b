"""A real vLLM server for tests, and small models that it can serve on a CPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from models import architecture, small_tokenizer
from vllm_fit import ROOT

from sapo_vl.policy.build import build_model

VARIABLE = "SAPO_VL_VLLM_PYTHON"
# What makes vLLM's CPU server small and quick to start.
CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = "--dtype float32 --max-model-len 512 --enforce-eager --max-num-seqs 16".split()

needs_vllm = pytest.mark.skipif(
    VARIABLE not in os.environ, reason=f"{VARIABLE} names no interpreter that has vLLM"
)


def servable(family: str, folder: Path) -> Path:
    """A small model with heads as wide as vLLM's CPU attention asks for."""
    content = architecture(family)
    text = content["text_config"]
    text |= {"hidden_size": 128, "head_dim": 32}
    text["rope_parameters"] = text["rope_parameters"] | {"mrope_section": [8, 4, 4]}
    content["vision_config"] |= {"out_hidden_size": 128, "hidden_size": 64}
    build_model(content, small_tokenizer(), folder, min_pixels=16 * 16, max_pixels=128 * 128)
    return folder


@contextmanager
def serving(model: Path, log: Path) -> Iterator[str]:
    """Start scripts/vllm_server.sh on a free port; gives its address, and ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["bash", str(ROOT / "scripts/vllm_server.sh"), str(model), *OPTIONS]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=os.environ | CPU,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    pytest.fail(f"vLLM's server did not start: {log.read_text(errors='replace')[-3000:]}")
