"""Fits with frozen parts and with adapters: what moves, what is saved, how a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from project import CoinVerifier, Project, trainer
from transformers import AutoModelForImageTextToText

from sapo_vl.callbacks import IterationCheckpoint
from sapo_vl.modules import SAPOModule
from sapo_vl.policy import AdapterConfig, PolicyConfig
from sapo_vl.policy.parts import part_of

LORA = AdapterConfig(rank=4, alpha=8)
PARTS = {"vision", "merger", "language"}


def fit(
    project: Project,
    out: Path,
    policy: dict[str, Any],
    steps: int = 2,
    resume: Path | None = None,
    **options: Any,
) -> SAPOModule:
    """Iterations of two updates; checkpoints after each."""
    module = project.sapo(
        policy=PolicyConfig(**({"path": project.model} | policy)),
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
    )
    saver = IterationCheckpoint(1, keep_last=9, folder=str(out))
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()))
    trainer(out, max_steps=steps, callbacks=[saver], **options).fit(
        module, data, ckpt_path=resume, weights_only=True
    )
    return module


def weights(module: SAPOModule) -> dict[str, torch.Tensor]:
    return module.policy.model.state_dict()


@pytest.mark.parametrize(
    "frozen", [["vision", "merger"], ["vision", "language"], ["merger", "language"]]
)
def test_frozen_pairs_stay_to_the_bit(project: Project, tmp_path: Path, frozen: list[str]) -> None:
    start = project.policy().model.state_dict()
    module = fit(project, tmp_path, {"freeze": frozen})
    moved = {part_of(k) for k, v in weights(module).items() if not torch.equal(v, start[k])}
    assert moved == PARTS - set(frozen)
    optimized = {id(p) for group in module.optimizers().param_groups for p in group["params"]}
    for name, parameter in module.policy.model.named_parameters():
        assert (id(parameter) in optimized) == (part_of(name) not in frozen), name
        assert parameter.grad is None or part_of(name) not in frozen, name


def test_a_fit_moves_adapters_alone_and_saves_them_alone(
    project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        module = fit(project, tmp_path, {"lora": LORA, "freeze": ["vision"]})
    start = project.policy().model.state_dict()
    for name, value in weights(module).items():
        if "lora_" not in name:
            assert torch.equal(value, start[name.replace(".base_layer", "")]), name
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    assert all(".lora_" in name for name in trained)
    optimized = [p for group in module.optimizers().param_groups for p in group["params"]]
    assert {id(p) for p in optimized} == {id(p) for p in trained.values()}
    count = sum(p.numel() for p in trained.values())
    assert f"language{count:>36,}"[-18:] in caplog.text

    saved = torch.load(tmp_path / "checkpoints/iteration-000001.ckpt", weights_only=True)
    assert saved["state_dict"].keys() == trained.keys()
    assert all(torch.equal(saved["state_dict"][n], p) for n, p in trained.items())

    # hf/ holds the merged model: it answers as the run's policy does
    merged = AutoModelForImageTextToText.from_pretrained(tmp_path / "hf")
    ids = torch.arange(20, 40)[None]
    with torch.no_grad():
        own, other = module.policy.model(input_ids=ids).logits, merged(input_ids=ids).logits
        with module.policy.reference():
            base = module.policy.model(input_ids=ids).logits
    assert (own - other).abs().max() < 1e-5
    assert (own - base).abs().max() > 1e-3


def test_a_run_with_adapters_resumes_to_the_bit(project: Project, tmp_path: Path) -> None:
    whole = fit(project, tmp_path / "whole", {"lora": LORA}, steps=6)
    middle = tmp_path / "whole/checkpoints/iteration-000001.ckpt"
    resumed = fit(project, tmp_path / "resumed", {"lora": LORA}, steps=6, resume=middle)
    start = project.policy(lora=LORA).model.state_dict()
    assert any(not torch.equal(v, start[n]) for n, v in weights(whole).items() if "lora_B" in n)
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[name]), name


def test_another_base_or_other_adapters_are_refused(project: Project, tmp_path: Path) -> None:
    fit(project, tmp_path, {"lora": LORA})
    path = tmp_path / "checkpoints/iteration-000001.ckpt"
    for policy in (
        {"lora": AdapterConfig(rank=4, alpha=9)},
        {},
        {"lora": LORA, "path": str(tmp_path / "hf")},  # the same architecture, other weights
    ):
        with pytest.raises(ValueError, match="another model"):
            fit(project, tmp_path / "again", policy, steps=4, resume=path)


def test_adapters_stay_in_float32_under_bf16_true(project: Project, tmp_path: Path) -> None:
    module = fit(project, tmp_path, {"lora": LORA, "dtype": "bfloat16"}, precision="bf16-true")
    dtypes = {p.requires_grad: set() for p in module.policy.parameters()}
    for parameter in module.policy.parameters():
        dtypes[parameter.requires_grad].add(parameter.dtype)
    assert dtypes == {True: {torch.float32}, False: {torch.bfloat16}}
    assert AutoModelForImageTextToText.from_pretrained(tmp_path / "hf").dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_run_in_bf16_true_resumes_to_the_bit(
    project: Project, tmp_path: Path, dtype: str
) -> None:
    """The trainer casts the module after it has loaded the checkpoint: adapters must outlive it."""
    policy, options = {"lora": LORA, "dtype": dtype}, {"precision": "bf16-true"}
    whole = fit(project, tmp_path / "whole", policy, steps=4, **options)
    middle = tmp_path / "whole/checkpoints/iteration-000001.ckpt"
    resumed = fit(project, tmp_path / "resumed", policy, steps=4, resume=middle, **options)
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[name]), name
