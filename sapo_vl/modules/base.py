"""What both modules share: the policy, the optimizer, and how answers are sampled and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities import rank_zero_info
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from typing_extensions import override

from sapo_vl.evaluation import AvgAtN, answers_of, judge
from sapo_vl.modules.samples import by_samples, check_samples
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.parts import part_sizes, part_table
from sapo_vl.rollout import RolloutEngine, Sampler
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
        samples_per_task: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.policy_config = policy
        self.evaluation = dict(evaluation or {"greedy": GREEDY})
        self.samples_per_task = check_samples(samples_per_task or {})
        self.rollout = rollout
        self.optimizer_factory = optimizer
        self.lr_scheduler_factory = lr_scheduler
        self.seed = seed
        self.verifier_pool = verifier_pool
        self.policy: Policy
        self.scores = nn.ModuleDict()  # "<task> <sampling>" -> AvgAtN, filled while evaluating

    @override
    def configure_model(self) -> None:
        if not hasattr(self, "policy"):  # called again by every trainer function
            self.policy = Policy(self.policy_config)

    @override
    def configure_optimizers(self) -> Any:
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
        checkpoint["policy"] = self._identity()

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved, own = checkpoint.get("policy"), self._identity()
        if saved != own:
            raise ValueError(
                f"the checkpoint holds another model: {saved}, but policy.path is {own}. "
                "Resume with the policy.path of the run that wrote it."
            )

    def _identity(self) -> dict[str, Any]:
        config = self.policy.model.config
        return {
            "model_type": config.model_type,
            "parameters": sum(size.total for size in part_sizes(self.policy.model)),
            "hidden_size": config.text_config.hidden_size,
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

    @override
    def on_validation_epoch_end(self) -> None:
        self._log_scores()

    @override
    def on_test_epoch_end(self) -> None:
        self._log_scores()

    def _evaluate(self, batch: PromptBatch) -> list[Answers]:
        found = []
        for name in self.evaluation:
            self._update_scores(batch.tasks, [], name)
            for part, sampling in by_samples(batch, self.evaluation[name], self.samples_per_task):
                answers = self._answer(part, name, None, sampling)
                self._update_scores(batch.tasks, answers, name)
                found += answers
        return found

    def _answer(
        self,
        batch: PromptBatch,
        name: str,
        verdicts: tuple[Verdict, ...] | None,
        sampling: Sampling | None = None,
    ) -> list[Answers]:
        """Sample answers to a batch; ``verdicts`` None: ask the verifiers."""
        if not len(batch):  # every sample of it was skipped
            return []
        sampling = sampling or self.evaluation[name]
        drawn = self.rollout(self.policy, batch, sampling, (self.seed, 0))
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
