from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from project import CoinVerifier, Project, trainer

from sapo_vl.advantage import group_advantages
from sapo_vl.callbacks import IterationCheckpoint, ParityCheck
from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of
from sapo_vl.objectives import GRPO, TokenMean
from sapo_vl.policy import PolicyConfig
from sapo_vl.types import IterationOutput, Sampling
from sapo_vl.verifiers import VerifierPool


class Keep(L.Callback):
    """Keeps what training_step returned."""

    def __init__(self) -> None:
        self.outputs: list[IterationOutput] = []
        self.batches: list[Any] = []

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.outputs.append(outputs["iteration"])
        self.batches.append(batch)


def weights(module: L.LightningModule) -> dict[str, torch.Tensor]:
    return {k: v.detach().clone() for k, v in module.policy.model.state_dict().items()}


def fit(project: Project, root: Path, *, module: Any = None, steps: int = 2, **data: Any) -> Any:
    """Fit with the coin verifier; returns the module and what it returned."""
    keep = Keep()
    module = module or project.sapo()
    options = {"tasks": project.tasks(verifier=CoinVerifier()), **data}
    trainer(root, max_steps=steps, callbacks=[keep]).fit(module, project.data(**options))
    return module, keep


def largest_difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[k] - second[k]).abs().max()) for k in first)


