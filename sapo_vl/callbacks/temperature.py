"""Turn SAPO's temperatures while a run goes on: by the iteration, or by how far the policy moves.

Both start from what the objective is configured with, and replace ``module.objective`` before an
iteration, so that every update of it has one temperature. ``gate/tau_pos`` and ``gate/tau_neg`` log
what was used.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import lightning as L
import torch
from typing_extensions import override

from sapo_vl.callbacks.means import quantile
from sapo_vl.objectives import SAPO
from sapo_vl.types import IterationOutput, PromptBatch


class _Temperature(L.Callback):
    """Replace the objective's temperatures before every iteration."""

    configured: SAPO  # as the YAML says

    @override
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        objective = getattr(pl_module, "objective", None)
        if not isinstance(objective, SAPO):
            raise ValueError(
                f"{type(self).__name__} turns the temperatures of SAPO; model.objective is "
                f"{type(objective).__name__}. Take the callback out, or set model.objective to "
                "sapo_vl.objectives.SAPO"
            )
        others = [c for c in trainer.callbacks if isinstance(c, _Temperature) and c is not self]  # type: ignore[attr-defined]
        if others:
            raise ValueError(
                f"{type(self).__name__} and {type(others[0]).__name__} would both set the "
                "temperatures; take one of them out of trainer.callbacks"
            )
        self.configured = objective

    @override
    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: Any, batch: PromptBatch, batch_idx: int
    ) -> None:
        tau_pos, tau_neg = self._temperatures(pl_module.iteration)
        pl_module.objective = replace(self.configured, tau_pos=tau_pos, tau_neg=tau_neg)

    @override
    def on_fit_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        pl_module.objective = self.configured

    @override
    def on_exception(self, trainer: L.Trainer, pl_module: Any, exception: BaseException) -> None:
        if hasattr(self, "configured"):  # not before a fit has started
            pl_module.objective = self.configured

    @abstractmethod
    def _temperatures(self, iteration: int) -> tuple[float, float]:
        """tau_pos and tau_neg of an iteration."""


class TemperatureSchedule(_Temperature):
    """Move the temperatures in a straight line from the objective's own to others.

    Args:
        tau_pos: where the positive one ends.
        tau_neg: where the other ends.
        iterations: how long it takes; afterwards they stay.

    Raises:
        ValueError: ``iterations`` is not above 0, an end is no temperature, or, when a fit starts,
            the objective is not SAPO.
    """

    def __init__(self, tau_pos: float, tau_neg: float, iterations: int) -> None:
        if iterations < 1:
            raise ValueError(f"TemperatureSchedule: iterations is {iterations}; it must be above 0")
        SAPO(tau_pos, tau_neg)  # refuses what is no temperature
        self.end = (tau_pos, tau_neg)
        self.iterations = iterations

    @override
    def _temperatures(self, iteration: int) -> tuple[float, float]:
        done = min(iteration / self.iterations, 1.0)
        start = (self.configured.tau_pos, self.configured.tau_neg)
        # Written so that the ends are exact: a last bit could put tau_neg below tau_pos.
        tau_pos, tau_neg = ((1 - done) * a + done * b for a, b in zip(start, self.end, strict=True))
        return tau_pos, tau_neg


class TemperatureController(_Temperature):
    """Narrow the gate while the policy moves too far within an iteration, and let go again.

    Both temperatures are the objective's own times one factor from 1 up. After an iteration the
    factor is multiplied by (q / target) ** rate, with q the 95 % quantile of |log ratio|, the
    figure of ``gate/abs_log_ratio_p95``. A checkpoint keeps the factor.

    Args:
        target: the quantile to hold; log(1.2) = 0.18 is about where GRPO clips.
        rate: how fast, above 0; 1 answers a doubled quantile with a doubled temperature.
        most: the largest factor.

    Raises:
        ValueError: an argument is not above 0, ``most`` is below 1, or, when a fit starts, the
            objective is not SAPO.
    """

    def __init__(self, target: float = 0.18, rate: float = 0.2, most: float = 12.0) -> None:
        for name, value, least in (("target", target, 0), ("rate", rate, 0), ("most", most, 1)):
            if not (value > 0 and value >= least and math.isfinite(value)):
                raise ValueError(
                    f"TemperatureController: {name} is {value}; it must be a finite number "
                    + (f"from {least}" if least else "above 0")
                )
        self.target, self.rate, self.most = target, rate, most
        self.factor = 1.0

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
    ) -> None:
        output: IterationOutput = outputs["iteration"]
        size = torch.cat([u.log_ratio_NT[u.mask_NT].abs() for u in output.updates])
        self.answer(float(trainer.strategy.reduce(quantile(size, 0.95), reduce_op="mean")))

    def answer(self, moved: float) -> None:
        """Set the factor after an iteration whose 95 % quantile of |log ratio| was ``moved``."""
        step = (max(moved, 1e-9) / self.target) ** self.rate
        self.factor = min(max(self.factor * step, 1.0), self.most)

    @override
    def _temperatures(self, iteration: int) -> tuple[float, float]:
        return self.factor * self.configured.tau_pos, self.factor * self.configured.tau_neg

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"factor": self.factor}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.factor = float(state_dict["factor"])
