"""Parity check: does what samples agree with what trains? Asked once, before the first iteration.

Most silent failures of VLM reinforcement learning show here: images lost on one side, other
positions, another temperature, weights that were not loaded.
"""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import Tensor
from typing_extensions import override

from sapo_vl.policy import Policy
from sapo_vl.policy.inputs import PIXELS, pad_left, prompt_positions
from sapo_vl.rollout.engine import TOLERANCE, compute_dtype, tolerance_of
from sapo_vl.strategies import together
from sapo_vl.types import PromptBatch, PromptInputs, Sampling


class ParityCheck(L.Callback):
    """Compare sampler and scorer on a few prompts of the first batch; stop when they disagree.

    Args:
        prompts: how many prompts to look at; the ones with most media tokens are taken.
        max_new_tokens: length of the sampled responses.
        temperature: of the sampled responses.
        tolerance: largest |difference of log-probs|; by default that of the dtypes computed in.
        fall_back: where scoring with a shared prefix is what disagrees, go on without it, with a
            warning, rather than stop.

    Raises:
        RuntimeError: log-probs, media token counts or positions disagree; the message says which.
    """

    def __init__(
        self,
        prompts: int = 4,
        max_new_tokens: int = 16,
        temperature: float = 1.0,
        tolerance: float | None = None,
        fall_back: bool = True,
    ) -> None:
        self.prompts = prompts
        self.sampling = Sampling(
            group_size=2, temperature=temperature, max_new_tokens=max_new_tokens
        )
        self.tolerance = tolerance
        self.fall_back = fall_back
        self.done = False

    @override
    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.done = False

    @override
    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: Any, batch: PromptBatch, batch_idx: int
    ) -> None:
        if self.done:
            return
        self.done = True
        with trainer.precision_plugin.train_step_context():  # compute as an iteration does
            self._check(pl_module, batch)

    def _check(self, pl_module: Any, batch: PromptBatch) -> None:
        policy: Policy = pl_module.policy
        with together(pl_module.trainer.strategy):
            for prompt, inputs in zip(batch.prompts, batch.inputs, strict=True):
                _check_media_tokens(policy, inputs, prompt.key)
            part = self._part(batch)
            _check_positions(policy, part.inputs)
        tolerance = self.tolerance or TOLERANCE[compute_dtype(policy)]
        figures = self._compare(pl_module, part)
        if (
            self.fall_back
            and policy.share_prefix
            and not figures["parity/shared_plain"] <= tolerance
        ):
            rank_zero_warn(
                "parity check: scoring with a shared prefix differs from plain scoring by "
                f"{figures['parity/shared_plain']:.2e}; "
                "going on with plain scoring, which is slower"
            )
            policy.share_prefix = False
            figures = self._compare(pl_module, part)
        pl_module.log_dict(figures)
        limits = {
            "parity/sampler_scorer": self.tolerance or tolerance_of(pl_module.rollout, policy),
            "parity/shared_plain": tolerance,
        }
        lines = ", ".join(f"{n} {v:.1e} (tolerance {limits[n]:.0e})" for n, v in figures.items())
        rank_zero_info(f"parity check on {len(part)} prompts: {lines}")
        # `not <=` also catches NaN.
        wrong = {name: v for name, v in figures.items() if not v <= limits[name]}
        if wrong:
            raise RuntimeError(_explain(wrong, limits, policy))

    def _part(self, batch: PromptBatch) -> PromptBatch:
        media = [int((x.mm_token_type_ids_S > 0).sum()) for x in batch.inputs]
        order = sorted(range(len(batch)), key=lambda i: -media[i])[: self.prompts]
        return PromptBatch(
            [batch.prompts[i] for i in order], [batch.inputs[i] for i in order], batch.tasks
        )

    @torch.no_grad()
    def _compare(self, module: Any, part: PromptBatch) -> dict[str, float]:
        """The largest differences over all ranks, so that they come to the same decision."""
        policy: Policy = module.policy
        strategy = module.trainer.strategy
        with module.rollout.ready(policy, strategy):
            drawn = module.rollout(policy, part, self.sampling, (module.seed, 0))
        rows = torch.arange(len(part), device=policy.device).repeat_interleave(drawn.group_size)
        args = (part.inputs, rows, drawn.response_ids_BT, drawn.mask_BT)
        used = policy.score(*args, self.sampling.temperature).logp_BT
        plain = policy.score(*args, self.sampling.temperature, share_prefix=False).logp_BT
        differences = {
            "parity/sampler_scorer": used - drawn.logp_BT,
            "parity/shared_plain": used - plain,
        }
        return {
            name: float(strategy.reduce(difference.abs().max(), reduce_op="max"))
            for name, difference in differences.items()
        }


def _check_media_tokens(policy: Policy, inputs: PromptInputs, key: str) -> None:
    """Placeholders in the ids must be as many as the grid makes features."""
    merge = policy.model.config.vision_config.spatial_merge_size**2
    for kind, (pixels, (name, grid)) in enumerate(PIXELS.items(), start=1):
        features = int(inputs.media[grid].prod(-1).sum()) // merge if pixels in inputs.media else 0
        tokens = int((inputs.mm_token_type_ids_S == kind).sum())
        if tokens != features:
            raise RuntimeError(
                f"parity check: prompt {key} has {tokens} {name} tokens, its grid makes "
                f"{features} features. "
                "Is the processor that of the model (data.processor, patch and merge size)?"
            )


def _check_positions(policy: Policy, inputs: tuple[PromptInputs, ...]) -> None:
    """M-RoPE positions of a prompt alone must be those it gets inside a padded, repeated batch."""
    group = [x for x in inputs for _ in range(2)]
    padded = pad_left(policy.backbone, group, policy.pad_id)
    grids: dict[str, Tensor] = {}
    for key in {k for x in group for k in x.media if k not in PIXELS}:
        grids[key] = torch.cat([x.media[key] for x in group if key in x.media])
    types = torch.zeros_like(padded.input_ids)
    for row, x in enumerate(group):
        types[row, types.shape[1] - len(x.input_ids_S) :] = x.mm_token_type_ids_S
    batched, _ = policy.backbone.get_rope_index(
        input_ids=padded.input_ids,
        mm_token_type_ids=types,
        attention_mask=padded.mask,
        **grids,
    )
    for row, x in enumerate(group):
        own = batched[:, row, batched.shape[2] - len(x.input_ids_S) :]
        if not torch.equal(own, prompt_positions(policy.backbone, x)):
            raise RuntimeError(
                "parity check: M-RoPE positions of a prompt differ between a batch of its group "
                "and the prompt alone; the installed transformers computes them differently"
            )


def _explain(wrong: dict[str, float], limits: dict[str, float], policy: Policy) -> str:
    tolerance = max(limits[name] for name in wrong)
    lines = [f"parity check failed (tolerance {tolerance:.1e}, in {compute_dtype(policy)}):"]
    if "parity/sampler_scorer" in wrong:
        lines.append(
            "- log-probs of the sampler and of the scorer differ by "
            f"{wrong['parity/sampler_scorer']:.2e}: the rollout does not come from the policy that "
            "is trained. Look at the rollout engine's weights, temperature and image inputs."
        )
    if "parity/shared_plain" in wrong:
        lines.append(
            "- scoring with a shared prefix differs from plain scoring by "
            f"{wrong['parity/shared_plain']:.2e}: set model.policy.share_prefix to false."
        )
    return "\n".join(lines)
