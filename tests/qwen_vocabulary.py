"""The vocabulary of Qwen2.5 and Qwen3 as a Hugging Face tokenizer, from PyPI's ``dashscope``.

That package ships ``qwen.tiktoken`` (151,643 byte-level tokens by rank); the merges that a Hugging
Face tokenizer needs are found again from the ranks, and Qwen's special tokens follow. About 4 s,
so the result is kept in the cache folder. Callers start with ``pytest.importorskip("dashscope")``.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import tempfile
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sapo_vl.policy.build import SPLIT, wrap_tokenizer

SPECIAL_TOKENS = (  # 151643 and on, in Qwen's order
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ADDED_TOKENS = (  # tokens that are text: decoding keeps them
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


def real_qwen_tokenizer() -> PreTrainedTokenizerFast:
    """Qwen's tokenizer with our chat template: ``<|im_start|>`` 151644, ``<|image_pad|>`` 151655.

    Built once and cached on disk, in ``SAPO_VL_TEST_CACHE`` or the system's temporary folder.
    """
    ranks = ranks_file()
    source = ranks.read_bytes() + Path(__file__).read_bytes()
    folder = Path(os.environ.get("SAPO_VL_TEST_CACHE", tempfile.gettempdir()))
    cached = folder / f"sapo_vl_qwen_{hashlib.sha256(source).hexdigest()[:16]}.json"
    if not cached.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        # Renamed when complete, so that two test runs at a time do not read half a file.
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(_convert(read_ranks(ranks)).to_str())
        Path(file.name).replace(cached)
    return wrap_tokenizer(Tokenizer.from_file(str(cached)))


def ranks_file() -> Path:
    """Where dashscope keeps ``qwen.tiktoken`` (found without importing the package)."""
    spec = importlib.util.find_spec("dashscope")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("dashscope is not installed (pip install --no-deps dashscope)")
    return Path(spec.origin).parent / "resources" / "qwen.tiktoken"


def read_ranks(file: Path) -> dict[bytes, int]:
    """Rank of every token of a ``.tiktoken`` file."""
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _convert(ranks: dict[bytes, int]) -> Tokenizer:
    letters = _byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = [
        tuple(spell(part) for part in _parts(ranks, token, rank))
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
        if len(token) > 1
    ]
    vocabulary = {spell(token): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]
    )
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False, special=False) for token in ADDED_TOKENS]
    )
    return tokenizer


def _parts(ranks: dict[bytes, int], token: bytes, rank: int) -> list[bytes]:
    """The two tokens that merge into ``token``: what merges of a lower rank make of its bytes."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [a + b for a, b in pairwise(parts)]
        best = min(range(len(pairs)), key=lambda i: ranks.get(pairs[i], rank))
        if ranks.get(pairs[best], rank) >= rank:
            raise ValueError(f"no merges lead to {token!r}")
        parts[best : best + 2] = [pairs[best]]
    return parts


def _byte_letters() -> list[str]:
    """GPT-2's letter for each byte: itself where printable, else one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
