"""The patch embedding as a matrix product against the convolution it stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText

from sapo_vl.policy import Policy
from sapo_vl.policy.patches import PatchConv3d


def test_patches_equal_the_convolution_in_value_and_gradient(
    load_policy: Callable[..., Policy], model_folder: Callable[[str], Path], family: str
) -> None:
    ours = load_policy(family).model
    theirs = AutoModelForImageTextToText.from_pretrained(model_folder(family))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    own, conv = (model.model.visual.patch_embed.double() for model in (ours, theirs))
    assert isinstance(own.proj, PatchConv3d)
    assert type(conv.proj) is torch.nn.Conv3d

    draw = torch.Generator().manual_seed(0)
    size = conv.proj.in_channels * torch.Size(conv.proj.kernel_size).numel()
    patches = torch.randn(9, size, generator=draw, dtype=torch.float64)
    expected = conv(patches)
    weight = torch.randn(expected.shape, generator=draw, dtype=torch.float64)
    (expected * weight).sum().backward()
    found = own(patches)
    (found * weight).sum().backward()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for parameter, reference in zip(own.parameters(), conv.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, reference.grad, rtol=0, atol=1e-12)
