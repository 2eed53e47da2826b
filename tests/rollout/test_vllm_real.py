"""A real vLLM server on the CPU samples for small models: it has the trainer's prompts and weights.

SAPO_VL_VLLM_PYTHON=/path/to/vllm/bin/python bash scripts/test.sh -m slow tests/rollout
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from models import encode, mixed_prompts, picture, prompt_batch
from project import Project
from vllm_fit import EQUAL, check, fit
from vllm_server import needs_vllm, servable, serving

from sapo_vl.policy import AdapterConfig, Policy, PolicyConfig
from sapo_vl.rollout import Sampler, VLLMEngine
from sapo_vl.types import PromptBatch, Rollout, Sampling

pytestmark = [pytest.mark.slow, needs_vllm]

SAMPLING = Sampling(group_size=4, temperature=0.8, max_new_tokens=12)


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen2_5_vl"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Address of a server and the model folder that it was started from."""
    root = tmp_path_factory.mktemp(request.param)
    model = servable(request.param, root / "model")
    with serving(model, root / "server.log") as url:
        yield url, model


@pytest.fixture
def strategy() -> SingleDeviceStrategy:
    return SingleDeviceStrategy(device="cpu")


def batch_of(policy: Policy) -> PromptBatch:
    """Pictures, text alone, two pictures of different sizes, a picture and a video."""
    clip = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 48), dtype=np.uint8)
    inputs = mixed_prompts(policy.processor)
    inputs.append(encode(policy.processor, "blue?", [picture(32, 32, "small")], [clip]))
    return prompt_batch(inputs, range(10, 10 + len(inputs)))


@torch.no_grad()
def gap(policy: Policy, batch: PromptBatch, drawn: Rollout, temperature: float = 0.8) -> float:
    """Largest difference of log-probs between what sampled and the policy."""
    rows = torch.arange(len(batch)).repeat_interleave(drawn.group_size)
    own = policy.score(
        batch.inputs, rows, drawn.response_ids_BT, drawn.mask_BT, temperature, share_prefix=False
    )
    return float((own.logp_BT - drawn.logp_BT).abs().max())


def step(policy: Policy) -> None:
    """One optimizer step that moves every trainable weight."""
    optimizer = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=1.0)
    generator = torch.Generator().manual_seed(1)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.grad = 0.02 * torch.randn(parameter.shape, generator=generator)
    optimizer.step()
    optimizer.zero_grad()


def test_the_server_samples_with_the_weights_that_are_trained(
    served: tuple[str, Path], strategy: SingleDeviceStrategy, tmp_path: Path
) -> None:
    url, model = served
    policy = Policy(PolicyConfig(path=str(model)))
    batch, engine = batch_of(policy), VLLMEngine([url], str(tmp_path / "weights"), verify_every=1)

    step(policy)  # other weights than the server was started with
    with engine.ready(policy, strategy):
        first = engine(policy, batch, SAMPLING, (0, 3))
    before = gap(policy, batch, first)
    with engine.ready(policy, strategy):
        pass
    assert engine.handed_over == 1  # unchanged weights are not handed over again

    step(policy)
    stale = gap(policy, batch, engine(policy, batch, SAMPLING, (0, 3)))
    with engine.ready(policy, strategy):
        after = gap(policy, batch, engine(policy, batch, SAMPLING, (0, 3)))
    print(f"\nlog-probs differ by {before:.1e}; {stale:.1e} when stale; {after:.1e} after a step")
    assert before < EQUAL
    assert stale > 0.1
    assert after < EQUAL
    assert engine.handed_over == 2
    assert [path.name for path in (tmp_path / "weights").iterdir()] == ["policy-000002"]


def test_adapters_are_handed_over_merged(
    served: tuple[str, Path], strategy: SingleDeviceStrategy, tmp_path: Path
) -> None:
    url, model = served
    policy = Policy(PolicyConfig(path=str(model), lora=AdapterConfig(rank=4)))
    for _ in range(2):  # the first step leaves one factor at 0
        step(policy)
    batch, engine = batch_of(policy), VLLMEngine([url], str(tmp_path))
    with engine.ready(policy, strategy):
        drawn = engine(policy, batch, SAMPLING, (0, 0))
    print(f"\nlog-probs differ by {gap(policy, batch, drawn):.1e}")
    assert gap(policy, batch, drawn) < EQUAL
    with policy.reference():
        assert gap(policy, batch, drawn) > 0.1


def test_draws_depend_on_seed_iteration_and_prompt_alone(
    served: tuple[str, Path], strategy: SingleDeviceStrategy, tmp_path: Path
) -> None:
    url, model = served
    policy = Policy(PolicyConfig(path=str(model)))
    batch, engine = batch_of(policy), VLLMEngine([url], str(tmp_path))
    part = prompt_batch(batch.inputs[2:4], [12, 13])
    with engine.ready(policy, strategy):
        whole = engine(policy, batch, SAMPLING, (0, 3))
        again = engine(policy, part, SAMPLING, (0, 3))
        later = engine(policy, part, SAMPLING, (0, 4))
    g = SAMPLING.group_size
    assert again.texts == whole.texts[2 * g : 4 * g]
    assert later.texts != again.texts
    assert len(set(again.texts)) > 1  # responses of a group are drawn apart


def test_greedy_responses_are_those_of_the_in_process_sampler(
    served: tuple[str, Path], strategy: SingleDeviceStrategy, tmp_path: Path
) -> None:
    url, model = served
    policy = Policy(PolicyConfig(path=str(model)))
    batch, engine = batch_of(policy), VLLMEngine([url], str(tmp_path))
    greedy = Sampling(group_size=1, temperature=0.0, max_new_tokens=40)
    endless = Sampler()(policy, batch, greedy, (0, 0))
    some_end = int(endless.response_ids_BT[0, -1])
    policy.eos_ids = (*policy.eos_ids, some_end)
    with engine.ready(policy, strategy):
        theirs = engine(policy, batch, greedy, (0, 0))
    own = Sampler()(policy, batch, greedy, (0, 0))
    assert own.finished_B.any()
    for name in ("response_ids_BT", "mask_BT", "finished_B"):
        assert torch.equal(getattr(theirs, name), getattr(own, name)), name
    assert theirs.texts == own.texts
    torch.testing.assert_close(theirs.logp_BT, own.logp_BT, atol=EQUAL, rtol=0)


ZERO_3 = ("configs/strategy/zero3.yaml",)


@pytest.mark.parametrize(("devices", "strategy"), [(1, ()), (2, ZERO_3)], ids=["one", "zero3"])
def test_a_fit_samples_with_the_server(
    served: tuple[str, Path],
    project: Project,
    tmp_path: Path,
    devices: int,
    strategy: tuple[str, ...],
) -> None:
    url, model = served
    fit(project, model, [url], tmp_path, devices, *strategy)
    check(model, tmp_path)
