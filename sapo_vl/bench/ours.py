"""Our side: the policy's own scoring, sampler and SAPOModule, and nothing written for the bench."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from typing_extensions import override

from sapo_vl.bench.cases import PROMPTS_PER_ITERATION, Case, ModelSpec
from sapo_vl.bench.models import TOKEN_PIXELS
from sapo_vl.modules import SAPOModule
from sapo_vl.objectives import SAPO
from sapo_vl.policy import Policy, PolicyConfig, Scores
from sapo_vl.rollout import Sampler
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Sampling

# shared:   image and prompt once a group (the default)
# plain:    our fallback: the prompt once a response, the image still once; head on responses only
# repeated: image and prompt once a response, head on responses only: the best other trainers do
MODES = ("shared", "plain", "repeated")


def load_encoder(spec: ModelSpec, folder: Path, case: Case) -> Callable[[Prompt], PromptInputs]:
    """The data module's encoder for this model, found by the dotted path in ``spec``."""
    module, name = spec.encoder.rsplit(".", 1)
    pixels = (case.picture_side * TOKEN_PIXELS) ** 2
    encoder: Callable[[Prompt], PromptInputs] = getattr(importlib.import_module(module), name)(
        str(folder), max_prompt_tokens=case.prompt, min_pixels=pixels, max_pixels=pixels
    )
    return encoder


class Ours:
    """The parts of one iteration, each to be called alone.

    Raises:
        ValueError: an encoded prompt does not have the length of ``case``.
    """

    def __init__(self, spec: ModelSpec, folder: Path, case: Case, prompts: list[Prompt]) -> None:
        self.case, self.prompts = case, prompts
        self.encode = load_encoder(spec, folder, case)
        self.module = SAPOModule(
            PolicyConfig(path=str(folder), dtype=spec.dtype),  # type: ignore[arg-type]
            sampling=Sampling(group_size=case.group, max_new_tokens=case.response),
            updates_per_iteration=PROMPTS_PER_ITERATION,
        )
        self.module.configure_model()
        self.policy: Policy = self.module.policy
        self.batch = self._batch()
        lengths = [len(inputs.input_ids_S) for inputs in self.batch.inputs]
        if lengths != [case.prompt] * len(prompts):
            raise ValueError(f"prompts of {case.prompt} tokens were asked for, got {lengths}")

    def _batch(self) -> PromptBatch:
        return PromptBatch(self.prompts, [self.encode(p) for p in self.prompts], ["bench"])

    def score(self, mode: str, ids_BT: Tensor) -> Scores:
        """Score a group of responses to the first prompt."""
        first, rows = self.batch.inputs[0], len(ids_BT)
        prompts = [first] * rows if mode == "repeated" else [first]
        of_row_B = torch.arange(rows) % len(prompts)
        mask_BT = torch.ones_like(ids_BT, dtype=torch.bool)
        return self.policy.score(prompts, of_row_B, ids_BT, mask_BT, share_prefix=mode == "shared")

    def update(self, mode: str, ids_BT: Tensor) -> None:
        """Score, objective, backward; gradients are dropped again."""
        logp_BT = self.score(mode, ids_BT).logp_BT
        advantage_B = torch.linspace(-1, 1, len(ids_BT))
        mask_BT = torch.ones_like(ids_BT, dtype=torch.bool)
        SAPO()(logp_BT, logp_BT.detach(), advantage_B, mask_BT).loss.backward()
        self.policy.zero_grad(set_to_none=True)

    def old_logp(self, mode: str, ids_BT: Tensor) -> None:
        """Score without gradient, as before the first update."""
        with torch.no_grad():
            self.score(mode, ids_BT)

    def rollout(self, prompts: int = 1) -> Tensor:
        """Draw G responses of full length to each of the first prompts, int64 [prompts * G, C]."""
        batch = PromptBatch(self.prompts[:prompts], self.batch.inputs[:prompts], ["bench"])
        with self.full_length():
            drawn = Sampler()(self.policy, batch, self.module.sampling, (0,))
        return drawn.response_ids_BT

    def iteration(self) -> float:
        """Seconds of one whole iteration: encode, roll out, verify, old log-probs, updates.

        A data loader's workers encode ahead of need; here that is counted, too, since the peer does
        it within its step.
        """
        start = time.perf_counter()
        batch = self._batch()
        encoding = time.perf_counter() - start
        clock = _BatchClock()
        with warnings.catch_warnings(), self.full_length():
            warnings.simplefilter("ignore")
            _quiet_trainer(clock).fit(self.module, _one(batch))
        return encoding + clock.seconds

    def full_length(self) -> Any:
        """No response ends before its last token: the end-of-turn tokens are banned meanwhile."""
        return _Banned(self.policy, self.policy.eos_ids)


class _Banned:
    """Context in which some tokens are never sampled."""

    def __init__(self, policy: Policy, tokens: Sequence[int]) -> None:
        self.policy, self.tokens = policy, list(tokens)

    def __enter__(self) -> None:
        self.before = self.policy.banned_V[self.tokens].clone()
        self.policy.banned_V[self.tokens] = True

    def __exit__(self, *_: object) -> None:
        self.policy.banned_V[self.tokens] = self.before


class _BatchClock(Callback):
    """Seconds between the start and the end of a training batch, the Trainer's set-up left out."""

    seconds = 0.0

    @override
    def on_train_batch_start(self, *_: Any) -> None:
        self.started = time.perf_counter()

    @override
    def on_train_batch_end(self, *_: Any) -> None:
        self.seconds = time.perf_counter() - self.started


def _one(batch: PromptBatch) -> Any:
    return torch.utils.data.DataLoader([batch], batch_size=None)  # type: ignore[arg-type]


def _quiet_trainer(clock: Callback) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu",
        max_steps=PROMPTS_PER_ITERATION,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
