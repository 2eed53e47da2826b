"""What the optimizer is given: one group, or one for every part with a learning rate of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

from torch import nn

from sapo_vl.policy.config import Part
from sapo_vl.policy.parts import part_of


def check_rates(rates: Mapping[Part, float]) -> dict[Part, float]:
    """Learning rates by part, as they were given.

    Raises:
        ValueError: an unknown part, or a rate that is not a finite number above 0.
    """
    known = get_args(Part)
    for part, rate in rates.items():
        if part not in known:
            raise ValueError(f"model.learning_rates: unknown part {part!r}; known: {list(known)}")
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(
                f"model.learning_rates.{part} is {rate}; it must be a finite number above 0 (to "
                f"hold the part as it is: policy.freeze: [{part}])"
            )
    return dict(rates)


def parameter_groups(policy: nn.Module, rates: Mapping[Part, float]) -> list[Any]:
    """The trainable parameters; with ``rates`` as groups, first that of the optimizer's own rate.

    Raises:
        ValueError: a part with a rate has nothing to train.
    """
    trainable = {name: p for name, p in policy.named_parameters() if p.requires_grad}
    if not rates:
        return list(trainable.values())
    groups: list[dict[str, Any]] = []
    rest = [p for name, p in trainable.items() if part_of(name) not in rates]
    if rest:
        groups.append({"params": rest})
    for part, rate in rates.items():
        own = [p for name, p in trainable.items() if part_of(name) == part]
        if not own:
            raise ValueError(
                f"model.learning_rates.{part}: nothing of the {part} part is trained (policy.freeze"
                " or policy.lora); take the rate out"
            )
        groups.append({"params": own, "lr": rate})
    return groups
