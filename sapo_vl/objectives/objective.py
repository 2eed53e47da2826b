"""What every objective promises, and the check of what it is called with."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from sapo_vl.objectives.aggregation import Aggregation
from sapo_vl.types import LossOutput


@runtime_checkable
class Objective(Protocol):
    """A loss over sampled responses: numbers in its constructor, tensors in its call."""

    @property
    def aggregation(self) -> Aggregation:
        """How its tokens become a scalar; says what ``denominator`` counts."""
        ...

    def __call__(
        self,
        logp_BT: Tensor,
        old_logp_BT: Tensor,
        advantage_B: Tensor,
        mask_BT: Tensor,
        *,
        denominator: float | Tensor | None = None,
        weight_BT: Tensor | None = None,
    ) -> LossOutput:
        """Return the loss to be minimised and the per-token statistics.

        Args:
            logp_BT: log-probs of the policy, float [B, T]; the only argument that gets a gradient.
            old_logp_BT: log-probs of the old policy, float [B, T].
            advantage_B: one advantage per response, float [B].
            mask_BT: true on response tokens, bool (or 0/1) [B, T].
            denominator: ``aggregation.units`` of the whole update: their sum over micro-batches,
                their mean over ranks; None: those of this batch.
            weight_BT: what each token's term counts, float [B, T], without gradient (see
                ``correction.py``); None: 1.
        """
        ...


def check_shapes(
    logp_BT: Tensor,
    old_logp_BT: Tensor,
    advantage_B: Tensor,
    mask_BT: Tensor,
    weight_BT: Tensor | None = None,
) -> None:
    """Refuse shapes that would broadcast into a wrong loss silently.

    Shapes: three or four tensors [B, T] and one [B], any dtype.

    Raises:
        ValueError: a shape differs; the message names the argument.
    """
    if logp_BT.ndim != 2:
        raise ValueError(f"logp_BT has shape {tuple(logp_BT.shape)}; it must be [B, T]")
    for name, tensor, shape in (
        ("old_logp_BT", old_logp_BT, logp_BT.shape),
        ("mask_BT", mask_BT, logp_BT.shape),
        ("advantage_B", advantage_B, logp_BT.shape[:1]),
        ("weight_BT", weight_BT, logp_BT.shape),
    ):
        if tensor is not None and tensor.shape != shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; with logp_BT of shape "
                f"{tuple(logp_BT.shape)} it must be {tuple(shape)}"
            )


def weighted(token_BT: Tensor, weight_BT: Tensor | None, mask_BT: Tensor) -> Tensor:
    """Each token's term times its weight; masked places may hold anything.

    Shapes: all [B, T]; out in ``token_BT``'s dtype.
    """
    if weight_BT is None:
        return token_BT
    return token_BT * weight_BT.detach().to(token_BT.dtype).masked_fill(~mask_BT.bool(), 0.0)
