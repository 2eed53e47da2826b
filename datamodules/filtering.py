"""Keep the prompts a model solves sometimes: drop what it always or never solves.

Two commands: answer every prompt of the train shards n times, with ``evaluation: {avg8:
{group_size: 8, temperature: 1.0}}``, the train shards as ``test_tasks`` and a ``ResultWriter``,
then leave out what was always or never solved::

    sapo-vl test --config configs/data/answers.yaml
    scripts/make_shards.py --filter runs/answers/samples.jsonl --sampling avg8 SHARDS OUT_DIR

The answers are the lines an evaluation writes (``samples.jsonl``): ``key`` names the sample,
``responses[].score`` says how good each response was. A kept sample's JSON gets ``pass_rate`` (the
mean score) and ``pass_n`` (of how many responses). ``--min-pass`` and ``--max-pass`` are the
bounds; what went and why is printed and stands in the manifest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from datamodules.manifest import build_manifest, manifest_of_shard
from datamodules.partial import Partial, publish
from datamodules.pass_rates import PassRates
from datamodules.samples import read_sample
from datamodules.shard_check import find_shards
from datamodules.shard_index import ShardIndex
from datamodules.sources.described import TableSet
from datamodules.sources.table import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PassFilter:
    """Which samples stay.

    Args:
        min_pass: smallest pass rate that stays; the default drops what is never solved.
        max_pass: largest pass rate that stays; the default drops what is always solved.
        unanswered: what becomes of a sample without a judged response.
        sampling: use only answers drawn with the sampling of this name; "": there is only one.

    Raises:
        ValueError: bounds out of order.
    """

    min_pass: float = 1e-6
    max_pass: float = 1 - 1e-6
    unanswered: Literal["keep", "drop"] = "drop"
    sampling: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.min_pass <= self.max_pass <= 1:
            raise ValueError(
                f"--min-pass is {self.min_pass} and --max-pass {self.max_pass}; they must lie in"
                " [0, 1], the smaller one first"
            )


def filter_shards(
    shards: str | Path,
    answers: Sequence[str | Path],
    out_dir: str | Path,
    rule: PassFilter | None = None,
    *,
    max_samples: int = 10_000,
    max_bytes: int = 1_000_000_000,
) -> dict[str, Any]:
    """Write the samples that stay into new shards of the same names in another folder.

    Args:
        shards: a folder of shards, or a pattern.
        answers: ``samples.jsonl`` files of an evaluation on these shards.
        out_dir: where to; must not be the folder of the shards.
        rule: which samples stay.
        max_samples: a shard holds at most this many samples.
        max_bytes: a shard is closed before its content passes this size.

    Returns:
        ``kept``, ``dropped`` (too_hard, too_easy, unanswered -> number), ``unanswered_kept``,
        ``unmatched_answers`` (keys that no shard has), ``sets`` (the manifests) and ``empty``
        (names of sets of which nothing stays, with what was dropped; they are not written).

    Raises:
        ValueError: answers that can't be read or used, or nothing stays.
    """
    rule = rule or PassFilter()
    out = Path(out_dir)
    paths = [Path(path) for path in find_shards(shards)[0]]
    if out.resolve() in {path.parent.resolve() for path in paths}:
        raise ValueError(f"{out} holds the shards themselves; give another folder to write to")
    rates = PassRates(answers, rule.sampling)
    out.mkdir(parents=True, exist_ok=True)
    found = {
        name: _filter_set(name, group, rates, out, rule, max_samples, max_bytes)
        for name, group in _by_set(paths).items()
    }
    return _summary(found, rates)


def _by_set(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group shards by the name before their number."""
    sets: dict[str, list[Path]] = {}
    for path in paths:
        sets.setdefault(path.stem.rpartition("-")[0] or path.stem, []).append(path)
    return sets


def _summary(found: Mapping[str, dict[str, Any]], rates: PassRates) -> dict[str, Any]:
    made = [one for one in found.values() if one["samples"]]
    empty = {name: one["dropped"] for name, one in found.items() if not one["samples"]}
    if not made:
        raise ValueError(
            f"no sample stays ({empty}); look at the bounds, and at whether the answers belong to"
            " these shards"
        )
    dropped = [*(one["filter"]["dropped"] for one in made), *empty.values()]
    return {
        "kept": sum(manifest["samples"] for manifest in made),
        "dropped": dict(sum((Counter(one) for one in dropped), Counter())),
        "unanswered_kept": sum(one["filter"]["unanswered_kept"] for one in made),
        "unmatched_answers": rates.unused(),
        "sets": made,
        "empty": empty,
    }


def _filter_set(
    name: str,
    paths: list[Path],
    rates: PassRates,
    out: Path,
    rule: PassFilter,
    max_samples: int,
    max_bytes: int,
) -> dict[str, Any]:
    partial = Partial(out, name, digest="")
    unanswered_kept = 0
    try:
        partial.add_writer(name, "", max_samples=max_samples, max_bytes=max_bytes)
        for place, (key, fields) in enumerate(_raw_samples(paths)):
            rate, n = rates.of(key)
            why = _why_dropped(rate, rule)
            if why:
                detail = f"{n} responses" if rate is None else f"pass rate {rate:.3f} of {n}"
                partial.refused[place] = Refusal(why=why, where=key, detail=detail)
                continue
            unanswered_kept += rate is None
            marked = _mark(fields, rate, n)
            partial.add(name, key.partition("#")[2], marked, read_sample(marked, key=key))
        partial.finish()
        dropped = dict(sorted(Counter(one.why for one in partial.refused.values()).items()))
        if not partial.tallies[name].samples:
            return {"samples": 0, "dropped": dropped}
        manifest = _manifest(partial, name, manifest_of_shard(paths[0]))
        manifest["filter"] = {
            "answers": [path.name for path in rates.files],
            "min_pass": rule.min_pass,
            "max_pass": rule.max_pass,
            "sampling": rates.sampling,
            "dropped": dropped,
            "unanswered_kept": unanswered_kept,
        }
        publish(partial, [manifest])
    finally:
        partial.close()
    return manifest


def _manifest(partial: Partial, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the new shards; origin and licence are those of the old ones."""
    source = before.get("source", {})
    return build_manifest(
        name,
        partial.shards(name),
        partial.tallies[name],
        described=TableSet(
            name=source.get("name", name),
            origin=source.get("origin", ""),
            licence=before.get("licence", ""),
            evaluation_only=bool(before.get("evaluation_only")),
        ),
        refused=partial.refused.values(),
        options=before.get("options", {}),
    )


def _why_dropped(rate: float | None, rule: PassFilter) -> str:
    if rate is None:
        return "unanswered" if rule.unanswered == "drop" else ""
    if rate < rule.min_pass:
        return "too_hard"
    return "too_easy" if rate > rule.max_pass else ""


def _raw_samples(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, bytes]]]:
    index = ShardIndex([str(path) for path in paths])
    for i, key in enumerate(index.keys):
        yield key, index.read(i)


def _mark(fields: Mapping[str, bytes], rate: float | None, n: int) -> dict[str, bytes]:
    if rate is None:
        return dict(fields)
    data = {**json.loads(fields["json"]), "pass_rate": round(rate, 6), "pass_n": n}
    return {**fields, "json": json.dumps(data, ensure_ascii=False).encode()}
