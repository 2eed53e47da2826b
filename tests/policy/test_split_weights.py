"""What strategies that split weights rely on: the same calls on all ranks, exact casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from models import encode, picture

from sapo_vl.policy import Policy
from sapo_vl.types import PromptInputs


def calls(policy: Policy, prompts: list[PromptInputs], lengths: list[int]) -> list[str]:
    """Names of the modules with weights that a scoring and its backward pass call, in order."""
    seen: list[str] = []
    hooks = []
    for name, module in policy.named_modules():
        if list(module.parameters(recurse=False)):
            hooks.append(
                module.register_forward_pre_hook(lambda *_, name=name: seen.append(f"> {name}"))
            )
            hooks.append(
                module.register_full_backward_pre_hook(
                    lambda *_, name=name: seen.append(f"< {name}")
                )
            )
    mask_BT = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids_BT = torch.randint(10, 200, mask_BT.shape)
    rows = torch.arange(len(lengths)) % len(prompts)
    policy.score(prompts, rows, ids_BT, mask_BT).logp_BT.sum().backward()
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.filterwarnings("ignore")  # of a video's missing frame rate
def test_calls_depend_neither_on_media_nor_on_lengths(
    family: str, load_policy: Callable[..., Policy]
) -> None:
    policy = load_policy(family, head_chunk_tokens=4)
    text = encode(policy.processor, "How many?")
    seen = encode(policy.processor, "How many are red?", [picture(32, 32), picture(48, 32)])
    wanted = calls(policy, [seen, text], [9, 3, 5])
    assert any("visual" in name for name in wanted)
    assert calls(policy, [text], [2, 2]) == wanted
    assert calls(policy, [text], [1, 1]) == wanted  # nothing after the first token
    assert calls(policy, [seen], [12]) == wanted
    frames = np.stack([np.asarray(picture(32, 48, str(n))) for n in range(4)])
    moving = encode(policy.processor, "What moves?", videos=[frames])
    both = encode(policy.processor, "Both?", [picture(48, 32)], [frames[:2]])
    assert calls(policy, [moving, text], [3, 2]) == wanted
    assert calls(policy, [both], [4]) == wanted
    assert calls(policy, [seen, moving], [4, 2]) == wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_casting_leaves_the_rotary_frequencies(
    family: str, load_policy: Callable[..., Policy], dtype: torch.dtype
) -> None:
    policy = load_policy(family)
    before = {k: v.clone() for k, v in policy.named_buffers() if k.endswith("inv_freq")}
    assert before
    policy.to(dtype)
    assert policy.model.lm_head.weight.dtype == dtype
    for name, frequencies in policy.named_buffers():
        if name in before:
            assert torch.equal(frequencies, before[name]), name
