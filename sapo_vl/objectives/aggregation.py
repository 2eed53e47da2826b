"""From one value per token to one scalar."""

from __future__ import annotations

from torch import Tensor


def sequence_mean(
    token_BT: Tensor, mask_BT: Tensor, denominator: float | Tensor | None = None
) -> Tensor:
    """Mean over each response's tokens, summed over responses, over ``denominator`` (paper eq. 5).

    Shapes: ``token_BT`` [B, T] float, ``mask_BT`` [B, T] bool (or 0/1); out a scalar of
    ``token_BT``'s dtype. A fully masked row adds 0 and still counts in B. ``denominator`` is the
    number of responses in the whole update (all micro-batches and ranks), so that the parts add up
    to the one-batch mean; None: B.

    Raises:
        ValueError: ``denominator`` is a number not above 0, or a tensor of more than one element.
    """
    mask_BT = mask_BT.bool()
    length_B = mask_BT.sum(dim=1).clamp(min=1)
    total = (token_BT.masked_fill(~mask_BT, 0.0).sum(dim=1) / length_B).sum()
    if denominator is None:
        return total / max(token_BT.shape[0], 1)
    if isinstance(denominator, Tensor):
        if denominator.numel() != 1:
            raise ValueError(
                f"denominator has shape {tuple(denominator.shape)}; it must be one number"
            )
        # Its value is not looked at: that would make a GPU wait. Its dtype must not widen the loss.
        return total / denominator.reshape(()).to(dtype=total.dtype, device=total.device)
    if not denominator > 0:
        raise ValueError(
            f"denominator is {denominator}; it must be the number of responses, above 0"
        )
    return total / denominator
