"""What is measured: the model, and the sizes of prompts, responses and groups.

Letters as everywhere: P tokens of a prompt, C tokens of a response, G responses a group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

PROMPTS_PER_ITERATION = 2  # one an update: the paper makes 2 updates for vision-language models
CHAT_TOKENS = 21  # roles, turns and vision marks of one user turn, in models.py's tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The random-weight model that both sides load: one folder, one dtype, one thread count.

    Args:
        family: "qwen2_5_vl" or "qwen3_vl".
        vocabulary: tokens; 151,936 is Qwen's own.
        hidden: width of the language model and of the vision tower, a multiple of 64.
        layers: layers of each of the two.
        dtype: of the weights.
        threads: of torch.
        encoder: dotted path of the class that makes model inputs of a prompt; by name, since this
            package does not import datamodules and a fresh process has to find it again.
    """

    family: str = "qwen2_5_vl"
    vocabulary: int = 32_000
    hidden: int = 256
    layers: int = 4
    dtype: str = "float32"
    threads: int = 1
    encoder: str = "datamodules.encode.Encoder"

    def __post_init__(self) -> None:
        if self.hidden < 64 or self.hidden % 64:
            raise ValueError(f"hidden is {self.hidden}; it must be a multiple of 64 (heads of 32)")

    def to_json(self) -> dict[str, Any]:
        """The fields, as ``ModelSpec(**fields)`` takes them back."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One size: ``Case(prompt=313, response=64, group=8)`` has a picture of 256 tokens."""

    prompt: int  # P, in tokens, those of the picture included
    response: int  # C, in tokens; every response is forced to this length
    group: int  # G

    def __post_init__(self) -> None:
        if self.question < 3:
            raise ValueError(f"P={self.prompt} has no room for a picture and a question; from 40")

    @property
    def name(self) -> str:
        """Short name for tables: "P313 C64 G8"."""
        return f"P{self.prompt} C{self.response} G{self.group}"

    @property
    def picture_side(self) -> int:
        """Side of the square picture in tokens: the largest power of two that leaves a question."""
        side = 1
        while (2 * side) ** 2 <= self.prompt - CHAT_TOKENS - 3:
            side *= 2
        return side

    @property
    def question(self) -> int:
        """Tokens of the question's text."""
        return self.prompt - self.picture_side**2 - CHAT_TOKENS

    @property
    def tokens_needed(self) -> int:
        """P + G * C: every distinct token once."""
        return self.prompt + self.group * self.response

    @property
    def tokens_repeated(self) -> int:
        """G * (P + C): the prompt once a response."""
        return self.group * (self.prompt + self.response)

    @property
    def ideal_speedup(self) -> float:
        """Repeated tokens over needed ones: the speed-up if a token always cost the same."""
        return self.tokens_repeated / self.tokens_needed

    def to_json(self) -> dict[str, Any]:
        """The fields, as ``Case(**fields)`` takes them back."""
        return asdict(self)


DEFAULT = Case(prompt=313, response=64, group=8)  # the case of the summary
LARGE = Case(prompt=1300, response=256, group=8)


def grid() -> list[Case]:
    """Every P in {100, 300, 1300} with C in {32, 64, 256} and G in {4, 8, 16}."""
    sizes = product((100, 300, 1300), (32, 64, 256), (4, 8, 16))
    return [Case(prompt=p, response=c, group=g) for p, c, g in sizes]
