from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from project import Project, trainer

from datamodules import TaskConfig
from datamodules.shards import write_shards
from sapo_vl.modules import SFTModule
from sapo_vl.policy import PolicyConfig
from sapo_vl.types import Sampling
from sapo_vl.verifiers import TextVerifier


def sft(project: Project, **changes: Any) -> SFTModule:
    options: dict[str, Any] = {
        "policy": PolicyConfig(path=project.model),
        "evaluation": {"greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=6)},
        "optimizer": lambda p: torch.optim.AdamW(p, lr=3e-3),
    }
    return SFTModule(**(options | changes))


def test_loss_equals_transformers_own_with_labels(project: Project, tmp_path: Path) -> None:
    module = sft(project)
    t = trainer(tmp_path, max_steps=1)
    data = project.data()
    t.fit(module, data)  # attaches the trainer; what it trains is replaced below
    policy = project.policy()
    module.policy = policy
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    batch = next(iter(data.train_dataloader()))
    loss = module.training_step(batch, 0)

    # transformers sums over the whole vocabulary; so must ours for the comparison.
    policy.banned_V.zero_()
    ours = module.training_step(batch, 0)
    total, tokens = 0.0, 0
    for prompt, inputs in zip(batch.prompts, batch.inputs, strict=True):
        target = [*policy.tokenizer.encode(prompt.response), policy.eos_ids[0]]
        ids = torch.cat([inputs.input_ids_S, torch.tensor(target)])[None]
        labels = ids.clone()
        labels[:, : len(inputs.input_ids_S)] = -100
        types = torch.cat([inputs.mm_token_type_ids_S, torch.zeros(len(target)).long()])[None]
        out = policy.model(input_ids=ids, mm_token_type_ids=types, labels=labels, **inputs.media)
        total += float(out.loss) * len(target)
        tokens += len(target)
    assert float(ours) == pytest.approx(total / tokens, rel=1e-5)
    assert float(loss) < float(ours)  # banned ids take no probability


def test_it_learns_and_leaves_frozen_parts_alone(project: Project, tmp_path: Path) -> None:
    config = PolicyConfig(path=project.model, freeze=["vision"])
    module = sft(project, policy=config)
    losses: list[float] = []
    module.log = lambda name, value, **_: losses.append(float(value))  # type: ignore[method-assign]
    before = project.policy().model.state_dict()
    trainer(tmp_path, max_steps=25).fit(module, project.data(prompts_per_iteration=16))
    first, last = losses[0], losses[-2]  # loss and token count alternate
    assert last < 0.5 * first
    for name, value in module.policy.model.state_dict().items():
        frozen = "visual." in name and "merger" not in name
        assert torch.equal(value, before[name]) == frozen, name


def test_a_sample_without_a_worked_response_is_named(project: Project, tmp_path: Path) -> None:
    sample = {"key": "bare", "question": "Which colour?", "answer": "red"}
    write_shards([sample], tmp_path, "bare")
    task = TaskConfig(name="bare", shards=str(tmp_path / "bare-*.tar"), verifier=TextVerifier())
    with pytest.raises(ValueError, match=r"bare.*has no `response`"):
        trainer(tmp_path).fit(sft(project), project.data(tasks=[task]))


def test_validation_scores_are_those_of_the_verdicts(project: Project, tmp_path: Path) -> None:
    evaluation = {
        "greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=6),
        "avg3": Sampling(group_size=3, max_new_tokens=6),
    }
    module = sft(project, evaluation=evaluation)
    seen: list[Any] = []
    step = module.validation_step

    def spy(batch: Any, batch_idx: int) -> Any:
        out = step(batch, batch_idx)
        seen.extend(out["answers"])
        return out

    module.validation_step = spy  # type: ignore[method-assign]
    t = trainer(tmp_path, max_steps=40, val_check_interval=40)
    t.fit(module, project.data(prompts_per_iteration=16))
    logged = {k: float(v) for k, v in t.callback_metrics.items()}
    for name, n in (("greedy", 1), ("avg3", 3)):
        for task in ("leftmost_colour", "count_colour", "all"):
            own = [a for a in seen if a.sampling == name and task in ("all", a.prompt.task)]
            assert all(len(a.texts) == n for a in own)
            scores = torch.tensor([[v.score for v in a.verdicts] for a in own]).mean(1)
            assert logged[f"eval/{task}/{name}"] == pytest.approx(float(scores.mean()))
            stderr = float(scores.std() / len(scores) ** 0.5)
            assert logged[f"eval/{task}/{name}_stderr"] == pytest.approx(stderr, abs=1e-6)
            assert logged[f"eval/{task}/{name}_n"] == len(own) == (24 if task == "all" else 12)
    assert 0 < logged["eval/all/avg3"] < 1  # not all alike, so that the comparison means something


class Texts(L.Callback):
    """Number of responses to a prompt, by task."""

    def __init__(self) -> None:
        self.counts: set[tuple[str, int]] = set()

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.counts |= {(a.prompt.task, len(a.texts)) for a in outputs["answers"]}


def test_a_task_may_have_its_own_number_of_samples(project: Project, tmp_path: Path) -> None:
    module, texts = sft(project, samples_per_task={"count_colour": 3}), Texts()
    trainer(tmp_path, callbacks=[texts]).test(module, project.data())
    assert texts.counts == {("leftmost_colour", 1), ("count_colour", 3)}
