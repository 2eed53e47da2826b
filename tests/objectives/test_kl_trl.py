"""SAPO with a KL penalty against TRL's own loss code with beta."""

import pytest
import torch
from test_trl_parity import KNOWN_VERSION, random_batch, stand_in, trl
from torch import Tensor

from sapo_vl.objectives import SAPO, KLPenalty

BETA = 0.04


def gradient_of(loss: Tensor, logp_BT: Tensor) -> Tensor:
    (gradient_BT,) = torch.autograd.grad(loss, logp_BT)
    return gradient_BT


@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_added_to_sapos_are_trls(seed: int) -> None:
    logp_BT, old_BT, advantage_B, mask_BT = random_batch(seed)
    draw = torch.Generator().manual_seed(100 + seed)
    reference_BT = logp_BT + 0.8 * torch.randn(logp_BT.shape, generator=draw)

    def of_trl(beta: float) -> tuple[Tensor, Tensor]:
        own_BT = logp_BT.clone().requires_grad_()
        trainer = stand_in(own_BT, False, "sapo", beta=beta)
        rows = len(own_BT)
        inputs = {
            "prompt_ids": torch.zeros(rows, 1, dtype=torch.long),
            "prompt_mask": torch.ones(rows, 1, dtype=torch.long),
            "completion_ids": torch.zeros(own_BT.shape, dtype=torch.long),
            "completion_mask": mask_BT.long(),
            "advantages": advantage_B,
            "old_per_token_logps": old_BT,
            "ref_per_token_logps": reference_BT,
        }
        try:
            loss = trl.GRPOTrainer._compute_loss(trainer, None, inputs)
        except (AttributeError, KeyError) as error:
            if trl.__version__.startswith(KNOWN_VERSION):
                raise
            pytest.skip(f"TRL {trl.__version__} reads more of its trainer than 1.16 did: {error}")
        return loss.detach(), gradient_of(loss, own_BT)

    own_BT = logp_BT.clone().requires_grad_()
    plain = SAPO()(own_BT, old_BT, advantage_B, mask_BT).loss
    penalty = KLPenalty(BETA)(own_BT, reference_BT, mask_BT).loss
    want, want_BT = of_trl(BETA)
    without, _ = of_trl(0.0)
    assert want - without > 1e-3
    torch.testing.assert_close(penalty.detach(), want - without, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient_of(plain + penalty, own_BT), want_BT, rtol=1e-5, atol=1e-7)
