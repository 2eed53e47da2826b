"""Does vLLM compute what the policy computes? Log-probs of both on the same prompts and tokens."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from lightning.pytorch.strategies import SingleDeviceStrategy

from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.config import Dtype
from sapo_vl.rollout.engine import TOLERANCE
from sapo_vl.rollout.vllm_engine import VLLMEngine
from sapo_vl.rollout.vllm_probe import largest_gaps, probe_batch
from sapo_vl.types import Sampling

PICTURES = (0, 1, 2)  # one question about each number of them


def compare(engine: VLLMEngine, policy: Policy, *, hand_over: bool) -> dict[str, float]:
    """Largest |difference of log-probs| by question, on what the server draws.

    Args:
        engine: of one server.
        policy: what it is compared with.
        hand_over: give the server the policy's weights first; else it is taken as it was started.

    Raises:
        RuntimeError: the server is not there or not fit, or could not load.
    """
    strategy = SingleDeviceStrategy(device=policy.device)
    engine.connect(policy, strategy)
    batch = probe_batch(policy, PICTURES)
    sampling = Sampling(group_size=4, temperature=0.8, max_new_tokens=32)
    if hand_over:
        with engine.ready(policy, strategy):
            drawn = engine(policy, batch, sampling, (0, 0))
    else:
        drawn = engine(policy, batch, sampling, (0, 0))
    gaps = largest_gaps(policy, batch, drawn, sampling.temperature)
    return {prompt.key: gap for prompt, gap in zip(batch.prompts, gaps, strict=True)}


def main(args: Sequence[str] | None = None) -> int:
    """Command line of scripts/check_vllm.py."""
    parser = argparse.ArgumentParser(
        description="Compare a model folder's log-probs with those of a vLLM server that was "
        "started from it by scripts/vllm_server.sh."
    )
    parser.add_argument("folder", help="Hugging Face folder, as scripts/export.py writes it")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="default: %(default)s")
    parser.add_argument(
        "--hand-over", metavar="DIR", help="write the weights to DIR and have the server load them"
    )
    parser.add_argument("--dtype", choices=get_args(Dtype), default="float32")
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    a = parser.parse_args(args)
    try:
        policy = Policy(PolicyConfig(path=a.folder, dtype=a.dtype)).to(a.device)
        engine = VLLMEngine([a.url], a.hand_over or ".")
        gaps = compare(engine, policy, hand_over=a.hand_over is not None)
    except (FileNotFoundError, RuntimeError, ValueError) as error:
        print(f"check_vllm: {error}", file=sys.stderr)
        return 1
    assert engine.served is not None
    tolerance = max(TOLERANCE[a.dtype], TOLERANCE[engine.served.dtype])
    for name, gap in gaps.items():
        print(f"{name}: log-probs differ by {gap:.1e} at most")
    equal = max(gaps.values()) <= tolerance
    verdict = "the same" if equal else "NOT the same"
    print(f"vLLM {engine.served.version} computes {verdict} (tolerance {tolerance:.0e})")
    return 0 if equal else 1
