"""What needs a CUDA device: scripts/gpu_checks.sh runs it and collects the figures.

GPU_FIGURES names a JSON file that every test adds its figures to.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from gpu_shapes import SHAPES, shape_folder
from models import encode, picture
from project import Project
from torch.utils.data import DataLoader

from sapo_vl.modules import SAPOModule
from sapo_vl.modules.batching import MicroBatch
from sapo_vl.objectives import SAPO
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.rollout import Sampler
from sapo_vl.strategies import ZeroStrategy
from sapo_vl.types import IterationOutput, Prompt, PromptBatch, Sampling, Verdict

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GROUP, RESPONSE, SIDE = 8, 512, 1008  # prompts of about 1.3k tokens


def note(name: str, **figures: float) -> None:
    """Add figures to the JSON file that GPU_FIGURES names."""
    print(name, figures)
    if not os.environ.get("GPU_FIGURES"):
        return
    file = Path(os.environ["GPU_FIGURES"])
    content = json.loads(file.read_text()) if file.exists() else {}
    content[name] = {"device": torch.cuda.get_device_name(), **figures}
    file.write_text(json.dumps(content, indent=2))


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds and peak GiB of the second of two runs."""
    work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, torch.cuda.max_memory_allocated() / 2**30


@pytest.fixture(params=sorted(SHAPES))
def shaped(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Policy]:
    """A policy of a published shape in bfloat16, its weights drawn on the device."""
    folder = shape_folder(request.param, tmp_path / request.param)
    torch.manual_seed(0)
    with torch.device("cuda"):
        policy = Policy(PolicyConfig(path=str(folder), weights="random", dtype="bfloat16"))
    return request.param, policy.cuda()


def test_update(shaped: tuple[str, Policy]) -> None:
    name, policy = shaped
    inputs = encode(policy.processor, "What is left?", [picture(SIDE, SIDE)]).to("cuda")
    ids_BT = torch.randint(8, 300, (GROUP, RESPONSE), device="cuda")
    mask_BT = torch.ones_like(ids_BT, dtype=torch.bool)
    rows = torch.zeros(GROUP, dtype=torch.long, device="cuda")
    advantage_B = torch.linspace(-1, 1, GROUP, device="cuda")

    def update() -> None:
        logp_BT = policy.score([inputs], rows, ids_BT, mask_BT).logp_BT
        SAPO()(logp_BT, logp_BT.detach(), advantage_B, mask_BT).loss.backward()
        grads = [p.grad for p in policy.parameters() if p.grad is not None]
        assert torch.isfinite(torch.nn.utils.get_total_norm(grads))
        policy.zero_grad(set_to_none=True)

    seconds, peak = measured(update)
    note(f"update/{name}", seconds=seconds, peak_gib=peak, prompt_tokens=len(inputs.input_ids_S))


def test_rollout(shaped: tuple[str, Policy]) -> None:
    name, policy = shaped
    inputs = encode(policy.processor, "What is left?", [picture(SIDE, SIDE)]).to("cuda")
    policy.eos_ids = (policy.tokenizer.convert_tokens_to_ids("<|vision_start|>"),)  # never drawn
    batch = PromptBatch([Prompt(reference="1", task="a")], [inputs], ["a"])
    sampling = Sampling(group_size=GROUP, max_new_tokens=128)

    def rollout() -> None:
        drawn = Sampler()(policy, batch, sampling, (0, 0))
        assert drawn.mask_BT.all()

    seconds, peak = measured(rollout)
    tokens = GROUP * sampling.max_new_tokens
    note(f"rollout/{name}", seconds=seconds, peak_gib=peak, tokens_per_second=tokens / seconds)


class ByText:
    """Scores that depend on the response alone, so that groups differ from the start."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        return Verdict(score=float(sum(response.encode()) % 2), extracted=response)


class Last(L.Callback):
    output: IterationOutput

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.output = outputs["iteration"]


@pytest.mark.parametrize("stage", [2, 3])
def test_one_iteration_under_zero(project: Project, tmp_path: Path, stage: int) -> None:
    pytest.importorskip("deepspeed")
    policy = PolicyConfig(path=project.model, dtype="bfloat16", head_chunk_tokens=5)
    module = SAPOModule(
        policy,
        sampling=Sampling(group_size=4, max_new_tokens=8),
        micro_batch=MicroBatch(responses=3),
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    processor = project.policy().processor
    batch = PromptBatch(
        [Prompt(reference="1", task="a", index=i, verifier=ByText()) for i in range(4)],
        [encode(processor, f"{i}?", [picture(32, 32, str(i))] * (i % 2)) for i in range(4)],
        ["a"],
    )
    last = Last()
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        strategy=ZeroStrategy(stage=stage, param_persistence_threshold=0),
        max_steps=2,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        use_distributed_sampler=False,
        default_root_dir=tmp_path,
        callbacks=[last],
    )
    start = time.perf_counter()
    trainer.fit(module, DataLoader([batch], batch_size=None))
    first, second = last.output.updates
    assert float(first.log_ratio_NT.abs().max()) < 0.1  # the policy that sampled
    assert 0 < first.grad_norm < float("inf")
    assert 0 < second.grad_norm < float("inf")
    note(f"iteration/zero{stage}", seconds=time.perf_counter() - start, grad_norm=first.grad_norm)
