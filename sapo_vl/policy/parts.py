"""The three parts of a vision-language model: whose is a parameter, freezing, the table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from torch import nn

from sapo_vl.policy.config import Part


def part_of(name: str) -> Part:
    """Part that a parameter of a Qwen-VL model belongs to, by its name.

    The tower is ``visual``; its projectors (``visual.merger``, DeepStack's
    ``visual.deepstack_merger_list``) are the merger; everything else, embeddings and head included,
    is the language model.
    """
    if "visual." not in name:
        return "language"
    return "merger" if "merger" in name.split("visual.", 1)[1] else "vision"


def freeze(model: nn.Module, parts: Iterable[Part]) -> None:
    """Stop the gradient of every parameter of ``parts``.

    Raises:
        ValueError: an unknown part, or nothing would be left to train.
    """
    frozen = set(parts)
    unknown = frozen - set(get_args(Part))
    if unknown:
        raise ValueError(f"policy.freeze: unknown {sorted(unknown)}; known: {list(get_args(Part))}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name) not in frozen)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"policy.freeze: {sorted(frozen)} leaves nothing to train")


@dataclass(frozen=True, slots=True)
class PartSize:
    """Parameters of one part: ``PartSize("vision", total=580_000, trainable=0)``."""

    part: str
    total: int
    trainable: int


def part_sizes(model: nn.Module) -> list[PartSize]:
    """Count the parameters of each part (a tied embedding once)."""
    total = dict.fromkeys(get_args(Part), 0)
    trainable = dict.fromkeys(get_args(Part), 0)
    for name, parameter in model.named_parameters():
        size = _size(parameter)
        total[part_of(name)] += size
        trainable[part_of(name)] += size if parameter.requires_grad else 0
    return [PartSize(part, total[part], trainable[part]) for part in get_args(Part)]


def _size(parameter: nn.Parameter) -> int:
    """Number of weights, however they are held."""
    # ZeRO-3 leaves an empty shard in place; bitsandbytes packs two weights into a byte.
    state = getattr(parameter, "quant_state", None)
    packed = parameter.numel() if state is None else math.prod(state.shape)
    return int(getattr(parameter, "ds_numel", packed))


def part_table(sizes: list[PartSize]) -> str:
    """Readable table of ``part_sizes``, a line each and the sum."""
    rows = [*sizes, PartSize("all", sum(s.total for s in sizes), sum(s.trainable for s in sizes))]
    lines = [f"{'part':<10}{'parameters':>18}{'trainable':>18}{'share':>8}"]
    for row in rows:
        share = row.trainable / row.total if row.total else 0.0
        lines.append(f"{row.part:<10}{row.total:>18,}{row.trainable:>18,}{share:>8.0%}")
    return "\n".join(lines)
