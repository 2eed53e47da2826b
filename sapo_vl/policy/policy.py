"""One class over the Hugging Face models: prefill prompts, continue them, score responses.

The rollout and the scorer share ``prefill``, ``forward_tokens`` and ``log_probs``, so that what
samples is what trains. Shape letters: P prompts, G group size, B rows, T response tokens, S prompt
tokens, V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from typing_extensions import override

from sapo_vl.policy.config import PolicyConfig
from sapo_vl.policy.head import TokenStats, masked_log_softmax
from sapo_vl.policy.inputs import encode_media, join_right, pad_left, vision_anchor
from sapo_vl.policy.loading import load_config, load_model
from sapo_vl.policy.parts import freeze
from sapo_vl.processor import load_processor
from sapo_vl.types import PromptInputs

log = logging.getLogger(__name__)

VISION_IDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probs and entropies of response tokens, float32, 0 where masked."""

    logp_BT: Tensor
    entropy_BT: Tensor  # without gradient


@dataclass(slots=True)
class Prefix:
    """Prompts that the model has read: the key-value cache and what is needed to go on."""

    cache: Any
    mask: Tensor  # int64 [rows, S]
    next_position: Tensor  # int64 [rows]
    last_hidden: Tensor  # [rows, D]: predicts the first response token

    def select(self, rows: Tensor) -> None:
        """Keep, repeat or reorder rows in place; differentiable."""
        self.cache.reorder_cache(rows)
        self.mask = self.mask[rows]
        self.next_position = self.next_position[rows]
        self.last_hidden = self.last_hidden[rows]