def test_first_update_equals_the_papers_formula_on_transformers_own_forward(
    project: Project, tmp_path: Path
) -> None:
    before = project.policy()
    module = project.sapo(gradient_clip_norm=0.0, updates_per_iteration=1)
    module, keep = fit(project, tmp_path, module=module, steps=1)
    output, batch = keep.outputs[0], keep.batches[0]
    rollout = output.rollout
    advantage_B = group_advantages(output.reward_PG).flatten()
    assert advantage_B.abs().sum() > 0

    terms = []
    for row in range(len(advantage_B)):
        inputs = batch.inputs[row // rollout.group_size]
        response = rollout.response_ids_BT[row][rollout.mask_BT[row]]
        ids = torch.cat([inputs.input_ids_S, response])[None]
        types = torch.cat([inputs.mm_token_type_ids_S, torch.zeros_like(response)])[None]
        logits = before.model(input_ids=ids, mm_token_type_ids=types, **inputs.media).logits[0]
        logits = logits[len(inputs.input_ids_S) - 1 : -1].masked_fill(before.banned_V, -torch.inf)
        logp_T = logits.log_softmax(-1).gather(-1, response[:, None]).squeeze(-1)
        # Equations 5 and 6 at ratio 1: f'(1) = 1, so the gradient is that of A * log p.
        terms.append(advantage_B[row] * logp_T.mean())
    (-torch.stack(terms).mean()).backward()

    after = dict(module.policy.model.named_parameters())
    moved = 0.0
    for name, parameter in before.model.named_parameters():
        expected = parameter.detach() - 0.1 * parameter.grad
        torch.testing.assert_close(after[name].detach(), expected, rtol=1e-4, atol=2e-6)
        moved = max(moved, float((0.1 * parameter.grad).abs().max()))
    assert moved > 1e-4  # far above the tolerance: the step was really compared


@pytest.mark.parametrize(
    "micro_batch",
    [
        MicroBatch(responses=1),
        MicroBatch(responses=3),
        MicroBatch(responses=16),
        MicroBatch(responses=100, tokens=60),
        MicroBatch(responses=100, tokens=1),
    ],
)
def test_micro_batches_do_not_change_the_step(
    project: Project, tmp_path: Path, micro_batch: MicroBatch
) -> None:
    one, _ = fit(project, tmp_path, module=project.sapo(micro_batch=MicroBatch(responses=1000)))
    many, _ = fit(project, tmp_path, module=project.sapo(micro_batch=micro_batch))
    assert largest_difference(weights(one), weights(many)) < 2e-6
    assert largest_difference(weights(one), weights(fit_start(project))) > 1e-4


def test_a_token_mean_is_over_all_tokens_of_the_update(project: Project, tmp_path: Path) -> None:
    """Those of every micro-batch, and of uniform groups, which are not scored."""
    objective = GRPO(aggregation=TokenMean())
    module = project.sapo(
        objective=objective,
        sampling=Sampling(group_size=2, max_new_tokens=40),
        micro_batch=MicroBatch(responses=1),
    )
    _, kept = fit(project, tmp_path, module=module, prompts_per_iteration=8)
    output = kept.outputs[0]
    update, mask_BT = output.updates[1], output.rollout.mask_BT  # in the first every term is 0
    prompts = deal_prompts([p.task for p in output.batch.prompts], 2)[1]
    tokens = mask_BT[rows_of(prompts, 2)].sum()
    assert len(update.advantage_N) > 1  # several micro-batches
    assert update.mask_NT.sum() < tokens  # and a group that is not scored
    want = objective(
        update.log_ratio_NT,
        torch.zeros_like(update.log_ratio_NT),
        update.advantage_N,
        update.mask_NT,
        denominator=float(tokens),
    )
    assert abs(update.loss) > 1e-6
    assert update.loss == pytest.approx(want.loss.item(), rel=1e-4)


def fit_start(project: Project) -> Any:
    module = project.sapo()
    module.configure_model()
    return module


def test_plain_scoring_takes_the_same_step_as_a_shared_prefix(
    project: Project, tmp_path: Path
) -> None:
    shared, _ = fit(project, tmp_path)
    plain_config = PolicyConfig(path=project.model, share_prefix=False)
    plain, _ = fit(project, tmp_path, module=project.sapo(policy=plain_config))
    assert largest_difference(weights(shared), weights(plain)) < 2e-6


def test_leaving_uniform_groups_out_changes_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = project.sapo(sampling=Sampling(group_size=2, max_new_tokens=2))
    skipping, keep = fit(project, tmp_path, module=module, prompts_per_iteration=8)
    uniform = sum(int((o.advantage_PG == 0).all(1).sum()) for o in keep.outputs)
    assert uniform > 0
    monkeypatch.setattr(
        "sapo_vl.modules.sapo.informative_groups",
        lambda x: torch.ones(len(x), dtype=torch.bool),
    )
    module = project.sapo(sampling=Sampling(group_size=2, max_new_tokens=2))
    scoring_all, _ = fit(project, tmp_path, module=module, prompts_per_iteration=8)
    assert largest_difference(weights(skipping), weights(scoring_all)) < 2e-6


def test_first_update_has_ratio_one_and_the_second_has_not(
    project: Project, tmp_path: Path
) -> None:
    _, keep = fit(project, tmp_path)
    first, second = keep.outputs[0].updates
    assert first.log_ratio_NT.abs().max() < 1e-5
    assert first.gate_NT[first.mask_NT].min() > 1 - 1e-6
    assert second.log_ratio_NT.abs().max() > 1e-4


def test_iterations_count_on_and_draw_anew(project: Project, tmp_path: Path) -> None:
    _, keep = fit(project, tmp_path, steps=4)
    assert [o.iteration for o in keep.outputs] == [0, 1]
    assert {p.index for b in keep.batches for p in b.prompts} == set(range(8))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_resumed_run_ends_at_the_same_weights_to_the_bit(
    project: Project, tmp_path: Path, num_workers: int
) -> None:
    def run(name: str, steps: int, path: Path | None = None) -> dict[str, torch.Tensor]:
        module = project.sapo(optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3))
        saver = IterationCheckpoint(1, keep_last=9, folder=str(tmp_path / name))
        t = trainer(tmp_path, max_steps=steps, callbacks=[saver])
        tasks = project.tasks(verifier=CoinVerifier())
        data = project.data(tasks=tasks, num_workers=num_workers)
        t.fit(module, data, ckpt_path=path, weights_only=True)
        return weights(module)

    whole, half = run("whole", 8), run("half", 4)
    assert largest_difference(whole, half) > 1e-4
    at_its_end = run("resumed", 8, tmp_path / "half/checkpoints/iteration-000002.ckpt")
    within = run("again", 8, tmp_path / "whole/checkpoints/iteration-000001.ckpt")
    for name, value in whole.items():
        assert torch.equal(value, at_its_end[name]), name
        assert torch.equal(value, within[name]), name


