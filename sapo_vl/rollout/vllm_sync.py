"""Hand the policy's weights to vLLM servers, and check that they have arrived.

Rank 0 writes a folder that trainer and servers both see; every server loads it and forgets what it
had computed with the weights before. A folder gets its name when it is whole, and only then are the
servers told of it, so that a trainer that is killed leaves nothing half written to be loaded.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging as hf_logging

from sapo_vl.export.folder import whole_folder
from sapo_vl.policy import Policy
from sapo_vl.policy.published import save_published
from sapo_vl.rollout.vllm_client import VLLMClient, VLLMError
from sapo_vl.rollout.vllm_weights import published_state
from sapo_vl.strategies import together

# Keys and values of prompts and features of images, of the old weights. A reload empties the
# worker's store of features alone; the scheduler still counts on them, and the engine dies of it.
CACHES = ("/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache")
_OURS = re.compile(r"policy-\d{6}|\.policy-\d{6}\.\d+\.partial")


def hand_over(
    policy: Policy,
    strategy: Any,
    clients: Sequence[VLLMClient],
    folder: Path,
    version: int,
    dtype: torch.dtype,
) -> str:
    """Give every server the policy's weights; every rank has to call this.

    Returns the name that servers know these weights by: the folder that they came from.

    Args:
        policy: as it is trained.
        strategy: the trainer's.
        clients: all servers.
        folder: where weights are written, ``policy-000001`` and so on; older ones are removed.
        version: number of this hand-over.
        dtype: of the weights that are written.

    Raises:
        RuntimeError: rank 0 could not write or a server could not load, on every rank.
    """
    state = published_state(policy, dtype, keep=strategy.global_rank == 0)
    target = Path(strategy.broadcast(str(folder.resolve() / f"policy-{version:06d}"), src=0))

    with together(strategy):
        if strategy.global_rank == 0:
            _write(policy, target, state)
            state.clear()
            with ThreadPoolExecutor(len(clients)) as pool:
                list(pool.map(lambda client: load(client, target), clients))
            _remove_others(target)
    return str(target)


def _write(policy: Policy, target: Path, state: dict[str, Tensor]) -> None:
    try:
        with whole_folder(target, replace=True) as partial, _no_bar():
            save_published(policy.model, partial, state=state)
    except OSError as error:
        raise RuntimeError(
            f"weights for the vLLM server could not be written to {target}: {error} "
            "(model.rollout.init_args.folder)"
        ) from error


def load(client: VLLMClient, folder: Path) -> None:
    """Make one server load a Hugging Face folder, and forget what it knew.

    Raises:
        VLLMError: it could not; its weights may be mixed now.
    """
    try:
        client.call_workers("load_policy", str(folder))
        for path in CACHES:
            answer = client.post(path)
            if answer is not None and answer.get("success") is False:
                raise VLLMError(
                    f"{client.url}{path}: the cache was not emptied; does another program use "
                    "this server? A server samples for one training run alone."
                )
        client.post("/update_weight_version", {"new_version": str(folder)})
    except VLLMError as error:
        raise VLLMError(
            f"weights in {folder} were not loaded: {error} The server has to see this folder under "
            "the same path (model.rollout.init_args.folder). Its weights may be mixed now: start "
            "it again before the run goes on."
        ) from error


def largest_of_ranks(strategy: Any, device: torch.device, number: float) -> float:
    """The largest ``number`` of any rank."""
    own = torch.tensor(float(number), dtype=torch.float32, device=device)
    return float(strategy.reduce(own, reduce_op="max"))


@contextmanager
def _no_bar() -> Iterator[None]:
    """Without the progress bar that transformers shows for every file it writes."""
    shown = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            hf_logging.enable_progress_bar()


def _remove_others(target: Path) -> None:
    """Weights of earlier hand-overs, and what a killed run left half written."""
    for path in target.parent.iterdir():
        if path.name != target.name and _OURS.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
