"""``NAME-manifest.json``, beside the shards it describes: what they are, hold and came from."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamodules.shard_writer import ShardInfo, sha256_of
from datamodules.sources.described import TableSet
from datamodules.sources.table import Refusal
from datamodules.tally import Tally

_LISTED = 1000  # refusals named one by one; all of them are counted
_SHARD = re.compile(r"(.+)-\d{6}\.tar")


def build_manifest(
    name: str,
    shards: Mapping[str, ShardInfo],
    tally: Tally,
    *,
    described: TableSet,
    refused: Iterable[Refusal],
    options: Mapping[str, Any],
    digest: str = "",
) -> dict[str, Any]:
    """Give the manifest of a set of shards.

    Args:
        name: first part of the shards' names.
        shards: file name -> samples, bytes and hash.
        tally: what they hold.
        described: where they come from and what they may be used for.
        refused: what got into no shard.
        options: what the writer was asked for.
        digest: of everything the shards depend on; "": not known.
    """
    refused = list(refused)
    return {
        "name": name,
        **tally.summary(),
        "shards": {file: asdict(info) for file, info in shards.items()},
        "source": {"name": described.name, "origin": described.origin},
        "licence": described.licence,
        "evaluation_only": described.evaluation_only,
        "options": dict(options),
        "refused": {
            "count": len(refused),
            "why": dict(sorted(Counter(one.why for one in refused).items())),
            "listed": [
                {"why": one.why, "where": one.where, "detail": one.detail}
                for one in refused[:_LISTED]
            ],
        },
        "digest": digest,
    }


def manifest_path(folder: Path, name: str) -> Path:
    """Give the place of the manifest of the shards called ``name``."""
    return folder / f"{name}-manifest.json"


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a JSON file as a whole, so that it is never half written."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest, or the ``NAME-shards.json`` of an older version; empty if there is none.

    Raises:
        ValueError: it is there but can't be read.
    """
    if not path.is_file():
        path = path.with_name(path.name.replace("-manifest.json", "-shards.json"))
        if not path.is_file():
            return {}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        shards = {
            name: info if isinstance(info, dict) else {"samples": info}
            for name, info in manifest["shards"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no manifest ({error!r}); make the shards again") from None
    return {**manifest, "shards": shards}


def manifest_of_shard(path: Path) -> dict[str, Any]:
    """Read the manifest that belongs to a shard file; empty if there is none."""
    match = _SHARD.fullmatch(path.name)
    return read_manifest(manifest_path(path.parent, match[1])) if match else {}


def intact(folder: Path, shards: Mapping[str, Any]) -> bool:
    """Whether every shard of a manifest is in the folder with the hash it was written with."""
    return bool(shards) and all(
        (folder / name).is_file()
        and (folder / name).stat().st_size == info.get("bytes")
        and sha256_of(folder / name) == info.get("sha256")
        for name, info in shards.items()
    )
