"""How often a model solved each sample, out of the lines of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datamodules.jsonl import read_objects

# A verifier that failed says nothing about the response.
_UNJUDGED = ("error", "unparsable_reference")


class PassRates:
    """Mean scores by sample.

    Args:
        files: ``samples.jsonl`` files of an evaluation.
        sampling: use only answers drawn with the sampling of this name; "": there is only one.

    Raises:
        ValueError: a line can't be read or is no answer, there is no answer, or the answers were
            drawn in several ways.
    """

    def __init__(self, files: Sequence[str | Path], sampling: str) -> None:
        self.files = [Path(file) for file in files]
        self._scores: dict[str, list[float]] = {}
        # "<file name>#<key>" -> the whole keys it stands for
        self._labels: dict[str, set[str]] = {}
        self._used: set[str] = set()
        names: set[str] = set()
        for file in self.files:
            for where, record in read_objects(file):
                drawn = str(record.get("sampling", ""))
                if sampling and drawn != sampling:
                    continue
                names.add(drawn)
                self._add(where, record)
        if len(names) > 1:
            raise ValueError(
                f"the answers were drawn in several ways ({', '.join(sorted(names))}); choose one:"
                " --sampling NAME"
            )
        if not self._scores:
            chosen = f" drawn with {sampling!r}" if sampling else ""
            raise ValueError(f"no answers{chosen} in {', '.join(map(str, self.files))}")
        self.sampling = names.pop()

    def _add(self, where: str, record: Mapping[str, Any]) -> None:
        key, responses = record.get("key"), record.get("responses")
        if not isinstance(key, str) or not isinstance(responses, list):
            raise ValueError(
                f'{where}: no "key" and "responses"; give the samples.jsonl of an evaluation'
            )
        scores = self._scores.setdefault(_short(key), [])
        self._labels.setdefault(_short(key), set()).add(key)
        for response in responses:
            score = response.get("score") if isinstance(response, dict) else None
            if isinstance(score, int | float) and response.get("status") not in _UNJUDGED:
                scores.append(float(score))

    def of(self, key: str) -> tuple[float | None, int]:
        """Give the mean score of a sample and of how many responses; None: there is none.

        Raises:
            ValueError: the answers speak of several samples of this name.
        """
        short = _short(key)
        if len(self._labels.get(short, ())) > 1:
            raise ValueError(
                f"the answers speak of several samples called {short}:"
                f" {', '.join(sorted(self._labels[short]))}; filter one set at a time, with its own"
                " answers"
            )
        self._used.add(short)
        scores = self._scores.get(short, [])
        return (sum(scores) / len(scores), len(scores)) if scores else (None, 0)

    def unused(self) -> int:
        """Count the answered samples that nobody asked for."""
        return len(self._scores.keys() - self._used)


def _short(key: str) -> str:
    """Give a key without the folder: where two shards share a name, a run keeps their folders."""
    shard, mark, name = key.rpartition("#")
    return f"{Path(shard).name}{mark}{name}"
