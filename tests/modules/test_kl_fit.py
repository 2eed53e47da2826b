"""Fits with a KL penalty: what it adds to the step, where the reference policy comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from models import TEXTS
from project import ARCHITECTURE, CoinVerifier, Project, trainer
from torch import Tensor

from sapo_vl.advantage import group_advantages, informative_groups
from sapo_vl.callbacks import GateMonitor, IterationCheckpoint
from sapo_vl.modules import SAPOModule
from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of
from sapo_vl.objectives import KLPenalty
from sapo_vl.policy import AdapterConfig, Policy, PolicyConfig
from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.processor import load_processor
from sapo_vl.types import IterationOutput, Sampling

LORA = AdapterConfig(rank=4, alpha=8)
KINDS = {"full": {}, "lora": {"lora": LORA}}
SHORT = Sampling(group_size=2, max_new_tokens=2)  # many groups whose rewards are all equal


class Keep(L.Callback):
    """Keeps what training_step returned."""

    def __init__(self) -> None:
        self.outputs: list[IterationOutput] = []

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.outputs.append(outputs["iteration"])


@pytest.fixture(scope="module")
def other(project: Project, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with other weights than the policy's, of the same architecture and tokenizer."""
    folder = tmp_path_factory.mktemp("other")
    tokenizer = load_processor(project.model).tokenizer
    build_model(ARCHITECTURE, tokenizer, folder, min_pixels=256, max_pixels=65536, seed=1)
    return str(folder)


def fit(
    project: Project, root: Path, *, steps: int = 2, resume: Path | None = None, **changes: Any
) -> tuple[SAPOModule, list[IterationOutput], dict[str, Tensor]]:
    """Fit; returns the module, the iterations' outputs and the last of what was logged."""
    options = {key: changes.pop(key) for key in ("precision",) if key in changes}
    module, keep = project.sapo(**changes), Keep()
    saver = IterationCheckpoint(1, keep_last=9, folder=str(root))
    fitting = trainer(root, max_steps=steps, callbacks=[keep, GateMonitor(), saver], **options)
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()), prompts_per_iteration=8)
    fitting.fit(module, data, ckpt_path=resume, weights_only=True)
    return module, keep.outputs, dict(fitting.logged_metrics)


def weights(module: SAPOModule) -> dict[str, Tensor]:
    return {k: v.detach().clone() for k, v in module.policy.model.state_dict().items()}


def apart(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[k] - second[k]).abs().max()) for k in first)


