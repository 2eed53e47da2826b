"""What both modules share: the policy, the optimizer, and how answers are sampled and scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import lightning as L
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities import rank_zero_info
from torch.optim.lr_scheduler import LambdaLR
from typing_extensions import override

from sapo_vl.evaluation import answers_of, judge
from sapo_vl.evaluation.judge import Judging
from sapo_vl.evaluation.scoreboard import Scoreboard
from sapo_vl.modules.parameter_groups import check_rates, parameter_groups
from sapo_vl.modules.samples import by_samples, check_samples
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.config import Part
from sapo_vl.policy.lora import base_fingerprint
from sapo_vl.policy.parts import part_sizes, part_table
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.rollout.merge import take
from sapo_vl.strategies import fitting_optimizer
from sapo_vl.types import Answers, PromptBatch, Rollout, Sampling
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
        learning_rates: Mapping[Part, float] | None = None,
    ) -> None:
        super().__init__()
        self.policy_config = policy
        self.learning_rates = check_rates(learning_rates or {})
        self.strict_loading = policy.lora is None  # else on_load_checkpoint compares the names
        self.evaluation = dict(evaluation or {"greedy": GREEDY})
        self.samples_per_task = check_samples(samples_per_task or {})
        self.rollout = rollout
        self.optimizer_factory = optimizer
        self.lr_scheduler_factory = lr_scheduler
        self.seed = seed
        self.verifier_pool = verifier_pool
        self.policy: Policy
        self._base: int | None = None  # with LoRA: tells its base from another
        self._rollout_ready = ExitStack()
        self.finished: dict[tuple[str, str, str], Answers] = {}  # by task, key and sampling
        self.results: dict[str, Any] = {}  # of the last validation or test

    @override
    def configure_model(self) -> None:
        if not hasattr(self, "policy"):  # called again by every trainer function
            self.policy = Policy(self.policy_config)
            if self.policy_config.lora is not None:  # as loaded: the trainer may cast it later
                self._base = base_fingerprint(self.policy.model)

    @override
    def configure_optimizers(self) -> Any:
        groups = parameter_groups(self.policy, self.learning_rates)
        optimizer = fitting_optimizer(self.trainer.strategy, self.optimizer_factory(groups))
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
        if own["base"] is None:  # not known on this rank
            del own["base"]
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
            "base": self._base,
        }

    @override
    def validation_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, list[Answers]]:
        with self._ending_together():
            return {"answers": self._evaluate(batch, wait=True)}

    @override
    def test_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, list[Answers]]:
        """Answer a batch; what is returned are the answers judged by now, maybe of earlier ones."""
        last = batch_idx + 1 == self.trainer.num_test_batches[dataloader_idx]
        with self._ending_together():
            return {"answers": self._evaluate(batch, wait=last)}

    @override
    def predict_step(
        self, batch: PromptBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> list[Answers]:
        """Answer a user's own questions; those with a reference and a verifier are judged."""
        names = self.evaluation if len(batch) else ()
        with self._ending_together():
            return [answers for name in names for answers in self._answer(batch, name)]

    # The engine is made ready for a whole evaluation, not for each batch: ranks have unequal
    # numbers of those.
    @override
    def on_validation_epoch_start(self) -> None:
        self._enter_rollout()
        self._open_scoreboard()

    @override
    def on_test_epoch_start(self) -> None:
        self._enter_rollout()
        self._open_scoreboard()

    @override
    def on_predict_epoch_start(self) -> None:
        self._enter_rollout()

    @override
    def on_validation_epoch_end(self) -> None:
        self._rollout_ready.close()
        self._log_scores()

    @override
    def on_test_epoch_end(self) -> None:
        self._rollout_ready.close()
        self._log_scores()

    @override
    def on_predict_epoch_end(self) -> None:
        self._rollout_ready.close()

    def _enter_rollout(self) -> None:
        ready = self.rollout.ready(self.policy, self.trainer.strategy)
        self._rollout_ready.enter_context(ready)

    @contextmanager
    def _ending_together(self) -> Iterator[None]:
        """Where a step fails on one rank, leave with its error what the others leave at the end."""
        try:
            yield
        except Exception as error:
            self._rollout_ready.__exit__(type(error), error, error.__traceback__)
            raise

    def leave_out(self, answers: Sequence[Answers]) -> None:
        """Take answers of an earlier, interrupted test as given; rank 0 counts them."""
        self.finished = {(a.prompt.task, a.prompt.key, a.sampling): a for a in answers}

    def _open_scoreboard(self) -> None:
        self.scoreboard = Scoreboard(self.evaluation, self.device, self.samples_per_task)
        self.judging = Judging(self.verifier_pool, depth=len(self.evaluation))

    def _evaluate(self, batch: PromptBatch, *, wait: bool) -> list[Answers]:
        if self.scoreboard.begin(batch) and self.trainer.testing and self.global_rank == 0:
            self.scoreboard.update(list(self.finished.values()))
        self.scoreboard.skip(batch.skipped)
        for name in self.evaluation:
            whole = self._unanswered(batch, name) if self.trainer.testing else batch
            for part, sampling in by_samples(whole, self.evaluation[name], self.samples_per_task):
                self.judging.submit(part.prompts, self._respond(part, sampling), name)
        answers = self.judging.collect(everything=wait)
        self.scoreboard.update(answers)
        return answers

    def _respond(self, batch: PromptBatch, sampling: Sampling) -> Rollout:
        return self.rollout(self.policy, batch, sampling, (self.seed, 0))

    def _answer(self, batch: PromptBatch, name: str) -> list[Answers]:
        drawn = self._respond(batch, self.evaluation[name])
        answers = answers_of(batch.prompts, drawn, (), name)
        able = [i for i, p in enumerate(batch.prompts) if p.verifier is not None and p.reference]
        if able:
            prompts, part = [batch.prompts[i] for i in able], take(drawn, able)
            judged = answers_of(prompts, part, judge(prompts, part, self.verifier_pool), name)
            for place, judged_answers in zip(able, judged, strict=True):
                answers[place] = judged_answers
        return answers

    def _unanswered(self, batch: PromptBatch, name: str) -> PromptBatch:
        left = [
            i for i, p in enumerate(batch.prompts) if (p.task, p.key, name) not in self.finished
        ]
        if len(left) == len(batch):
            return batch
        prompts, inputs = [batch.prompts[i] for i in left], [batch.inputs[i] for i in left]
        return PromptBatch(prompts, inputs, batch.tasks)

    def _log_scores(self) -> None:
        self.results = self.scoreboard.compute()
        whole = {**self.results["headlines"], "all": self.results["all"]}
        for task, samplings in {**self.results["tasks"], **whole}.items():
            for name, scores in samplings.items():
                for metric, score in scores["metrics"].items():
                    label = f"eval/{task}/{name}"
                    label += "" if metric == scores["metric"] else f"_{metric}"
                    self.log(label, score["mean"], prog_bar=label.startswith("eval/all"))
                    self.log(f"{label}_stderr", score["stderr"])
                    self.log(f"{label}_n", float(score["n"]))
