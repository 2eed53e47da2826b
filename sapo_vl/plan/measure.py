"""Check the activation formulas: what autograd keeps, and the most that is allocated at a time.

Both are counted, not sampled: the storages that autograd holds between forward and backward, and
every allocation of torch in one update. CPUs and GPUs save the same tensors but for the copies of
keys that a masked attention takes on a GPU. (The resident memory of a CPU process rises further, as
malloc keeps blocks that were freed.)
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from sapo_vl.bench.models import character_tokenizer
from sapo_vl.objectives import SAPO
from sapo_vl.plan.activations import Activations, MicroBatchSize, Scoring, update_activations
from sapo_vl.plan.shape import Shape
from sapo_vl.plan.small import Small, shrink
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.build import build_model
from sapo_vl.policy.config import Dtype, Part
from sapo_vl.types import PromptInputs

TEXT_IDS = range(20, 500)  # past the special tokens of the character tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One update to measure: ``Trial(architecture={...}, small=Small(hidden=128, layers=4))``."""

    architecture: dict[str, Any]  # contents of a published config.json
    small: Small
    dtype: Dtype = "float32"
    freeze: tuple[Part, ...] = ()
    checkpointing: bool = False
    packed: bool = False  # the prompt once for all rows
    rows: int = 4
    prompt_tokens: int = 160
    response_tokens: int = 96
    side: int = 8  # of the image, in tokens
    head_chunk: int = 8192

    @property
    def scoring(self) -> Scoring:
        """The same as the formulas take it."""
        return Scoring(
            size=4 if self.dtype == "float32" else 2,
            checkpointing=self.checkpointing,
            head_chunk=self.head_chunk,
            trains_vision="vision" not in self.freeze,
            trains_merger="merger" not in self.freeze,
            copies_keys=False,  # a CPU's kernels group heads, mask or not
        )

    @property
    def batch(self) -> MicroBatchSize:
        """The micro-batch: one prompt, its rows repeated."""
        return MicroBatchSize(
            prompts=1,
            rows=self.rows,
            prompt_tokens=self.prompt_tokens,
            response_tokens=self.response_tokens,
            image_tokens=self.side**2,
            packed=self.packed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Bytes as estimated and as measured."""

    estimated: int
    measured: int

    @property
    def error(self) -> float:
        """Relative to what was measured: 0.1 is an estimate 10 % too high."""
        return self.estimated / self.measured - 1


class Update:
    """A small policy and one micro-batch for it."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        content = shrink(trial.architecture, trial.small)
        with TemporaryDirectory() as folder:
            tokenizer = character_tokenizer(trial.small.vocabulary)
            build_model(content, tokenizer, folder, min_pixels=1024, max_pixels=2**20)
            self.policy = Policy(
                PolicyConfig(
                    path=folder,
                    dtype=trial.dtype,
                    freeze=list(trial.freeze),
                    share_prefix=trial.packed,
                    gradient_checkpointing=trial.checkpointing,
                    head_chunk_tokens=trial.head_chunk,
                )
            )
        self.shape = Shape.of(self.policy.model.config)
        draw = torch.Generator().manual_seed(0)
        self.prompt = self._prompt(draw)
        size = (trial.rows, trial.response_tokens)
        self.ids_BT = torch.randint(TEXT_IDS.start, TEXT_IDS.stop, size, generator=draw)

    def _prompt(self, draw: torch.Generator) -> PromptInputs:
        trial, config = self.trial, self.policy.model.config
        vision, tokens = self.shape.vision, self.trial.side**2
        ids_S = torch.randint(TEXT_IDS.start, TEXT_IDS.stop, (trial.prompt_tokens,), generator=draw)
        kinds_S = torch.zeros_like(ids_S)
        ids_S[2] = config.vision_start_token_id
        ids_S[3 : 3 + tokens] = config.image_token_id
        kinds_S[3 : 3 + tokens] = 1
        patches = (tokens * vision.merge**2, 3 * vision.temporal * vision.patch**2)
        sides = trial.side * vision.merge
        return PromptInputs(
            input_ids_S=ids_S,
            mm_token_type_ids_S=kinds_S,
            media={
                "pixel_values": torch.randn(patches, generator=draw).to(self.policy.model.dtype),
                "image_grid_thw": torch.tensor([[1, sides, sides]]),
            },
        )

    def loss(self) -> Tensor:
        """The paper's loss on the policy's own scores."""
        rows_B = torch.zeros(self.trial.rows, dtype=torch.long)
        mask_BT = torch.ones_like(self.ids_BT, dtype=torch.bool)
        logp_BT = self.policy.score([self.prompt], rows_B, self.ids_BT, mask_BT).logp_BT
        advantage_B = torch.linspace(-1, 1, self.trial.rows)
        return SAPO()(logp_BT, logp_BT.detach(), advantage_B, mask_BT).loss

    def estimate(self) -> Activations:
        """What the formulas say of it."""
        return update_activations(self.shape, self.trial.batch, self.trial.scoring)


def compare_saved(trial: Trial) -> Comparison:
    """What autograd keeps in one forward pass, against the formulas."""
    update = Update(trial)
    estimate = update.estimate()
    head = trial.batch.scored * update.shape.text.vocabulary * 4  # probabilities, one chunk
    return Comparison(estimated=estimate.saved + head, measured=saved_bytes(update))


def saved_bytes(update: Update) -> int:
    """Bytes of the storages that autograd keeps in one forward pass, weights left out."""
    weights = [*update.policy.parameters(), *update.policy.buffers()]
    own = {tensor.untyped_storage().data_ptr() for tensor in weights}
    kept: dict[int, Any] = {}  # holds the storages, so that no address comes twice

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        update.loss()
    return sum(storage.nbytes() for storage in kept.values())


def compare_peak(trial: Trial) -> Comparison:
    """The most that torch allocates in an update above what was there, against the formulas.

    The gradients are there: it is the second of two micro-batches.
    """
    update = Update(trial)
    update.loss().backward()
    return Comparison(estimated=update.estimate().peak, measured=allocated_bytes(update))


def allocated_bytes(update: Update) -> int:
    """The most bytes that one forward and backward pass has allocated at a time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        update.loss().backward()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
