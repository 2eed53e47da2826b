"""When too many samples can't be used, the data are not what the user thinks: end the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import lightning as L
import torch

from datamodules.shard_index import ShardIndex
from sapo_vl.types import PromptBatch, Skip

LEAST_SEEN = 200  # samples, over all ranks: before, a share says little
SHOWN = 3


class TooManySkippedError(RuntimeError):
    """A larger share of the samples could not be used than ``data.max_skipped_share`` allows."""


class SkipBudget:
    """Counts the samples of a run that were used and left out; a resumed run counts anew.

    What the index of the shards leaves out is judged beside all its samples, once; what turns out
    while samples are read, beside the samples read.

    Args:
        share: of samples that may be left out.

    Raises:
        ValueError: the share is not in [0, 1].
    """

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"data.max_skipped_share is {share}; it must lie in [0, 1]")
        self.share = share
        self.known: set[Skip] = set()
        self.seen: Counter[str] = Counter()  # stage -> samples, over all ranks in training
        self.left_out: Counter[str] = Counter()
        self.skips: dict[str, Counter[str]] = {}  # stage -> why -> samples of this rank
        self.last: dict[str, Skip] = {}  # why -> an example

    def check_index(self, task: str, index: ShardIndex) -> None:
        """Judge what the index of a task's shards left out.

        Raises:
            TooManySkippedError: too much of at least LEAST_SEEN samples.
        """
        self.known.update(index.problems)
        total = len(index) + len(index.problems)
        if total >= LEAST_SEEN and len(index.problems) > self.share * total:
            last = {skip.why: skip for skip in index.problems}
            counts = Counter(skip.why for skip in index.problems)
            raise TooManySkippedError(
                self._message(f"task {task!r}", len(index.problems), total, counts, last)
            )

    def note(self, batch: PromptBatch, trainer: L.Trainer) -> None:
        """Count a batch; all ranks come to the same end in training.

        Raises:
            TooManySkippedError: too many were left out so far in this stage.
        """
        stage = trainer.state.stage.value if trainer.state.stage else ""
        skipped = [skip for skip in batch.skipped if skip not in self.known]
        self._remember(stage, skipped)
        counts = torch.tensor([len(batch) + len(skipped), len(skipped)])
        if trainer.training and trainer.world_size > 1:
            # In evaluation a rank may have one batch more than another, which would wait for ever.
            counts = counts.to(trainer.strategy.root_device)
            counts = trainer.strategy.reduce(counts, reduce_op="sum")
        seen, left_out = counts.tolist()
        self.seen[stage] += seen
        self.left_out[stage] += left_out
        seen, left_out = self.seen[stage], self.left_out[stage]
        if seen >= LEAST_SEEN and left_out > self.share * seen:
            raise TooManySkippedError(
                self._message(f"the {stage} stage", left_out, seen, self.skips[stage], self.last)
            )

    def _remember(self, stage: str, skipped: Iterable[Skip]) -> None:
        reasons = self.skips.setdefault(stage, Counter())
        for skip in skipped:
            reasons[skip.why] += 1
            self.last[skip.why] = skip

    def _message(
        self, where: str, left_out: int, seen: int, counts: Counter[str], last: dict[str, Skip]
    ) -> str:
        reasons = "; ".join(
            f"{count} {why}, such as {last[why].where}: {last[why].detail}"
            for why, count in counts.most_common(SHOWN)
        )
        return (
            f"{where}: {left_out} of {seen} samples could not be used, more than"
            f" data.max_skipped_share ({self.share:g}) allows. {reasons or 'Other ranks say why'}."
            " Mend the shards (scripts/make_shards.py --check lists their faults), or raise the"
            " share."
        )