@pytest.mark.parametrize("part", ["vision", "merger", "language"])
def test_frozen_parts_are_bit_equal_after_fit(project: Project, tmp_path: Path, part: Any) -> None:
    from sapo_vl.policy.parts import part_of

    start = weights(fit_start(project))
    config = PolicyConfig(path=project.model, freeze=[part])
    module, _ = fit(project, tmp_path, module=project.sapo(policy=config))
    moved = {part_of(k) for k, v in weights(module).items() if not torch.equal(v, start[k])}
    assert moved == {"vision", "merger", "language"} - {part}


def test_truncated_responses_can_be_worth_nothing(project: Project, tmp_path: Path) -> None:
    _, judged = fit(project, tmp_path)
    _, zeroed = fit(project, tmp_path, module=project.sapo(truncated="zero"))
    finished_B = judged.outputs[0].rollout.finished_B
    reward_B = judged.outputs[0].reward_PG.flatten()
    assert reward_B[~finished_B].sum() > 0
    assert torch.equal(zeroed.outputs[0].reward_PG.flatten(), reward_B * finished_B)


def test_truncated_responses_can_be_masked(project: Project, tmp_path: Path) -> None:
    """They count in their group's mean and deviation, and give no gradient themselves."""
    judged = fit(project, tmp_path)[1].outputs[0]
    masked = fit(project, tmp_path, module=project.sapo(truncated="mask"))[1].outputs[0]
    finished_B = judged.rollout.finished_B
    assert torch.equal(masked.reward_PG, judged.reward_PG)
    advantage_B = judged.advantage_PG.flatten()
    assert advantage_B[~finished_B].any()
    assert advantage_B[finished_B].any()
    assert torch.equal(masked.advantage_PG.flatten(), advantage_B * finished_B)


