"""A packed row and attention over it, against plain definitions of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from models import mixed_prompts
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from sapo_vl.policy import Policy
from sapo_vl.policy.attention import packed_attention
from sapo_vl.policy.inputs import prompt_positions
from sapo_vl.policy.packing import Group, pack

GROUPS = [
    [Group(5, ((3, 3, 3),))],
    [Group(1, ((1,),)), Group(7, ()), Group(4, ((9, 8, 7), (2, 2), (1,)))],
    [Group(3, ((4, 3),)), Group(3, ((4, 4),))],
]


def allowed(groups: Sequence[Group]) -> Tensor:
    """Which token of a row may look at which, bool [N, N], token by token."""
    prompt, response = [], []
    for number, group in enumerate(groups):
        lengths = [length for batch in group.batches for length in batch]
        for own, length in enumerate([group.prompt, *lengths]):
            prompt += [number] * length
            response += [own] * length
    n = len(prompt)
    return torch.tensor(
        [
            [
                k <= q and prompt[k] == prompt[q] and response[k] in (0, response[q])
                for k in range(n)
            ]
            for q in range(n)
        ]
    )


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_attention_over_a_row_equals_a_mask_over_all_of_it(
    groups: list[Group], key_heads: int
) -> None:
    mask = allowed(groups)
    draw = torch.Generator().manual_seed(0)
    shapes = [(1, heads, len(mask), 8) for heads in (4, key_heads, key_heads, 4)]
    *inputs, weight = (torch.randn(s, generator=draw, dtype=torch.float64) for s in shapes)
    results = []
    for packed in (True, False):
        q, k, v = (x.clone().requires_grad_() for x in inputs)
        if packed:
            out, _ = packed_attention(
                nn.Module(), q, k, v, None, scaling=0.3, shared_prefix_groups=groups
            )
            out = out.transpose(1, 2)
        else:
            out = scaled_dot_product_attention(q, k, v, mask, scale=0.3, enable_gqa=True)
        (out * weight).sum().backward()
        results.append((out.detach(), q.grad, k.grad, v.grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_row_holds_each_prompt_once_and_the_real_tokens_of_its_responses(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl")
    prompts = mixed_prompts(policy.processor)
    prompt_of_row = torch.tensor([2, 0, 2, 2, 0])
    lengths = torch.tensor([3, 1, 12, 11, 4])
    mask = torch.arange(12) < lengths[:, None]
    ids = torch.arange(20, 80).view(5, 12)
    packed = pack(policy.backbone, prompts, prompt_of_row, ids, mask)

    first, second = prompts[2], prompts[0]
    s, t = len(first.input_ids_S), len(second.input_ids_S)
    assert packed.order == (2, 0)
    assert packed.groups == (Group(s, ((11, 10), (2,))), Group(t, ((3,),)))
    rows = [
        first.input_ids_S,
        ids[2, :11],
        ids[3, :10],
        ids[0, :2],
        second.input_ids_S,
        ids[4, :3],
    ]
    assert torch.equal(packed.input_ids, torch.cat(rows)[None])

    own = prompt_positions(policy.backbone, first)
    assert torch.equal(packed.positions[:, 0, :s], own)
    goes_on = own.max() + 1 + torch.arange(11)
    assert torch.equal(packed.positions[:, 0, s : s + 11], goes_on.expand(3, -1))
    assert torch.equal(packed.positions[:, 0, s + 11 : s + 21], goes_on[:10].expand(3, -1))

    end = s + 23 + t  # of the second prompt
    expected = [
        [s - 1, s + 21, s + 22],
        [end - 1],
        [s - 1, *range(s, s + 11)],
        [s - 1, *range(s + 11, s + 21)],
        [end - 1, end, end + 1, end + 2],
    ]
    assert packed.index_M.tolist() == [place for row in expected for place in row]
