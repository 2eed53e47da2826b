"""TRL in several passes: the update of a large group is the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sapo_vl.bench import peer as module
from sapo_vl.bench.cases import LARGE, Case, ModelSpec
from sapo_vl.bench.models import build_folder
from sapo_vl.bench.peer import Peer, rows_of_pass
from sapo_vl.bench.prompts import make_prompts

SPEC = ModelSpec(hidden=64, layers=2, vocabulary=300)
CASE = Case(prompt=44, response=5, group=4)


@pytest.mark.parametrize(
    ("case", "vocabulary", "rows"),
    [
        (LARGE, 32_000, 8),  # 1.5 GiB of logits: whole
        (LARGE, 151_936, 2),  # 7 GiB: 1.8 GiB at a time
        (Case(prompt=1300, response=256, group=6), 151_936, 2),
        (Case(prompt=5000, response=256, group=4), 151_936, 1),  # over the limit even so
    ],
)
def test_rows_of_a_pass_keep_logits_in_the_limit(case: Case, vocabulary: int, rows: int) -> None:
    assert rows_of_pass(case, vocabulary) == rows


def test_passes_add_up_to_the_gradient_of_the_whole_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl", reason="TRL is not installed (pip install sapo-vl[bench])")
    build_folder(SPEC, tmp_path / "model")
    prompts = make_prompts(CASE, 2)
    whole = Peer(SPEC, tmp_path / "model", CASE, prompts, tmp_path / "trl")
    whole.prepare()
    whole.inputs["advantages"] = torch.tensor([-1.0, 2.0, 0.5, -1.5])
    monkeypatch.setattr(module, "LOGITS_LIMIT", 2 * (44 + 5) * 300 * 4)
    split = Peer(SPEC, tmp_path / "model", CASE, prompts, tmp_path / "trl")
    split.inputs = whole.inputs
    assert (whole.passes, split.passes) == (1, 2)
    split.model.train()
    whole.accumulate()
    split.accumulate()
    gradients = dict(split.model.named_parameters())
    norm = 0.0
    for name, parameter in whole.model.named_parameters():
        torch.testing.assert_close(gradients[name].grad, parameter.grad, atol=1e-7, rtol=1e-4)
        norm += float(parameter.grad.norm())
    assert norm > 0
