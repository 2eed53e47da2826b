"""The vision tower's first layer as the matrix product that it is."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import linear
from typing_extensions import override


class PatchConv3d(nn.Conv3d):
    """A convolution over single patches, each as large as the kernel: one product per patch.

    The convolution kernels of CPUs (and of some GPUs, in bfloat16) are far slower at this. Names
    and shapes of the weights stay those of the convolution.
    """

    @override
    def forward(self, input: Tensor) -> Tensor:
        """Patches [n, channels, time, height, width] to features [n, out, 1, 1, 1]."""
        out = linear(input.flatten(1), self.weight.flatten(1), self.bias)
        return out[:, :, None, None, None]


def multiply_patches(visual: Any) -> None:
    """Make the tower's patch embedding a ``PatchConv3d``, in place.

    Only the class changes: a module built anew would lose its hooks, and DeepSpeed, which watches
    modules being built under ZeRO-3, would take its weights for new ones.
    """
    visual.patch_embed.proj.__class__ = PatchConv3d
