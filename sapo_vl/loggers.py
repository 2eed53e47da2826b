"""Lightning's CSV logger, with one difference: a run that goes on keeps what it logged before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import loggers
from lightning.pytorch.utilities import rank_zero_only
from typing_extensions import override

from sapo_vl.report.history import set_aside


class CSVLogger(loggers.CSVLogger):
    """Logs to ``metrics.csv``; one that lies there already becomes ``metrics-1.csv``, and so on.

    Lightning's own deletes it, so that a resumed run would lose its history.
    """

    @property
    @override
    def experiment(self) -> Any:
        if self._experiment is None:
            rank_zero_only(set_aside)(Path(self.log_dir) / "metrics.csv")
        return super().experiment
