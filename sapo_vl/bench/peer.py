"""TRL's side: its GRPOTrainer with loss_type="sapo" as it runs here. Nothing of it is rewritten.

TRL is optional: it is imported when a Peer is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from sapo_vl.bench.cases import PROMPTS_PER_ITERATION, Case, ModelSpec
from sapo_vl.bench.prompts import checksum_reward
from sapo_vl.types import Prompt

DIFFERENCES = (
    "TRL repeats the image and the prompt for every response: in generation, in the old-log-prob "
    "pass and in every update.",
    "On a CPU TRL puts the head on all positions; on CUDA (Triton) on response positions only. So "
    "the 'repeated' column, head on responses only, is the fairer figure for a GPU.",
    "TRL runs the processor twice per response (for generation and for training).",
    "TRL shuffles the responses of a generation over its updates; we keep a group together.",
    "gradient_checkpointing is off on both sides (TRL's default is on, which is slower).",
    "Where logits of a whole group would exceed 2 GiB, TRL takes the group in several passes and "
    "accumulates their gradients; ours takes it in one.",
)
LOGITS_LIMIT = 2 * 2**30  # bytes; an update of TRL's holds several tensors of this size at once


class PeerError(Exception):
    """TRL cannot be measured here; the message says why."""


class Peer:
    """TRL's parts of one iteration, each to be called alone.

    Raises:
        PeerError: TRL is missing or does not start.
    """

    def __init__(
        self, spec: ModelSpec, folder: Path, case: Case, prompts: list[Prompt], workspace: Path
    ) -> None:
        self.case = case
        try:
            self.trainer: Any = _make_trainer(spec, folder, case, prompts, workspace)
        except ImportError as error:
            raise PeerError(
                f"TRL is not installed ({error}); install it with: pip install 'sapo-vl[bench]'"
            ) from error
        self.model: Any = self.trainer.model
        # Set by its training loop, which an update alone does not enter.
        self.passes = case.group // self.trainer.args.per_device_train_batch_size
        self.trainer.current_gradient_accumulation_steps = self.passes
        self.rows = [self.trainer.train_dataset[0]] * case.group
        self.inputs: dict[str, Any] = {}  # what TRL prepared for an update; see prepare

    def prepare(self) -> Tensor:
        """Let TRL generate and prepare a group to the first prompt; returns its tokens [G, C]."""
        self.model.train()
        self.inputs = self.trainer._generate_and_score_completions(self.rows)
        ids_BT: Tensor = self.inputs["completion_ids"]
        return ids_BT

    def logps(self) -> Tensor:
        """Log-probs of the prepared group by the pass TRL makes before its updates, [G, C]."""
        prompt, response = self.inputs["prompt_ids"], self.inputs["completion_ids"]
        mask = [self.inputs["prompt_mask"], self.inputs["completion_mask"]]
        media = {
            name: self.inputs[name]
            for name in ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
            if name in self.inputs
        }
        logps: Tensor
        with torch.no_grad():
            logps, _, _ = self.trainer._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([prompt, response], dim=1),
                torch.cat(mask, dim=1),
                response.shape[1],
                batch_size=self.trainer.args.per_device_train_batch_size,
                **media,
            )
        return logps

    def update(self) -> None:
        """TRL's training_step on every pass of the prepared group; gradients are dropped again."""
        self.accumulate()
        self.model.zero_grad(set_to_none=True)

    def accumulate(self) -> None:
        """Leave the gradient of the prepared group in the model."""
        from trl.trainer import utils

        group: Any = utils.split_pixel_values_by_grid(self.inputs)
        parts: Any = utils.split_tensor_dict(group, self.passes)
        parts = map(utils.unsplit_pixel_values_by_grid, parts)
        # TRL generates at step 0 of each round and takes later steps from this buffer.
        self.trainer._step = self.passes
        self.trainer._buffered_inputs = list(parts) * PROMPTS_PER_ITERATION
        for _ in range(self.passes):
            self.trainer.training_step(self.model, {}, None)

    def generation_inputs(self) -> tuple[Any, ...]:
        """What TRL's generation takes for a group: token ids, images, pixels, group size."""
        from trl.data_utils import prepare_multimodal_messages

        prompts = [
            prepare_multimodal_messages(row["prompt"], images=[row["image"]]) for row in self.rows
        ]
        return (*self.trainer._tokenize_prompts(prompts), self.case.group)

    def rollout(self, inputs: tuple[Any, ...]) -> None:
        """TRL's generation of a group, every response of full length."""
        self.trainer._generate_single_turn(*inputs)

    def iteration(self) -> float:
        """Seconds of TRL's whole step: process, generate, reward, old log-probs, updates."""
        clock = _step_clock()
        self.trainer._step, self.trainer._buffered_inputs = 0, None
        self.trainer.add_callback(clock)
        try:
            self.trainer.train()
        finally:
            self.trainer.remove_callback(clock)
        return float(clock.ended - clock.started)


def rows_of_pass(case: Case, vocabulary: int) -> int:
    """Responses that TRL takes at once: the largest divisor of G whose logits stay in the limit."""
    row = (case.prompt + case.response) * vocabulary * 4  # float32
    return max((n for n in _divisors(case.group) if n * row <= LOGITS_LIMIT), default=1)


def _divisors(number: int) -> Iterator[int]:
    return (n for n in range(1, number + 1) if number % n == 0)


def _make_trainer(
    spec: ModelSpec, folder: Path, case: Case, prompts: list[Prompt], workspace: Path
) -> Any:
    import transformers
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    logging.getLogger("trl").setLevel(logging.ERROR)
    transformers.utils.logging.set_verbosity_error()
    rows = rows_of_pass(case, spec.vocabulary)
    passes = case.group // rows
    arguments = GRPOConfig(
        output_dir=str(workspace),
        model_init_kwargs={"dtype": spec.dtype},
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=rows,
        num_generations=case.group,
        steps_per_generation=PROMPTS_PER_ITERATION * passes,
        gradient_accumulation_steps=passes,
        max_steps=PROMPTS_PER_ITERATION,
        max_completion_length=case.response,
        generation_kwargs={"min_new_tokens": case.response},
        loss_type="sapo",
        beta=0.0,
        learning_rate=1e-6,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=_reward,
        args=arguments,
        train_dataset=Dataset.from_list([_row(prompt) for prompt in prompts]),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _row(prompt: Prompt) -> dict[str, Any]:
    """A prompt as TRL's data sets hold it."""
    image = Image.open(BytesIO(prompt.images[0]))
    return {"prompt": [dict(message) for message in prompt.messages], "image": image}


def _reward(completions: list[list[dict[str, str]]], **_: Any) -> list[float | None]:
    return [checksum_reward(turns[0]["content"]) for turns in completions]


def _step_clock() -> Any:
    from transformers import TrainerCallback

    class StepClock(TrainerCallback):
        """From the start of the first optimizer step to the end of the last."""

        started = ended = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.started = self.started or time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ended = time.perf_counter()

    return StepClock()
