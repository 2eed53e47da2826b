"""What both modules share: the policy, the optimizer, and how answers are sampled and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities import rank_zero_info
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from typing_extensions import override

from sapo_vl.evaluation import AvgAtN, answers_of, judge
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.lora import base_fingerprint, hold_in_float32
from sapo_vl.policy.parts import part_sizes, part_table
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.strategies import whole_weights
from sapo_vl.types import Answers, PromptBatch, Sampling, Verdict
from sapo_vl.verifiers import VerifierPool

GREEDY = Sampling(group_size=1, temperature=0.0)


def constant_lr(optimizer: torch.optim.Optimizer) -> LambdaLR:
    """Schedule that leaves the learning rate as it is."""
    return LambdaLR(optimizer, lambda _: 1.0)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at 1e-6, the usual rate for full-size models."""
    return torch.optim.AdamW(parameters, lr=1e-6, weight_decay=0.0)


class PolicyModule(L.LightningModule):
    """A policy with its optimizer, validated and tested by sampling answers.

    One step of inheritance that the two modules share on purpose: validation, test and prediction
    must be the same code before and after reinforcement learning, or before/after tables compare
    two things.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        evaluation: Mapping[str, Sampling] | None = None,
        rollout: RolloutEngine = Sampler(),  # noqa: B008 (frozen)
        optimizer: OptimizerCallable = adamw,
        lr_scheduler: LRSchedulerCallable = constant_lr,
        seed: int = 0,
        verifier_pool: VerifierPool | None = None,
    ) -> None:
        super().__init__()
        self.policy_config = policy
        self.strict_loading = policy.lora is None  # else on_load_checkpoint compares the names
        self.evaluation = dict(evaluation or {"greedy": GREEDY})
        self.rollout = rollout
        self.optimizer_factory = optimizer
        self.lr_scheduler_factory = lr_scheduler
        self.seed = seed
        self.verifier_pool = verifier_pool
        self.policy: Policy
        self._gathered = ExitStack()
        self.scores = nn.ModuleDict()  # "<task> <sampling>" -> AvgAtN, filled while evaluating

    @override
    def configure_model(self) -> None:
        if not hasattr(self, "policy"):  # called again by every trainer function
            self.policy = Policy(self.policy_config)

    @override
    def configure_optimizers(self) -> Any:
        if self.policy_config.lora is not None:
            hold_in_float32(self.policy.model)  # bf16-true has just cast the whole module
        trainable = [p for p in self.policy.parameters() if p.requires_grad]
        optimizer = self.optimizer_factory(trainable)
        scheduler = self.lr_scheduler_factory(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    @override
    def on_fit_start(self) -> None:
        rank_zero_info(part_table(part_sizes(self.policy.model)))

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say what model this is; with LoRA keep the adapters alone (the base is in its folder)."""
        checkpoint["policy"] = self._identity() | {
            "config": asdict(self.policy_config),
            "dtype": str(self.policy.model.dtype).removeprefix("torch."),
        }
        if self.policy_config.lora is not None and "state_dict" in checkpoint:
            trained = self._trained()
            checkpoint["state_dict"] = {
                name: value for name, value in checkpoint["state_dict"].items() if name in trained
            }

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        own = self._identity()
        saved = {name: checkpoint.get("policy", {}).get(name) for name in own}
        if saved != own:
            raise ValueError(
                f"the checkpoint holds another model: {saved}, but policy.path is {own}. "
                "Resume with the policy.path (and policy.lora) of the run that wrote it."
            )
        names = set(checkpoint.get("state_dict", ()))
        if self.policy_config.lora is not None and names and names != self._trained():
            first = sorted(names ^ self._trained())[0]
            raise ValueError(
                f"the checkpoint's adapters are not those of policy.lora, first {first}. "
                "Resume with the policy.lora of the run that wrote it."
            )

    def _trained(self) -> set[str]:
        return {name for name, p in self.named_parameters() if p.requires_grad}

    def _identity(self) -> dict[str, Any]:
        config, lora = self.policy.model.config, self.policy_config.lora
        return {
            "model_type": config.model_type,
            "parameters": sum(size.total for size in part_sizes(self.policy.model)),
            "hidden_size": config.text_config.hidden_size,
            "lora": None if lora is None else asdict(lora),
            "base": None if lora is None else base_fingerprint(self.policy.model),
        }

    @override
    def validation_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, list[Answers]]:
        return {"answers": self._evaluate(batch)}

    @override
    def test_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, list[Answers]]:
        return {"answers": self._evaluate(batch)}

    @override
    def predict_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> list[Answers]:
        """Answer a user's own questions, unjudged."""
        return [answer for name in self.evaluation for answer in self._answer(batch, name, ())]

    # Weights are gathered for a whole evaluation, not for each batch: ranks have unequal numbers.
    @override
    def on_validation_epoch_start(self) -> None:
        self._gathered.enter_context(whole_weights(self.trainer.strategy))

    @override
    def on_test_epoch_start(self) -> None:
        self._gathered.enter_context(whole_weights(self.trainer.strategy))

    @override
    def on_predict_epoch_start(self) -> None:
        self._gathered.enter_context(whole_weights(self.trainer.strategy))

    @override
    def on_validation_epoch_end(self) -> None:
        self._gathered.close()
        self._log_scores()

    @override
    def on_test_epoch_end(self) -> None:
        self._gathered.close()
        self._log_scores()

    @override
    def on_predict_epoch_end(self) -> None:
        self._gathered.close()

    def _evaluate(self, batch: PromptBatch) -> list[Answers]:
        found = []
        for name in self.evaluation:
            answers = self._answer(batch, name, None)
            self._update_scores(batch.tasks, answers, name)
            found += answers
        return found

    def _answer(
        self, batch: PromptBatch, name: str, verdicts: tuple[Verdict, ...] | None
    ) -> list[Answers]:
        """Sample answers to a batch; ``verdicts`` None: ask the verifiers."""
        if not len(batch):  # every sample of it was skipped
            return []
        drawn = self.rollout(self.policy, batch, self.evaluation[name], (self.seed, 0))
        if verdicts is None:
            verdicts = judge(batch.prompts, drawn, self.verifier_pool)
        return answers_of(batch.prompts, drawn, verdicts, name)

    def _update_scores(self, tasks: Sequence[str], answers: list[Answers], name: str) -> None:
        for task in (*tasks, "all"):
            key = f"{task} {name}"
            if key not in self.scores:  # for every task, so that all ranks log the same names
                self.scores[key] = AvgAtN().to(self.device)
            of_task = [a for a in answers if task in ("all", a.prompt.task)]
            if of_task:
                scores = [[v.score for v in a.verdicts] for a in of_task]
                score_PN = torch.tensor(scores, dtype=torch.float64, device=self.device)
                cast(AvgAtN, self.scores[key]).update(score_PN)

    def _log_scores(self) -> None:
        for key, metric in self.scores.items():
            task, name = key.rsplit(" ", 1)
            result = cast(AvgAtN, metric).compute()
            label = f"eval/{task}/{name}"
            self.log(label, result["mean"], prog_bar=task == "all")
            self.log(f"{label}_stderr", result["stderr"])
            self.log(f"{label}_n", result["n"])
        self.scores.clear()
