"""SAPOModule: one training step is one iteration of SAPO (arXiv 2511.20347).

    roll out G responses to each prompt           rollout/
    verify them                                   verifiers/, evaluation/judge.py
    advantages within each group                  advantage.py
    old log-probs under the code that trains      policy/
    those of a reference policy, if it has one    reference.py
    for each of the iteration's mini-batches:     updates
        accumulate the objective's gradient over micro-batches, clip, step

Manual optimization, because an iteration holds several optimizer steps, and because a rollout that
lived in a loader would be drawn a step too early and have its log-probs rounded by the precision
plugin.

Shape letters: P prompts on this rank, G group size, B = P * G responses, T response tokens.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Literal

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from typing_extensions import override

from sapo_vl.advantage import group_advantages, informative_groups
from sapo_vl.evaluation import judge
from sapo_vl.modules.base import PolicyModule, adamw, constant_lr
from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of
from sapo_vl.modules.clock import clock
from sapo_vl.modules.collect import Judged, collect
from sapo_vl.modules.reference import Penalty, Reference
from sapo_vl.modules.scoring import RolloutScorer
from sapo_vl.modules.trainable import check_training, warn_if_inert
from sapo_vl.objectives import SAPO, Correction, KLPenalty, Objective
from sapo_vl.policy import PolicyConfig
from sapo_vl.policy.config import Part
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.strategies import clip_and_step
from sapo_vl.types import (
    IterationOutput,
    PromptBatch,
    Rollout,
    Sampling,
    UpdateOutput,
    Verdict,
)
from sapo_vl.verifiers import VerifierPool

Std = Literal["population", "sample", "none"]


class SAPOModule(PolicyModule):
    """Reinforcement learning on verifiable rewards with the soft adaptive gate.

    Args:
        policy: the model, its frozen parts, how it is run.
        objective: the loss; SAPO with the paper's temperatures by default.
        sampling: how responses are drawn in training; ``group_size`` is G.
        updates_per_iteration: mini-batches, one optimizer step each, that a rollout is dealt into
            (the paper: 2 for vision-language models, 4 for text). With 1 the ratio is always 1 and
            the gate does nothing.
        spare_prompts: prompts of every rank's batch that are held back; a group whose rewards are
            all equal gives its place to one of its task (dynamic sampling). 0: none.
        micro_batch: how much goes through the model at a time, in responses or in tokens.
        advantage_std: what divides the advantages: the group's standard deviation, over G
            ("population") or G - 1 ("sample"), or nothing ("none").
        truncated: what a response cut at max_new_tokens is worth: "judge" asks the verifier, "zero"
            is 0; "mask" asks the verifier, and the response counts in its group's mean but has an
            advantage of 0 itself.
        gradient_clip_norm: largest gradient norm of an update; 0 turns clipping off.
        evaluation: name -> how answers are drawn in validation and test; greedy by default.
        rollout: the engine that draws responses.
        correction: weighs tokens by policy over engine probability; for engines that round.
        kl: penalty for leaving a reference policy, added to the objective; off by default, as the
            paper has none. With it groups whose rewards are all equal are trained on, too.
        reference_path: the reference policy's folder or hub name; policy.path by default. With
            LoRA it is the base with the adapters off, else a second model in memory.
        optimizer: made from the trainable parameters.
        lr_scheduler: stepped once an update.
        seed: of every draw in the run.
        verifier_pool: judges in worker processes, within limits of time and memory; None: in here.
        samples_per_task: task -> samples of each prompt in validation and test, if not group_size.
        learning_rates: part (vision, merger, language) -> its own, not the optimizer's.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        objective: Objective = SAPO(),  # noqa: B008 (frozen)
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
        updates_per_iteration: int = 2,
        spare_prompts: int = 0,
        micro_batch: MicroBatch = MicroBatch(),  # noqa: B008 (frozen)
        advantage_std: Std = "population",
        truncated: Literal["judge", "zero", "mask"] = "judge",
        gradient_clip_norm: float = 1.0,
        evaluation: dict[str, Sampling] | None = None,
        rollout: RolloutEngine = Sampler(),  # noqa: B008 (frozen)
        correction: Correction | None = None,
        kl: KLPenalty = KLPenalty(),  # noqa: B008 (frozen)
        reference_path: str | None = None,
        optimizer: OptimizerCallable = adamw,
        lr_scheduler: LRSchedulerCallable = constant_lr,
        seed: int = 0,
        verifier_pool: VerifierPool | None = None,
        samples_per_task: dict[str, int] | None = None,
        learning_rates: dict[Part, float] | None = None,
    ) -> None:
        super().__init__(
            policy,
            evaluation,
            rollout,
            optimizer,
            lr_scheduler,
            seed,
            verifier_pool,
            samples_per_task,
            learning_rates,
        )
        check_training(sampling, updates_per_iteration)
        self.automatic_optimization = False
        self.objective = objective
        self.sampling = sampling
        self.updates_per_iteration = updates_per_iteration
        self.spare_prompts = spare_prompts
        self.micro_batch = micro_batch
        self.advantage_std: Std = advantage_std
        self.truncated = truncated
        self.gradient_clip_norm = gradient_clip_norm
        self.correction = correction
        self.kl = kl
        self.reference = Reference(policy, reference_path) if kl.beta else None

    @override
    def on_fit_start(self) -> None:
        super().on_fit_start()
        if self.reference is not None:
            self.reference.load(self.policy, self.trainer.strategy)
        warn_if_inert(self.updates_per_iteration)

    @property
    def iteration(self) -> int:
        """Iterations done so far, over resumes."""
        return self.trainer.global_step // self.updates_per_iteration

    @override
    def training_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, IterationOutput]:
        iteration, seconds = self.iteration, {"rollout": 0.0, "verify": 0.0}
        with ExitStack() as stack:
            with clock(seconds, "sync"):
                stack.enter_context(self.rollout.ready(self.policy, self.trainer.strategy))
            got = collect(
                batch, lambda part: self._draw(part, iteration, seconds), self.spare_prompts
            )
        advantage_PG = group_advantages(got.reward_PG, std=self.advantage_std)
        if self.truncated == "mask":
            advantage_PG = advantage_PG * got.rollout.finished_B.view_as(advantage_PG)
        scorer = RolloutScorer(
            self.policy,
            got.batch,
            got.rollout,
            self.sampling.temperature,
            self.micro_batch,
            self._most,
        )
        with clock(seconds, "old_logp"):
            scored_B = self._carrying(got.reward_PG).repeat_interleave(got.rollout.group_size)
            old_logp_BT = scorer.logp(scored_B)
        penalty = None
        if self.reference is not None:
            with clock(seconds, "reference"):
                penalty = self.reference.penalty(self.kl, self.objective.aggregation, scorer)
        weight_BT = None
        if self.correction is not None:
            weight_BT = self.correction(old_logp_BT, got.rollout.logp_BT, got.rollout.mask_BT)
        with clock(seconds, "update"):
            updates = [
                self._update(scorer, old_logp_BT, weight_BT, penalty, advantage_PG, prompts)
                for prompts in deal_prompts(
                    [p.task for p in got.batch.prompts], self.updates_per_iteration
                )
            ]
        output = IterationOutput(
            iteration=iteration,
            batch=got.batch,
            rollout=got.rollout,
            verdicts=got.verdicts,
            reward_PG=got.reward_PG,
            advantage_PG=advantage_PG,
            old_logp_BT=old_logp_BT,
            scored_BT=got.rollout.mask_BT & scored_B[:, None],
            weight_BT=weight_BT,
            updates=tuple(updates),
            replaced=got.replaced,
            extra=got.extra,
            seconds=seconds,
        )
        return {"iteration": output}

    def _draw(self, batch: PromptBatch, iteration: int, seconds: dict[str, float]) -> Judged:
        """Roll out and verify a batch."""
        with clock(seconds, "rollout"):
            rollout = self.rollout(self.policy, batch, self.sampling, (self.seed, iteration))
        with clock(seconds, "verify"):
            verdicts = judge(batch.prompts, rollout, self.verifier_pool)
            return rollout, verdicts, self._rewards(rollout, verdicts)

    def _rewards(self, rollout: Rollout, verdicts: tuple[Verdict, ...]) -> Tensor:
        # Named dtypes: under half precision Lightning makes bfloat16 the default.
        scores = [v.score for v in verdicts]
        score_B = torch.tensor(scores, dtype=torch.float32, device=self.device)
        if self.truncated == "zero":
            score_B = score_B * rollout.finished_B
        return score_B.view(-1, rollout.group_size)

    def _update(
        self,
        scorer: RolloutScorer,
        old_logp_BT: Tensor,
        weight_BT: Tensor | None,
        penalty: Penalty | None,
        advantage_PG: Tensor,
        prompts: list[int],
    ) -> UpdateOutput:
        """One optimizer step on the responses to ``prompts``."""
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        rows, denominator = self._rows_to_score(scorer.rollout, advantage_PG, prompts)
        advantage_B = advantage_PG.flatten()
        passes = scorer.passes(rows)
        loss = 0.0
        log_ratio_BT, gate_BT = torch.zeros_like(old_logp_BT), torch.zeros_like(old_logp_BT)
        for index, (part, counts) in enumerate(passes):
            with optimizer.toggle_model(sync_grad=index == len(passes) - 1):
                scores, mask_NT = scorer.score(part)
                t = mask_NT.shape[1]
                out = self.objective(
                    scores.logp_BT,
                    old_logp_BT[part, :t],
                    advantage_B[part],
                    mask_NT,
                    denominator=denominator,
                    weight_BT=None if weight_BT is None else weight_BT[part, :t],
                )
                if penalty is not None:
                    out = penalty.added_to(out, part, scores, mask_NT, denominator)
                self.manual_backward(out.loss if counts else out.loss * 0)
            if not counts:
                continue
            loss += float(out.loss.detach())
            log_ratio_BT[part, :t] = out.stats["log_ratio_BT"]
            gate_BT[part, :t] = out.stats["gate_BT"]
        lr = optimizer.param_groups[0]["lr"]
        grad_norm = self._step(optimizer)
        return UpdateOutput(
            loss=loss,
            grad_norm=grad_norm,
            lr=lr,
            advantage_N=advantage_B[rows],
            mask_NT=scorer.rollout.mask_BT[rows],
            log_ratio_NT=log_ratio_BT[rows],
            gate_NT=gate_BT[rows],
            kl_NT=None if penalty is None else penalty.kl_BT[rows],
        )

    def _rows_to_score(
        self, rollout: Rollout, advantage_PG: Tensor, prompts: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Rows whose gradient is not zero, and the units of this update, uniform groups' too.

        A group without gradient is not scored, but it still counts in the mean. One group always
        stays, since every rank has to run a backward pass. The units are the mean over ranks:
        data-parallel strategies average gradients.
        """
        g = advantage_PG.shape[1]
        units = self.objective.aggregation.units(rollout.mask_BT[rows_of(prompts, g)])
        denominator = self.trainer.strategy.reduce(units, reduce_op="mean")
        carrying = self._carrying(advantage_PG).tolist()
        kept = [p for p in prompts if carrying[p]] or prompts[:1]
        return rows_of(kept, g), denominator

    def _carrying(self, value_PG: Tensor) -> Tensor:
        """Groups (bool [P]) that carry a gradient: unequal rewards, or any under a KL penalty."""
        return informative_groups(value_PG) | (self.reference is not None)

    def _most(self, count: int) -> int:
        """The largest ``count`` of any rank."""
        own = torch.tensor(count, device=self.device)
        return int(self.trainer.strategy.reduce(own, reduce_op="max"))

    def _step(self, optimizer: Any) -> float:
        """Clip, step, schedule; returns the gradient norm before clipping."""
        norm = clip_and_step(self.trainer.strategy, self, optimizer, self.gradient_clip_norm)
        scheduler: Any = self.lr_schedulers()
        scheduler.step()
        return norm
