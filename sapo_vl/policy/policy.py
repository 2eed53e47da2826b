"""One class over the Hugging Face models: prefill prompts, continue them, score responses.

The rollout reads with ``prefill`` and a ``Decoder``, ``score`` in one forward over whole responses;
both run the same layers, positions and distribution, and the parity check compares them. Shape
letters: P prompts, G group size, B rows, T response tokens, M response tokens that are scored,
S prompt tokens, V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from typing_extensions import override

from sapo_vl.policy.attention import install_shared_prefix, share_prefix_arguments
from sapo_vl.policy.config import PolicyConfig
from sapo_vl.policy.decoding import Decoder, GroupDecoder, Prefix, RowDecoder
from sapo_vl.policy.head import TokenStats, masked_log_softmax
from sapo_vl.policy.inputs import encode_media, join_right, pad_left, vision_anchor
from sapo_vl.policy.loading import load_config, load_model
from sapo_vl.policy.lora import adapters_off, float32_adapters
from sapo_vl.policy.packing import pack
from sapo_vl.policy.patches import multiply_patches
from sapo_vl.processor import load_processor
from sapo_vl.types import PromptInputs

log = logging.getLogger(__name__)

VISION_IDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probs and entropies of response tokens, float32, 0 where masked."""

    logp_BT: Tensor
    entropy_BT: Tensor  # without gradient


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
        self.tokenizer = self.processor.tokenizer
        self.eos_ids = _eos_ids(self.model, self.tokenizer)
        self.pad_id: int = next(
            i for i in (self.tokenizer.pad_token_id, self.eos_ids[0]) if i is not None
        )
        self.token_stats = TokenStats()
        self.unshared_layers = _unshared_layers(self.model.config)
        self.share_prefix = config.share_prefix and not self.unshared_layers
        if config.share_prefix and self.unshared_layers:
            log.info(
                "share_prefix: off, %s has layers of %s",
                self.backbone.config.model_type,
                ", ".join(self.unshared_layers),
            )
        install_shared_prefix(self.backbone.language_model)
        multiply_patches(self.backbone.visual)
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
        """Move or cast everything, but leave rotary frequencies and adapters in float32.

        transformers keeps the frequencies so when it loads half-precision weights; a trainer that
        casts the module would round them, and shift every position's phase by its share of a
        bfloat16 step. Adapters would be rounded each time a run goes on: it casts after loading.
        """
        names = ("inv_freq", "original_inv_freq")
        exact = [(m, k, getattr(m, k)) for m in self.modules() for k in names if k in m._buffers]
        adapters = [(p, p.data) for p in float32_adapters(self)]
        super()._apply(fn, recurse)
        for parameter, value in adapters:
            if _has_values(value, parameter):
                parameter.data = value.to(parameter.device)
        for module, name, frequencies in exact:
            if _has_values(frequencies, now := getattr(module, name)):
                setattr(module, name, frequencies.to(now.device))
        return self

    @contextmanager
    def reference(self) -> Iterator[None]:
        """The model as it was before training, for the time of a ``with`` block: adapters off.

        Raises:
            ValueError: the policy has no adapters.
        """
        if self.config.lora is None:
            raise ValueError(
                "policy.lora is not set: the base weights themselves train, and nothing keeps what "
                "they were. Load policy.path a second time for a reference."
            )
        with adapters_off(self.model):
            yield

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

    def decoder(
        self, prompts: Sequence[PromptInputs], prompt_B: Tensor, max_tokens: int
    ) -> Decoder:
        """Read each prompt once (its images too), ready to be continued by its rows.

        Args:
            prompts: the distinct prompts.
            prompt_B: int64; the prompt of each row.
            max_tokens: most tokens that will be read of a row.
        """
        prefix, text_model = self.prefill(prompts), self.backbone.language_model
        if self.unshared_layers:
            return RowDecoder(text_model, prefix, prompt_B)
        return GroupDecoder(text_model, prefix, prompt_B, max_tokens)

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

        Raises:
            ValueError: a response holds a placeholder of vision features, or ``share_prefix`` is
                asked of a model whose layers cannot share.
        """
        share = self.share_prefix if share_prefix is None else share_prefix
        if share and self.unshared_layers:
            raise ValueError(
                f"share_prefix: layers of {', '.join(self.unshared_layers)} cannot share a prompt"
            )
        # A vision placeholder left in the padding would break the forward pass.
        ids_BT = response_ids_BT.masked_fill(~mask_BT, self.pad_id)
        self._refuse_placeholders(ids_BT)
        hidden = self._hidden_shared if share else self._hidden_plain
        # Ranks with images and ranks without have to call the same modules in the same order: the
        # tower first, once, even where it is frozen, then the language model.
        text_alone = not any(prompt.media for prompt in prompts)
        anchor = vision_anchor(self.backbone) if text_alone else 0
        hidden_MD = hidden(prompts, prompt_of_row_B, ids_BT, mask_BT) + anchor
        logp, entropy = self.token_stats(
            hidden_MD,
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
        """Hidden states [M, D] that predict each response token.

        One forward over a row of real tokens, each prompt in it once.
        """
        packed = pack(self.backbone, prompts, rows, ids_BT, mask_BT)
        output = self.backbone(
            input_ids=packed.input_ids,
            position_ids=packed.positions,
            mm_encoder_outputs=encode_media(self.backbone, prompts, packed.order),
            **share_prefix_arguments(packed.groups, ids_BT.device),
        )
        hidden: Tensor = output.last_hidden_state[0].index_select(0, packed.index_M)
        return hidden

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
        row_M, token_M = mask_BT.nonzero(as_tuple=True)
        hidden: Tensor = output.last_hidden_state[row_M, index_BT[row_M, token_M]]
        return hidden

    def _refuse_placeholders(self, ids_BT: Tensor) -> None:
        """Raise where a response holds an image's or a video's placeholder; none is sampled."""
        config = self.model.config
        for name in ("image_token_id", "video_token_id"):
            found = (ids_BT == getattr(config, name)).nonzero()
            if len(found):
                row, place = found[0].tolist()
                token = self.tokenizer.convert_ids_to_tokens(getattr(config, name))
                raise ValueError(
                    f"response {row} holds {token} at token {place}: a placeholder for vision "
                    "features, which a response has none of. Take it out of the response."
                )

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


def _has_values(tensor: Tensor, at: Tensor) -> bool:
    """Whether it can be moved to the device of ``at``: from meta there is nothing to be moved."""
    return at.is_meta or not tensor.is_meta


def _unshared_layers(config: Any) -> list[str]:
    """Kinds of layers whose state runs from token to token, or that see a window of them only."""
    return sorted(set(getattr(config.text_config, "layer_types", None) or ()) - {"full_attention"})


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
