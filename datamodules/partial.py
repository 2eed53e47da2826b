"""The shards of a set that isn't whole yet, in a folder of their own, and how far they go."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamodules.manifest import manifest_path, write_json
from datamodules.shard_index import ShardIndex
from datamodules.shard_writer import ShardInfo, ShardWriter, sha256_of
from datamodules.sources.table import Refusal
from datamodules.tally import Tally
from sapo_vl.types import Prompt

_STATE = "progress.json"


class Partial:
    """Finished shards of an interrupted run, if any, and the writers that go on from them.

    Args:
        out: the folder the shards are for.
        name: of the set.
        digest: of everything the shards depend on; what another digest left is thrown away. "":
            keep nothing on an interruption.
    """

    def __init__(self, out: Path, name: str, digest: str) -> None:
        self.out = out
        self.folder = out / f".{name}.partial"
        self.position = 0  # items gone through
        self.refused: dict[int, Refusal] = {}
        self.keys: set[str] = set()
        self.tallies: dict[str, Tally] = {}
        self.positions: dict[str, int] = {}  # per writer: items its finished shards cover
        self._writers: dict[str, ShardWriter] = {}
        self._digest = digest
        self._state = self._read()
        if not self._state:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob("*.part"):
            left.unlink()
        refused = self._state.get("refused", {})
        self.refused = {int(place): Refusal(**one) for place, one in refused.items()}

    def _read(self) -> dict[str, Any]:
        try:
            state = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        same = isinstance(state, dict) and self._digest and state.get("digest") == self._digest
        return state if same else {}

    def add_writer(self, name: str, by: str, *, max_samples: int, max_bytes: int) -> None:
        """Open the writer of a set, behind the shards it has already."""
        state = self._state.get("writers", {}).get(name, {})
        done = {shard: ShardInfo(**info) for shard, info in state.get("shards", {}).items()}
        if not self._intact(done):
            state, done = {}, {}
        for shard in done:
            index = ShardIndex(str(self._find(shard)))
            self.keys |= {key.partition("#")[2] for key in index.keys}
        self.tallies[name] = Tally.of_state(state["tally"]) if state else Tally(by)
        self.positions[name] = state.get("position", 0)
        self._writers[name] = ShardWriter(
            self.folder,
            name,
            max_samples=max_samples,
            max_bytes=max_bytes,
            done=done,
            on_shard=lambda: self._save(name),
        )

    def _find(self, shard: str) -> Path:
        """Give the place of a finished shard: it may have got its name in the last moment."""
        inside = self.folder / shard
        return inside if inside.is_file() else self.out / shard

    def _intact(self, shards: Mapping[str, ShardInfo]) -> bool:
        return all(
            self._find(shard).is_file() and sha256_of(self._find(shard)) == info.sha256
            for shard, info in shards.items()
        )

    def start(self) -> int:
        """Give the number of items that every writer has in its finished shards."""
        self.position = min(self.positions.values())
        return self.position

    def add(self, name: str, key: str, fields: Mapping[str, bytes], prompt: Prompt) -> None:
        """Write a sample and count it."""
        self._writers[name].add(key, fields)
        self.tallies[name].add(prompt)

    def shards(self, name: str) -> dict[str, ShardInfo]:
        """Give the finished shards of a set."""
        return self._writers[name].shards

    def finish(self) -> None:
        """Finish the shards in work."""
        for writer in self._writers.values():
            writer.finish()

    def _save(self, name: str) -> None:
        self.positions[name] = self.position
        writers = dict(self._state.get("writers", {}))
        writers[name] = {
            "shards": {shard: asdict(info) for shard, info in self.shards(name).items()},
            "tally": self.tallies[name].state(),
            "position": self.position,
        }
        self._state = {
            "digest": self._digest,
            "writers": writers,
            "refused": {place: asdict(one) for place, one in self.refused.items()},
        }
        if self._digest:
            # State last: a shard it names is whole.
            write_json(self.folder / _STATE, self._state)

    def close(self) -> None:
        """Delete the shards in work; finished ones stay where the next run can use them."""
        for writer in self._writers.values():
            writer.abandon()
        if not (self.folder / _STATE).is_file():
            shutil.rmtree(self.folder, ignore_errors=True)


def publish(partial: Partial, manifests: Sequence[Mapping[str, Any]]) -> list[list[Path]]:
    """Give every shard its name in the output folder, replace what was there, write the manifests.

    Stopped at any moment this leaves whole shards under final names and the next run finishes it.

    Returns:
        the paths of the shards of each set.
    """
    paths = []
    for manifest in manifests:
        name = manifest["name"]
        for old in (manifest_path(partial.out, name), partial.out / f"{name}-shards.json"):
            old.unlink(missing_ok=True)
        for old in partial.out.glob(f"{name}-*.tar"):
            # Shards left from a longer run would be found by NAME-*.tar and mixed in.
            ours = re.fullmatch(re.escape(name) + r"-\d{6}\.tar", old.name)
            if ours and (
                old.name not in manifest["shards"] or (partial.folder / old.name).is_file()
            ):
                old.unlink()
        for shard in manifest["shards"]:
            if (partial.folder / shard).is_file():
                os.replace(partial.folder / shard, partial.out / shard)
        write_json(manifest_path(partial.out, name), manifest)
        paths.append([partial.out / shard for shard in manifest["shards"]])
    shutil.rmtree(partial.folder, ignore_errors=True)
    return paths