def logp_of(policy: Policy, output: IterationOutput, row: int) -> Tensor:
    """Log-probs [T] of a response by transformers' own forward, with gradient."""
    rollout = output.rollout
    inputs = output.batch.inputs[row // rollout.group_size]
    response = rollout.response_ids_BT[row][rollout.mask_BT[row]]
    ids = torch.cat([inputs.input_ids_S, response])[None]
    types = torch.cat([inputs.mm_token_type_ids_S, torch.zeros_like(response)])[None]
    logits = policy.model(input_ids=ids, mm_token_type_ids=types, **inputs.media).logits[0]
    logits = logits[len(inputs.input_ids_S) - 1 : -1].masked_fill(policy.banned_V, -torch.inf)
    return logits.log_softmax(-1).gather(-1, response[:, None]).squeeze(-1)


def test_the_first_update_is_the_formulas_on_transformers_own_forward(
    project: Project, other: str, tmp_path: Path
) -> None:
    beta = 0.3
    module, (output,), _ = fit(
        project,
        tmp_path,
        steps=1,
        sampling=SHORT,
        gradient_clip_norm=0.0,
        updates_per_iteration=1,
        kl=KLPenalty(beta),
        reference_path=other,
    )
    uniform_P = ~informative_groups(output.reward_PG)
    assert uniform_P.any()
    assert not uniform_P.all()
    before, reference = project.policy(), Policy(PolicyConfig(path=other))
    advantage_B = group_advantages(output.reward_PG).flatten()
    terms, estimates = [], []
    for row, advantage in enumerate(advantage_B):  # the groups of equal rewards, too
        logp_T = logp_of(before, output, row)
        with torch.no_grad():
            reference_T = logp_of(reference, output, row)
        kl_T = (reference_T - logp_T).exp() - (reference_T - logp_T) - 1
        estimates.append(kl_T.detach())
        # Equations 5 and 6 of the paper at ratio 1: the gradient is that of A * log p.
        terms.append((advantage * logp_T - beta * kl_T).mean())
    (-torch.stack(terms).mean()).backward()

    after = dict(module.policy.model.named_parameters())
    for name, parameter in before.model.named_parameters():
        expected = parameter.detach() - 0.1 * parameter.grad
        torch.testing.assert_close(after[name].detach(), expected, rtol=1e-4, atol=2e-6)
    (update,) = output.updates
    for row, estimate_T in enumerate(estimates):
        own_T = update.kl_NT[row][update.mask_NT[row]]
        torch.testing.assert_close(own_T, estimate_T, rtol=1e-3, atol=1e-5)
    assert update.kl_NT.max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_policy_is_what_the_policy_was(
    project: Project, tmp_path: Path, kind: str
) -> None:
    policy = PolicyConfig(path=project.model, **KINDS[kind])
    options = {"policy": policy, "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2)}
    _, outputs, logged = fit(project, tmp_path, steps=4, kl=KLPenalty(0.1), **options)
    first, second = outputs
    assert first.updates[0].kl_NT.max() < 1e-10  # before the first step they are the same
    assert first.updates[1].kl_NT.max() > 1e-4

    start, update = project.policy(), second.updates[0]  # where the policy is still the old one
    rows = rows_of(deal_prompts([p.task for p in second.batch.prompts], 2)[0], 4)
    for place, row in enumerate(rows[:6].tolist()):
        with torch.no_grad():
            reference_T = logp_of(start, second, row)
        away_T = reference_T - second.old_logp_BT[row][second.rollout.mask_BT[row]]
        own_T = update.kl_NT[place][update.mask_NT[place]]
        torch.testing.assert_close(own_T, away_T.exp() - away_T - 1, rtol=1e-3, atol=1e-6)
        assert own_T.max() > 1e-4

    tokens = torch.cat([u.kl_NT[u.mask_NT] for u in second.updates])
    assert float(logged["policy/kl_reference"]) == pytest.approx(float(tokens.mean()), rel=1e-5)
    assert second.seconds["reference"] > 0
    assert second.scored_BT.equal(second.rollout.mask_BT)


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_the_policy_near(project: Project, tmp_path: Path, kind: str) -> None:
    policy = PolicyConfig(path=project.model, **KINDS[kind])

    def gone(beta: float) -> float:
        options = {"policy": policy, "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2)}
        _, outputs, _ = fit(project, tmp_path, steps=8, kl=KLPenalty(beta), **options)
        last = outputs[-1].updates[-1]
        return float(last.kl_NT[last.mask_NT].mean())

    assert gone(10.0) < 0.5 * gone(1e-6)


def test_a_beta_of_0_is_off_and_a_tiny_one_changes_nothing(
    project: Project, other: str, tmp_path: Path
) -> None:
    off, outputs, logged = fit(project, tmp_path, sampling=SHORT)
    assert off.reference is None
    assert outputs[0].updates[0].kl_NT is None
    assert "reference" not in outputs[0].seconds
    assert "policy/kl_reference" not in logged
    zero, _, _ = fit(project, tmp_path, sampling=SHORT, kl=KLPenalty(0.0))
    assert apart(weights(off), weights(zero)) == 0
    # Scores the groups of equal rewards as well.
    tiny, _, _ = fit(project, tmp_path, sampling=SHORT, kl=KLPenalty(1e-12), reference_path=other)
    assert apart(weights(off), weights(tiny)) < 2e-6


@pytest.mark.parametrize(
    "micro_batch", [MicroBatch(responses=1), MicroBatch(responses=5), MicroBatch(tokens=60)]
)
def test_micro_batches_do_not_change_the_step(
    project: Project, other: str, tmp_path: Path, micro_batch: MicroBatch
) -> None:
    options: dict[str, Any] = {"kl": KLPenalty(0.3), "reference_path": other}
    whole, _, _ = fit(project, tmp_path, micro_batch=MicroBatch(responses=1000), **options)
    parts, _, _ = fit(project, tmp_path, micro_batch=micro_batch, **options)
    assert apart(weights(whole), weights(parts)) < 2e-6


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_at_the_same_weights_to_the_bit(
    project: Project, tmp_path: Path, kind: str
) -> None:
    options: dict[str, Any] = {
        "policy": PolicyConfig(path=project.model, **KINDS[kind]),
        "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2),
        "kl": KLPenalty(0.3),
    }
    whole, outputs, _ = fit(project, tmp_path / "whole", steps=6, **options)
    middle = tmp_path / "whole/checkpoints/iteration-000001.ckpt"
    resumed, again, _ = fit(project, tmp_path / "again", steps=6, resume=middle, **options)
    assert apart(weights(whole), weights(resumed)) == 0
    assert [o.iteration for o in again] == [1, 2]
    for mine, theirs in zip(again, outputs[1:], strict=True):
        for update, other_update in zip(mine.updates, theirs.updates, strict=True):
            assert torch.equal(update.kl_NT, other_update.kl_NT)
            assert update.kl_NT.max() > 1e-4


def test_the_second_model_is_nowhere_but_in_memory(
    project: Project, other: str, tmp_path: Path
) -> None:
    plain, _, _ = fit(project, tmp_path / "plain")
    module, _, _ = fit(project, tmp_path / "kl", kl=KLPenalty(0.3), reference_path=other)
    assert module.state_dict().keys() == plain.state_dict().keys()
    assert {n for n, _ in module.named_parameters()} == {n for n, _ in plain.named_parameters()}
    optimized = [p for group in module.optimizers().param_groups for p in group["params"]]
    assert {id(p) for p in optimized} == {id(p) for p in module.policy.parameters()}
    saved = [
        torch.load(tmp_path / name / "checkpoints/iteration-000001.ckpt", weights_only=True)
        for name in ("plain", "kl")
    ]
    assert saved[1]["state_dict"].keys() == saved[0]["state_dict"].keys()
    exported = Policy(PolicyConfig(path=str(tmp_path / "kl/hf"))).model.state_dict()
    assert apart(exported, weights(module)) == 0
    untouched = Policy(PolicyConfig(path=other)).model.state_dict()
    second = module.reference._second
    assert apart(second.model.state_dict(), untouched) == 0
    assert not any(p.requires_grad or p.grad is not None for p in second.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_policy_computes_in_the_policys_precision(
    project: Project, tmp_path: Path, kind: str
) -> None:
    policy = PolicyConfig(path=project.model, **KINDS[kind])  # float32, which the trainer casts
    _, outputs, _ = fit(project, tmp_path, policy=policy, kl=KLPenalty(0.3), precision="bf16-true")
    assert outputs[0].updates[0].kl_NT.max() == 0
    assert outputs[0].updates[0].kl_NT.dtype == torch.float32


def test_the_reference_policy_follows_where_the_shared_prefix_is_given_up(
    project: Project, tmp_path: Path
) -> None:
    module = project.sapo(kl=KLPenalty(0.3))
    module.configure_model()
    module.policy.share_prefix = False  # as the parity check does
    trainer(tmp_path, max_steps=2).fit(module, project.data())
    assert not module.reference._second.share_prefix


def another_tokenizer(folder: Path) -> str:
    tokenizer = train_tokenizer(TEXTS, 310)
    build_model(ARCHITECTURE, tokenizer, folder, min_pixels=256, max_pixels=65536)
    return str(folder)


def test_a_reference_policy_that_does_not_fit_is_refused(
    project: Project, tmp_path: Path, model_folder: Callable[[str], Path]
) -> None:
    def load(path: str) -> None:
        module = project.sapo(kl=KLPenalty(0.3), reference_path=path)
        trainer(tmp_path, max_steps=2).fit(module, project.data())

    with pytest.raises(ValueError, match=r"reference_path: .* has another tokenizer"):
        load(another_tokenizer(tmp_path / "tokens"))
    with pytest.raises(
        ValueError, match=r"reference_path is a qwen2_5_vl model, .* a qwen3_vl one"
    ):
        load(str(model_folder("qwen2_5_vl")))
    with pytest.raises(FileNotFoundError, match="no model folder"):
        load(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("policy", "path", "message"),
    [
        ({"lora": LORA}, "x", r"model\.reference_path: with policy\.lora .* take .* out"),
        ({"weights": "random"}, None, r"policy\.weights is random.*set model\.reference_path"),
    ],
)
def test_settings_that_do_not_go_together(
    project: Project, policy: dict[str, Any], path: str | None, message: str
) -> None:
    config = PolicyConfig(path=project.model, **policy)
    with pytest.raises(ValueError, match=message):
        project.sapo(policy=config, kl=KLPenalty(0.3), reference_path=path)
