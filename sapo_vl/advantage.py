"""Group-relative advantages, and which groups carry signal."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

# What is subtracted from G under the standard deviation's root.
_CORRECTION = {"population": 0, "sample": 1}
# Rewards of one group that agree to this many units of rounding are the same reward: 0.1 + 0.2 and
# 0.3 differ in the last digit, and dividing by the std would make an advantage of 1 out of that.
_ROUNDING_UNITS = 8


def group_advantages(
    reward_PG: Tensor,
    *,
    std: Literal["population", "sample", "none"] = "population",
    eps: float = 0.0,
) -> Tensor:
    """Rewards less their group's mean, over their group's standard deviation (paper eq. 2).

    Shapes: ``reward_PG`` [P, G] of any real dtype; out [P, G], float32 at least. A group without
    spread gets exactly 0. ``std``: over G ("population"), over G - 1 ("sample"), or no division
    ("none", as in Dr. GRPO). ``eps`` is added to the standard deviation; the paper has none.

    Raises:
        ValueError: G below 2, a reward that is not finite, a wrong shape, ``std`` or ``eps``.
    """
    if std != "none" and std not in _CORRECTION:
        raise ValueError(f"std is {std!r}; it must be one of {[*_CORRECTION, 'none']}")
    if not eps >= 0:
        raise ValueError(f"eps is {eps}; it must be 0 or more")
    reward_PG = _checked(reward_PG)
    informative_P1 = informative_groups(reward_PG).unsqueeze(1)
    centred_PG = reward_PG - reward_PG.mean(dim=1, keepdim=True)
    centred_PG = centred_PG.masked_fill(~informative_P1, 0.0)
    if std == "none":
        return centred_PG
    # Scaled before squaring, so that neither tiny nor huge rewards leave the range of the dtype.
    scale_P1 = centred_PG.abs().amax(dim=1, keepdim=True).masked_fill(~informative_P1, 1.0)
    unit_PG = centred_PG / scale_P1
    freedom = reward_PG.shape[1] - _CORRECTION[std]
    std_P1 = (unit_PG.square().sum(dim=1, keepdim=True) / freedom).sqrt() + eps / scale_P1
    return unit_PG / std_P1.masked_fill(~informative_P1, 1.0)


def informative_groups(reward_PG: Tensor) -> Tensor:
    """Which groups carry signal: those whose rewards differ by more than rounding.

    Shapes: ``reward_PG`` [P, G] of any real dtype; out bool [P]. The advantages of every other
    group are 0.

    Raises:
        ValueError: G below 2, a reward that is not finite, or a wrong shape.
    """
    reward_PG = _checked(reward_PG)
    spread_P = reward_PG.amax(dim=1) - reward_PG.amin(dim=1)
    rounding = _ROUNDING_UNITS * torch.finfo(reward_PG.dtype).eps
    return spread_P > rounding * reward_PG.abs().amax(dim=1)


def _checked(reward_PG: Tensor) -> Tensor:
    """The rewards in float32 at least, or an error that says what is wrong with them."""
    if reward_PG.ndim != 2:
        raise ValueError(f"reward_PG has shape {tuple(reward_PG.shape)}; it must be [P, G]")
    group_size = reward_PG.shape[1]
    if group_size < 2:
        raise ValueError(
            f"group size {group_size} has no baseline: every advantage would be 0; "
            "use sampling.group_size >= 2"
        )
    wrong = (~torch.isfinite(reward_PG)).nonzero()
    if len(wrong):
        group, response = wrong[0].tolist()
        reward = reward_PG[group, response].item()
        raise ValueError(
            f"{len(wrong)} rewards are not finite, the first is {reward} (group {group}, "
            f"response {response}); mend the verifier that gave it"
        )
    return reward_PG.to(torch.promote_types(reward_PG.dtype, torch.float32))