class Policy(nn.Module):
    """A Qwen2.5-VL, Qwen3-VL, Qwen3-VL-MoE or Qwen3.5 model with its processor.

    Raises:
        FileNotFoundError: no such folder, no config, no weights, no processor.
        ValueError: an unsupported family, weights that do not fit, or every part frozen.
    """

    banned_V: Tensor

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        load_config(config.path)  # before the processor: another family's has other files
        self.processor = load_processor(config.path)
        self.model: Any = load_model(config)
        freeze(self.model, config.freeze)
        self.tokenizer = self.processor.tokenizer
        self.eos_ids = _eos_ids(self.model, self.tokenizer)
        self.pad_id: int = next(
            i for i in (self.tokenizer.pad_token_id, self.eos_ids[0]) if i is not None
        )
        self.token_stats = TokenStats()
        self.share_prefix = config.share_prefix and self._can_share_prefix()
        self.register_buffer("banned_V", self._banned(), persistent=False)

    @property
    def backbone(self) -> Any:
        """The model without its head."""
        return self.model.model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.banned_V.device

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Policy:
        """Move or cast everything, but leave the rotary frequencies in float32.

        transformers keeps them so when it loads half-precision weights; a trainer that casts the
        module would round them, and shift every position's phase by its share of a bfloat16 step.
        """
        names = ("inv_freq", "original_inv_freq")
        exact = [(m, k, getattr(m, k)) for m in self.modules() for k in names if k in m._buffers]
        super()._apply(fn, recurse)
        for module, name, frequencies in exact:
            setattr(module, name, frequencies.to(getattr(module, name).device))
        return self

    def save_pretrained(self, folder: str | Path) -> None:
        """Write weights, config and processor in Hugging Face layout."""
        self.model.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def prefill(self, prompts: Sequence[PromptInputs]) -> Prefix:
        """Read each prompt once (its images too) and keep the key-value cache."""
        padded = pad_left(self.backbone, prompts, self.pad_id)
        cache = DynamicCache(config=self.model.config)
        output = self.backbone(
            input_ids=padded.input_ids,
            attention_mask=padded.mask,
            position_ids=padded.positions,
            mm_encoder_outputs=encode_media(self.backbone, prompts, range(len(prompts))),
            cache=cache,
            use_cache=True,
        )
        return Prefix(cache, padded.mask, padded.next_position, output.last_hidden_state[:, -1])

    def forward_tokens(self, prefix: Prefix, token_ids: Tensor, mask: Tensor) -> Tensor:
        """Read the next tokens of every row after ``prefix``, which grows in place.

        ``mask`` [rows, t] marks the real tokens; padding may only follow them. Returns the hidden
        states [rows, t, D].
        """
        prefix.mask = torch.cat([prefix.mask, mask.long()], dim=1)
        steps = torch.arange(token_ids.shape[1], device=token_ids.device)
        positions = prefix.next_position[:, None] + steps
        prefix.next_position = prefix.next_position + token_ids.shape[1]
        output = self.backbone(
            input_ids=token_ids,
            attention_mask=prefix.mask,
            position_ids=positions.expand(3, -1, -1),
            cache=prefix.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def log_probs(self, hidden: Tensor, temperature: float) -> Tensor:
        """Next-token log-probs of the distribution that is sampled and trained, [rows, V]."""
        return masked_log_softmax(self.model.lm_head(hidden), temperature, self.banned_V)

    def score(
        self,
        prompts: Sequence[PromptInputs],
        prompt_of_row_B: Tensor,
        response_ids_BT: Tensor,
        mask_BT: Tensor,
        temperature: float = 1.0,
        *,
        share_prefix: bool | None = None,
    ) -> Scores:
        """Log-probs and entropy of responses under the sampling temperature, with gradient.

        Args:
            prompts: the distinct prompts, each used by one or more rows.
            prompt_of_row_B: int64; the prompt of each row.
            response_ids_BT: int64; padded on the right, with anything.
            mask_BT: bool; True on response tokens.
            temperature: that of the rollout; 0 (greedy) is scored at 1.
            share_prefix: overrides the policy's own choice.
        """
        share = self.share_prefix if share_prefix is None else share_prefix
        hidden = self._hidden_shared if share else self._hidden_plain
        # A vision placeholder left in the padding would break the forward pass.
        ids_BT = response_ids_BT.masked_fill(~mask_BT, self.pad_id)
        # Ranks with images and ranks without have to call the same modules in the same order: the
        # tower first, once, even where it is frozen, then the language model.
        text_alone = not any(prompt.media for prompt in prompts)
        anchor = vision_anchor(self.backbone) if text_alone else 0
        hidden_BTD = hidden(prompts, prompt_of_row_B, ids_BT, mask_BT) + anchor
        logp, entropy = self.token_stats(
            hidden_BTD[mask_BT],
            ids_BT[mask_BT],
            head=self.model.lm_head,
            temperature=temperature or 1.0,
            banned_V=self.banned_V,
            chunk_tokens=self.config.head_chunk_tokens,
        )
        zeros = logp.new_zeros(mask_BT.shape)
        return Scores(zeros.masked_scatter(mask_BT, logp), zeros.masked_scatter(mask_BT, entropy))

    def _hidden_shared(
        self, prompts: Sequence[PromptInputs], rows: Tensor, ids_BT: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Hidden states that predict each response token.

        Prompts are read once and their cache is repeated over the group.
        """
        prefix = self.prefill(prompts)
        prefix.select(rows)
        first, t = prefix.last_hidden[:, None], ids_BT.shape[1]
        ahead = max(1, t - 1)  # one token at least: every rank has to make the same calls
        rest = self.forward_tokens(prefix, ids_BT[:, :ahead], mask_BT[:, :ahead])
        return torch.cat([first, rest], dim=1)[:, :t]

    def _hidden_plain(
        self, prompts: Sequence[PromptInputs], rows: Tensor, ids_BT: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """The same by one forward over whole sequences: slower, works for every model."""
        padded = join_right(self.backbone, prompts, rows, ids_BT, mask_BT, self.pad_id)
        output = self.backbone(
            input_ids=padded.input_ids,
            attention_mask=padded.mask,
            position_ids=padded.positions,
            mm_encoder_outputs=encode_media(self.backbone, prompts, rows.tolist()),
            use_cache=False,
        )
        start_B = torch.tensor([len(p.input_ids_S) for p in prompts], device=rows.device)[rows] - 1
        index_BT = start_B[:, None] + torch.arange(ids_BT.shape[1], device=rows.device)
        hidden = output.last_hidden_state
        return hidden.gather(1, index_BT[..., None].expand(-1, -1, hidden.shape[-1]))

    def _can_share_prefix(self) -> bool:
        text = self.model.config.text_config
        if "linear_attention" in (getattr(text, "layer_types", None) or []):
            log.info(
                "share_prefix: off, %s has linear-attention layers", self.model.config.model_type
            )
            return False
        if self.config.gradient_checkpointing:
            log.info("share_prefix: off, gradient checkpointing does not keep a cache")
            return False
        return True

    def _banned(self) -> Tensor:
        """Ids that are never sampled, bool [V].

        Vision placeholders (a sampled one breaks the next forward pass) and ids beyond the
        tokenizer's last (the embedding is padded to a round size).
        """
        config = self.model.config
        banned = torch.zeros(config.text_config.vocab_size, dtype=torch.bool)
        banned[len(self.tokenizer) :] = True
        for name in VISION_IDS:
            token = getattr(config, name, None)
            if token is not None:
                banned[token] = True
        return banned


def _eos_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    declared = model.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    found = tuple(dict.fromkeys(i for i in [*ids, tokenizer.eos_token_id] if i is not None))
    if not found:
        raise ValueError(
            "the model folder names no end-of-turn token; "
            "set eos_token_id in its generation_config.json"
        )
    return found