def test_one_update_an_iteration_warns_that_the_gate_is_inert(
    project: Project, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="gate is inert"):
        fit(project, tmp_path, module=project.sapo(updates_per_iteration=1), steps=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": Sampling(group_size=1)}, "group_size is 1"),
        ({"sampling": Sampling(top_p=0.9)}, "top_p must be 1"),
        ({"sampling": Sampling(presence_penalty=1.5)}, "presence_penalty 0 in training"),
        ({"sampling": Sampling(top_k=20)}, "top_k 0"),
        ({"sampling": Sampling(temperature=0.0)}, "greedy"),
        ({"updates_per_iteration": 0}, "updates_per_iteration is 0"),
    ],
)
def test_settings_that_cannot_train_are_refused(
    project: Project, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        project.sapo(**changes)


def test_too_few_prompts_for_the_updates(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompts_per_iteration"):
        fit(project, tmp_path, module=project.sapo(updates_per_iteration=5))


def test_a_checkpoint_of_another_model_is_refused(project: Project, tmp_path: Path) -> None:
    module, _ = fit(project, tmp_path)
    t = trainer(tmp_path)
    t.fit(module, project.data())
    t.save_checkpoint(tmp_path / "other.ckpt")
    checkpoint = torch.load(tmp_path / "other.ckpt", weights_only=True)
    checkpoint["policy"]["hidden_size"] = 4096
    torch.save(checkpoint, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match="another model"):
        trainer(tmp_path).fit(
            project.sapo(), project.data(), ckpt_path=tmp_path / "other.ckpt", weights_only=True
        )


def test_gradient_clipping_bounds_the_step(project: Project, tmp_path: Path) -> None:
    start = weights(fit_start(project))
    module = project.sapo(gradient_clip_norm=1e-3, updates_per_iteration=1)
    module, keep = fit(project, tmp_path, module=module, steps=1)
    assert keep.outputs[0].updates[0].grad_norm > 1e-3
    names = [name for name, _ in module.policy.model.named_parameters()]
    after = weights(module)
    moved = torch.stack([(after[k] - start[k]).norm() for k in names]).norm()
    assert float(moved) == pytest.approx(0.1 * 1e-3, rel=0.05)


def test_modules_do_not_share_state(project: Project) -> None:
    first, second = fit_start(project), fit_start(project)
    copied = copy.deepcopy(weights(first))
    with torch.no_grad():
        for parameter in second.policy.parameters():
            parameter.zero_()
    assert largest_difference(weights(first), copied) == 0


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16-true", "bfloat16"), ("bf16-mixed", "float32")]
)
def test_half_precision_rounds_no_reward_and_no_ratio(
    project: Project, tmp_path: Path, precision: Any, dtype: Any
) -> None:
    class Third(CoinVerifier):
        def __call__(self, prompt: Any, response: str) -> Any:
            return dataclasses.replace(super().__call__(prompt, response), score=len(response) / 99)

    keep = Keep()
    config = PolicyConfig(path=project.model, dtype=dtype)
    module = project.sapo(policy=config, truncated="judge")
    data = project.data(tasks=project.tasks(verifier=Third()))
    callbacks = [keep, ParityCheck()]
    trainer(tmp_path, max_steps=4, callbacks=callbacks, precision=precision).fit(module, data)
    assert {p.dtype for p in module.policy.parameters()} == {getattr(torch, dtype)}
    for output in keep.outputs:
        expected = torch.tensor([v.score for v in output.verdicts])  # 1/99 has no bfloat16
        assert torch.equal(output.reward_PG.flatten(), expected)
        floats = [output.old_logp_BT, output.rollout.logp_BT, output.rollout.entropy_BT]
        floats += [u.log_ratio_NT for u in output.updates] + [u.gate_NT for u in output.updates]
        assert {x.dtype for x in floats} == {torch.float32}
        assert all(torch.isfinite(x).all() for x in floats)


def test_a_pool_of_workers_judges_alike(project: Project, tmp_path: Path) -> None:
    keep = [Keep(), Keep()]
    pools = [None, VerifierPool(workers=1)]
    for kept, pool in zip(keep, pools, strict=True):
        module = project.sapo(verifier_pool=pool)
        trainer(tmp_path, max_steps=2, callbacks=[kept]).fit(module, project.data())
    assert keep[0].outputs[0].verdicts == keep[1].outputs[0].verdicts


def test_the_parity_check_computes_as_an_iteration_does(
    project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module, drawn_in = project.sapo(), []
    sampler = module.rollout

    def rollout(*args: Any) -> Any:
        drawn_in.append(torch.is_autocast_enabled("cpu"))
        return sampler(*args)

    rollout.ready = sampler.ready  # type: ignore[attr-defined]
    module.rollout = rollout
    options: dict[str, Any] = {"callbacks": [ParityCheck()], "precision": "bf16-mixed"}
    with caplog.at_level("INFO"):
        trainer(tmp_path, max_steps=2, **options).fit(module, project.data())
    assert drawn_in == [True, True]  # by the check, by the iteration
    assert "tolerance 2e-01" in caplog.text  # bfloat16's


def test_a_scaled_loss_changes_no_norm_and_no_clipping(project: Project, tmp_path: Path) -> None:
    """16-mixed multiplies the loss, by 65,536 at first, so that small gradients survive."""
    norms, moved = [], []
    for scaler in (None, torch.amp.GradScaler("cpu")):
        # autocast in bfloat16: float16 is the scaler's business alone here
        precision = MixedPrecision("bf16-mixed", "cpu")
        precision.scaler = scaler
        keep, module = Keep(), fit_start(project)
        start = weights(module)
        trainer(tmp_path, max_steps=2, callbacks=[keep], plugins=[precision]).fit(
            module, project.data(tasks=project.tasks(verifier=CoinVerifier()))
        )
        norms.append(keep.outputs[0].updates[0].grad_norm)
        moved.append(largest_difference(weights(module), start))
    assert norms[1] == pytest.approx(norms[0], rel=0.05)
    assert moved[1] == pytest.approx(moved[0], rel=0.05)


def test_a_run_that_goes_on_keeps_no_more_checkpoints(project: Project, tmp_path: Path) -> None:
    def go_on(folder: Path, steps: int, resume: Path | None = None) -> list[str]:
        saver = IterationCheckpoint(1, keep_last=2, export=False, folder=str(folder))
        options: dict[str, Any] = {"callbacks": [saver], "max_steps": steps}
        trainer(tmp_path, **options).fit(
            project.sapo(), project.data(), ckpt_path=resume, weights_only=True
        )
        return sorted(path.stem[-3:] for path in (folder / "checkpoints").iterdir())

    assert go_on(tmp_path / "a", 4) == ["001", "002"]
    last = tmp_path / "a/checkpoints/iteration-000002.ckpt"
    assert go_on(tmp_path / "b", 8, last) == ["003", "004"]  # elsewhere: a is left alone
    assert go_on(tmp_path / "a", 6, last) == ["002", "003"]
