"""The reference policy of a KL penalty: what the policy was before training, or another model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sapo_vl.modules.scoring import RolloutScorer
from sapo_vl.objectives import Aggregation, KLPenalty
from sapo_vl.policy import Policy, PolicyConfig, Scores
from sapo_vl.strategies import held_frozen
from sapo_vl.types import LossOutput


class Penalty:
    """A KL penalty with the reference policy's log-probs [B, T] of an iteration's responses."""

    def __init__(self, kl: KLPenalty, aggregation: Aggregation, reference_logp_BT: Tensor) -> None:
        self.kl, self.aggregation = kl, aggregation
        self.reference_logp_BT = reference_logp_BT
        self.kl_BT = torch.zeros_like(reference_logp_BT)  # as last estimated, without beta

    def added_to(
        self, output: LossOutput, part: Tensor, scores: Scores, mask_NT: Tensor, denominator: Tensor
    ) -> LossOutput:
        """An objective's output for the rows ``part`` [N], with the penalty in its loss."""
        t = mask_NT.shape[1]
        term = self.kl(
            scores.logp_BT,
            self.reference_logp_BT[part, :t],
            mask_NT,
            aggregation=self.aggregation,
            denominator=denominator,
        )
        self.kl_BT[part, :t] = term.stats["kl_BT"]
        return replace(output, loss=output.loss + term.loss)


class Reference:
    """With LoRA the base, adapters off; else a second, frozen model, loaded as each fit starts.

    That model is no submodule of the LightningModule, on purpose: checkpoints, optimizer, export
    and data parallelism see the trained policy alone.

    Args:
        policy: the policy that trains.
        path: folder or hub name of the second model; None: ``policy.path``.

    Raises:
        ValueError: ``policy`` has LoRA and a path is given, or random weights and none is.
    """

    def __init__(self, policy: PolicyConfig, path: str | None) -> None:
        if policy.lora is not None and path is not None:
            raise ValueError(
                "model.reference_path: with policy.lora the reference policy is the base, "
                "policy.path with the adapters off; take model.reference_path out"
            )
        if policy.weights == "random" and path is None:
            raise ValueError(
                "model.kl: policy.weights is random, and what was drawn cannot be loaded a second "
                "time. Save it to a folder first, or set model.reference_path"
            )
        self.config = policy if path is None else replace(policy, path=path, weights="pretrained")
        self._second: Policy | None = None

    def load(self, policy: Policy, strategy: Any) -> None:
        """Load the second model, where there is one, beside ``policy`` on its device.

        Raises:
            FileNotFoundError: as ``Policy`` does.
            ValueError: it is of another family or reads other tokens than ``policy``.
        """
        if self.config.lora is not None:
            return
        dtype: Any = str(policy.model.dtype).removeprefix("torch.")  # a strategy may have cast it
        config = replace(self.config, dtype=dtype, freeze=[], gradient_checkpointing=False)
        self._second = None  # an earlier fit's
        self._second = held_frozen(strategy, policy, lambda: _frozen(config))
        _check_tokens(policy, self._second)

    def penalty(self, kl: KLPenalty, aggregation: Aggregation, scorer: RolloutScorer) -> Penalty:
        """The penalty of an iteration; scores all its responses with the reference policy."""
        return Penalty(kl, aggregation, self._logp(scorer))

    def _logp(self, scorer: RolloutScorer) -> Tensor:
        if self._second is None:
            with scorer.policy.reference():
                return scorer.logp()
        self._second.share_prefix = scorer.policy.share_prefix  # the parity check may turn it off
        return replace(scorer, policy=self._second).logp()


def _frozen(config: PolicyConfig) -> Policy:
    return Policy(config).requires_grad_(False).eval()


def _check_tokens(policy: Policy, second: Policy) -> None:
    own, other = policy.model.config.model_type, second.model.config.model_type
    if own != other:
        raise ValueError(
            f"model.reference_path is a {other} model, policy.path a {own} one; they must be of "
            "one family, which encodes images alike"
        )
    if policy.tokenizer.get_vocab() != second.tokenizer.get_vocab():
        raise ValueError(
            f"model.reference_path: {second.config.path} has another tokenizer than "
            f"{policy.config.path}, so that its log-probs are of other tokens"
        )
