"""A test run of the small project that slows down, to be killed: python resumed.py MODEL OUT ..."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from project import Project, trainer

from sapo_vl.callbacks import ResultWriter
from sapo_vl.rollout import Sampler
from sapo_vl.types import Sampling

EVALUATION = {
    "greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=4),
    "avg2": Sampling(group_size=2, max_new_tokens=4),
}


class SlowSampler:
    """Waits before every rollout, and says how many prompts it answered."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.answered = seconds, 0
        self.sampler = Sampler()

    def ready(self, policy: Any, strategy: Any) -> Any:
        return self.sampler.ready(policy, strategy)

    def __call__(self, policy: Any, batch: Any, sampling: Any, seed: Any) -> Any:
        time.sleep(self.seconds)
        self.answered += len(batch)
        return self.sampler(policy, batch, sampling, seed)


def run(project: Project, out: Path, seconds: float = 0.0, devices: int = 1, **writer: Any) -> int:
    """Test; returns how many prompts were answered, over the samplings."""
    sampler = SlowSampler(seconds)
    module = project.sapo(evaluation=EVALUATION, rollout=sampler)
    options: dict[str, Any] = {"devices": devices, "strategy": "ddp" if devices > 1 else "auto"}
    t = trainer(out, callbacks=[ResultWriter(str(out), **writer)], **options)
    t.test(module, project.data(eval_batch_size=4), verbose=False)
    return sampler.answered


if __name__ == "__main__":
    run(Project(Path(sys.argv[1])), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
