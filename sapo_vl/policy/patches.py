"""The vision tower's first layer as the matrix product that it is."""

from __future__ import annotations

from typing import Any

import torch
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
    """Put a ``PatchConv3d`` with the same weights in place of the tower's patch embedding."""
    conv: nn.Conv3d = visual.patch_embed.proj
    patches = PatchConv3d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,  # type: ignore[arg-type]
        stride=conv.stride,  # type: ignore[arg-type]
        bias=conv.bias is not None,
        device=torch.device("meta"),
    )
    patches.weight, patches.bias = conv.weight, conv.bias
    visual.patch_embed.proj = patches.train(conv.training)
