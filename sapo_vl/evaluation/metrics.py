"""avg@n as a torchmetrics Metric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric


class AvgAtN(Metric):
    """Mean score over n samples a prompt; standard error over prompts (samples are clustered).

    ``compute`` gives ``{"mean", "stderr", "n"}``: n counts prompts; stderr is the sample standard
    deviation of the prompts' means over sqrt(n), NaN below two prompts.
    """

    total: Tensor
    total_squared: Tensor
    n: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("total", "total_squared", "n"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, score_PN: Tensor) -> None:
        """Add prompts with their n scores each, in [0, 1]."""
        mean_P = score_PN.double().mean(dim=1)
        self.total += mean_P.sum()
        self.total_squared += mean_P.square().sum()
        self.n += len(mean_P)

    def compute(self) -> dict[str, Tensor]:
        """Mean, standard error and number of prompts."""
        mean = self.total / self.n
        variance = (self.total_squared / self.n - mean**2).clamp(min=0) / (self.n - 1)
        stderr = torch.where(self.n > 1, variance.sqrt(), torch.nan)
        return {"mean": mean.float(), "stderr": stderr.float(), "n": self.n.float()}
