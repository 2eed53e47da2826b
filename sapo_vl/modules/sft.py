"""SFTModule: the cold start. Worked responses as targets, cross-entropy on their tokens."""

from __future__ import annotations

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import override

from sapo_vl.modules.base import PolicyModule, adamw, constant_lr
from sapo_vl.policy import PolicyConfig
from sapo_vl.policy.config import Part
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.types import Prompt, PromptBatch, Sampling
from sapo_vl.verifiers import VerifierPool


class SFTModule(PolicyModule):
    """Supervised fine-tuning on the ``response`` of each sample; Lightning steps the optimizer.

    Args:
        policy: the model, its frozen parts, how it is run.
        evaluation: name -> how answers are drawn in validation and test; greedy by default.
        rollout: the engine that draws answers.
        optimizer: made from the trainable parameters.
        lr_scheduler: stepped once an optimizer step.
        seed: of every draw in the run.
        verifier_pool: judges in worker processes, within limits of time and memory; by default
            verifiers run in this process.
        samples_per_task: task -> samples of each of its prompts in validation and test, instead of
            the group_size of ``evaluation``.
        learning_rates: part (vision, merger, language) -> its learning rate, where it is not the
            optimizer's.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        evaluation: dict[str, Sampling] | None = None,
        rollout: RolloutEngine = Sampler(),  # noqa: B008 (frozen)
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

    @override
    def training_step(self, batch: PromptBatch, batch_idx: int) -> Tensor:
        target_ids_PT, mask_PT = self._targets(batch.prompts)
        own_prompt = torch.arange(len(batch), device=self.device)
        scores = self.policy.score(batch.inputs, own_prompt, target_ids_PT, mask_PT)
        # Strategies average over ranks; dividing by the ranks' mean count makes it a mean over all
        # tokens.
        tokens = self.trainer.strategy.reduce(mask_PT.sum().float(), reduce_op="mean")
        loss = -scores.logp_BT.sum() / tokens
        self.log("sft/loss", loss.detach(), prog_bar=True)
        self.log("sft/tokens", tokens)
        return loss

    def _targets(self, prompts: tuple[Prompt, ...]) -> tuple[Tensor, Tensor]:
        """Token ids of the worked responses, ended by the end of turn, and their mask [P, T]."""
        tokenizer, eos = self.policy.tokenizer, self.policy.eos_ids[0]
        rows = [
            torch.tensor([*tokenizer.encode(_response(p), add_special_tokens=False), eos])
            for p in prompts
        ]
        ids_PT = pad_sequence(rows, batch_first=True, padding_value=self.policy.pad_id)
        lengths = torch.tensor([len(row) for row in rows])
        mask_PT = torch.arange(ids_PT.shape[1]) < lengths[:, None]
        return ids_PT.to(self.device), mask_PT.to(self.device)


def _response(prompt: Prompt) -> str:
    if prompt.response is None:
        raise ValueError(
            f"sample {prompt.key} has no `response` in its JSON; supervised fine-tuning needs one "
            "in every sample of its tasks"
        )
    return prompt.response
