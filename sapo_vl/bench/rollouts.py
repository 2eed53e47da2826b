"""Our sampler against transformers' generate: tokens a second at several P and G."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sapo_vl.bench.cases import Case, ModelSpec
from sapo_vl.bench.measure import Run, Stats, interleave, timed
from sapo_vl.bench.ours import Ours
from sapo_vl.bench.prompts import make_prompts

LABELS = {
    "ours": "ours",
    "returned": "generate, num_return_sequences=G",
    "repeated": "generate, prompts repeated G times",
}


def compare_rollouts(
    spec: ModelSpec, folder: Path, case: Case, prompts: int, repetitions: int
) -> dict[str, Stats]:
    """Seconds to draw G responses of C tokens to each of ``prompts`` prompts of one length."""
    ours = Ours(spec, folder, case, make_prompts(case, prompts))
    runs: dict[str, Run] = {
        "ours": timed(partial(ours.rollout, prompts)),
        "returned": timed(partial(_generate, ours, case.group, 1)),
        "repeated": timed(partial(_generate, ours, 1, case.group)),
    }
    for run in runs.values():
        run()  # warm up
    return interleave(runs, repetitions)


def _generate(ours: Ours, returned: int, repeats: int) -> None:
    """Transformers' own sampling from the same model, its inputs laid out as its processor would.

    All prompts have one length, so there is no padding.
    """
    inputs = [x for x in ours.batch.inputs for _ in range(repeats)]
    ids = torch.stack([x.input_ids_S for x in inputs])
    policy, size = ours.policy, ours.case.response
    policy.eval()
    with torch.no_grad():
        output = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=torch.stack([x.mm_token_type_ids_S for x in inputs]),
            **{key: torch.cat([x.media[key] for x in inputs]) for key in inputs[0].media},
            do_sample=True,
            num_return_sequences=returned,
            suppress_tokens=policy.banned_V.nonzero().flatten().tolist(),
            top_k=0,
            min_new_tokens=size,
            max_new_tokens=size,
        )
    policy.train()
    if tuple(output.shape) != (len(inputs) * returned, ids.shape[1] + size):
        raise RuntimeError(f"generate returned {tuple(output.shape)}; the comparison is void")


def to_json(case: Case, prompts: int, found: Mapping[str, Stats]) -> dict[str, Any]:
    """A case's figures, ready for json.dumps."""
    tokens = prompts * case.group * case.response
    return {
        **case.to_json(),
        "prompts": prompts,
        "variants": {
            name: {**stats.to_json(), "tokens_per_second": tokens / stats.median}
            for name, stats in found.items()
        },
    }


def to_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """A table of all cases."""
    return "\n".join(_lines(entries)) + "\n"


def _lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| P | C | G | prompts | variant | tokens/s | seconds | times ours |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for entry in entries:
        ours = entry["variants"]["ours"]["median"]
        sizes = " | ".join(str(entry[k]) for k in ("prompt", "response", "group", "prompts"))
        for name, stats in entry["variants"].items():
            low, high = stats["quartiles"]
            yield (
                f"| {sizes} | {LABELS[name]} | {stats['tokens_per_second']:.0f} "
                f"| {stats['median']:.3f} ({low:.3f} to {high:.3f}) "
                f"| {stats['median'] / ours:.2f} |"
            )
