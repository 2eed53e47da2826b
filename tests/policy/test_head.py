"""Log-probs and entropy from hidden states, a chunk of the vocabulary's logits at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sapo_vl.policy.head import entropy, masked_log_softmax, token_stats

TEMPERATURE = 0.7
BANNED = torch.tensor([False, True, False, False, True, False, False, False, False, True])


def case() -> tuple[Tensor, Tensor, nn.Linear]:
    generator = torch.Generator().manual_seed(0)
    hidden_ND = torch.randn(11, 6, generator=generator)
    head = nn.Linear(6, 10, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.randn(10, 6, generator=generator))
    allowed = (~BANNED).nonzero().squeeze(-1)
    return hidden_ND, allowed[torch.randint(7, (11,), generator=generator)], head


def test_values_equal_a_dense_reference() -> None:
    hidden_ND, token_N, head = case()
    logp_N, entropy_N = token_stats(hidden_ND, token_N, head, TEMPERATURE, BANNED, 100)
    logits = head(hidden_ND).double()[:, ~BANNED] / TEMPERATURE
    probability = torch.softmax(logits, -1)
    place = (~BANNED).cumsum(0) - 1  # place of an id among the allowed ones
    expected = probability.gather(1, place[token_N][:, None]).log().squeeze(1)
    torch.testing.assert_close(logp_N.double(), expected, rtol=0, atol=1e-6)
    dense = -(probability * probability.log()).sum(-1)
    torch.testing.assert_close(entropy_N.double(), dense, rtol=0, atol=1e-6)


@pytest.mark.parametrize("chunk_tokens", [1, 3, 10, 11])
def test_chunks_change_neither_value_nor_gradient(chunk_tokens: int) -> None:
    results = []
    for chunk in (1000, chunk_tokens):
        hidden_ND, token_N, head = case()
        hidden_ND.requires_grad_()
        logp_N, entropy_N = token_stats(hidden_ND, token_N, head, TEMPERATURE, BANNED, chunk)
        (logp_N * torch.linspace(-1, 1, 11)).sum().backward()
        results.append((logp_N.detach(), entropy_N, hidden_ND.grad, head.weight.grad))
    for whole, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-6, atol=1e-6)


def test_chunks_hold_no_logits_for_the_backward_pass() -> None:
    """Only hidden states and token ids of a chunk are saved, nothing as wide as the vocabulary."""
    hidden_ND, token_N, head = case()
    widths: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        widths.append(tensor.shape[-1] if tensor.ndim == 2 and len(tensor) == 5 else 0)
        return tensor

    hidden_ND.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        token_stats(hidden_ND, token_N, head, TEMPERATURE, BANNED, 5)
    assert 10 not in widths


def test_entropy_has_no_gradient_and_no_nan() -> None:
    hidden_ND, token_N, head = case()
    logp_N, entropy_N = token_stats(hidden_ND * 1e4, token_N, head, TEMPERATURE, BANNED, 4)
    assert logp_N.requires_grad
    assert not entropy_N.requires_grad
    assert entropy_N.isfinite().all()
    assert (entropy_N >= 0).all()


def test_low_precision_hidden_states_give_float32() -> None:
    hidden_ND, token_N, head = case()
    logp_N, entropy_N = token_stats(
        hidden_ND.bfloat16(), token_N, head.bfloat16(), TEMPERATURE, BANNED, 100
    )
    assert logp_N.dtype == entropy_N.dtype == torch.float32


def test_no_token_at_all_keeps_the_graph() -> None:
    hidden_ND = torch.randn(0, 6, requires_grad=True)
    logp_N, entropy_N = token_stats(
        hidden_ND, torch.zeros(0, dtype=torch.long), case()[2], TEMPERATURE, BANNED, 4
    )
    assert logp_N.shape == entropy_N.shape == (0,)
    logp_N.sum().backward()
    assert hidden_ND.grad is not None


def test_banned_logits_are_ignored_however_large() -> None:
    logits_NV = torch.randn(3, 10, generator=torch.Generator().manual_seed(1))
    huge = logits_NV.masked_fill(BANNED, 1e30)
    expected = masked_log_softmax(logits_NV, TEMPERATURE, BANNED)
    assert torch.equal(masked_log_softmax(huge, TEMPERATURE, BANNED), expected)
    assert torch.isneginf(expected[:, BANNED]).all()


def test_entropy_of_known_distributions() -> None:
    probability = torch.tensor(
        [[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    )
    expected = torch.tensor([4.0, 2.0, 1.0]).log()
    torch.testing.assert_close(entropy(probability.log()), expected)


def test_gradient_by_hand_equals_autograds() -> None:
    hidden_ND, token_N, head = case()
    weight_N = torch.linspace(-1, 1, 11)
    logp_N, _ = token_stats(hidden_ND, token_N, head, TEMPERATURE, BANNED, 100)
    (logp_N * weight_N).sum().backward()
    by_hand, head.weight.grad = head.weight.grad, None
    logp_NV = masked_log_softmax(head(hidden_ND), TEMPERATURE, BANNED)
    (logp_NV.gather(-1, token_N[:, None]).squeeze(-1) * weight_N).sum().backward()
    torch.testing.assert_close(by_hand, head.weight.grad, rtol=1e-5, atol=1e-6)
    assert not by_hand[BANNED].any()
