"""Which settings a policy can be trained with."""

from __future__ import annotations

from lightning.pytorch.utilities import rank_zero_warn

from sapo_vl.types import Sampling


def check_training(sampling: Sampling, updates_per_iteration: int) -> None:
    """Refuse settings under which nothing, or something else than what was drawn, is trained.

    Raises:
        ValueError: names the key and the mend.
    """
    if sampling.group_size < 2:
        raise ValueError(
            "model.sampling.group_size is 1: a response is judged against its group, so every "
            "advantage would be 0; use 2 or more (8 or 16 are usual)"
        )
    if sampling.top_p != 1 or sampling.top_k != 0 or sampling.presence_penalty != 0:
        raise ValueError(
            "model.sampling: top_p must be 1, top_k 0 and presence_penalty 0 in training; another "
            "distribution has other probabilities than the ones that are trained, and the ratios "
            "would be biased"
        )
    if sampling.temperature == 0:
        raise ValueError(
            "model.sampling.temperature is 0: greedy responses of a group are all the same"
        )
    if updates_per_iteration < 1:
        raise ValueError(
            f"model.updates_per_iteration is {updates_per_iteration}; it must be at least 1"
        )


def warn_if_inert(updates_per_iteration: int) -> None:
    """Say so where a setting turns the gate off."""
    if updates_per_iteration == 1:
        rank_zero_warn(
            "model.updates_per_iteration is 1: every ratio is 1, so the gate is inert and SAPO is "
            "plain policy gradient. The paper makes 2 updates for vision-language models, 4 for "
            "text."
        )
