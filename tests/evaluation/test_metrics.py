from __future__ import annotations

import numpy as np
import pytest
import torch

from sapo_vl.evaluation import AvgAtN


def test_mean_and_standard_error_over_prompts() -> None:
    scores = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    metric = AvgAtN()
    for part in scores.split(7):
        metric.update(part)
    result = metric.compute()
    means = scores.double().mean(1).numpy()
    assert float(result["mean"]) == pytest.approx(means.mean())
    assert float(result["stderr"]) == pytest.approx(means.std(ddof=1) / np.sqrt(40))
    assert float(result["n"]) == 40


def test_samples_of_a_prompt_are_not_counted_as_independent() -> None:
    metric = AvgAtN()
    metric.update(torch.tensor([[1.0] * 100, [0.0] * 100]))
    # Two prompts: the standard deviation of (1, 0) over sqrt(2), however many samples.
    assert float(metric.compute()["stderr"]) == pytest.approx(0.5)


def test_one_prompt_has_no_standard_error() -> None:
    metric = AvgAtN()
    metric.update(torch.tensor([[1.0, 0.0]]))
    assert float(metric.compute()["mean"]) == 0.5
    assert metric.compute()["stderr"].isnan()
