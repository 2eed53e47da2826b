"""One rank of two, in fits and validations in which something fails on one of them.

What ends a case is written down; then the process stays until the other rank has ended it, too.
Gloo tells a rank that another's process is gone, NCCL does not: here, neither does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import torch
import zero_case
from torch.utils.data import DataLoader

from sapo_vl.callbacks import ParityCheck
from sapo_vl.rollout import VLLMEngine
from sapo_vl.rollout.vllm_client import VLLMClient
from sapo_vl.verifiers import VerifierPool

PATIENCE = 60.0  # seconds


@dataclass(frozen=True)
class Failure:
    """What fails, on rank 1 if not said otherwise."""

    name: str
    model: str
    function: str = "fit"
    urls: list[str] = field(default_factory=list)  # of vLLM servers, one of which breaks
    verifier: bool = False
    media: bool = False  # placeholders that no picture belongs to


class Broken(VerifierPool):
    """A pool whose workers do not start."""

    def judge(self, pairs: Any) -> Any:
        raise RuntimeError("no worker starts")


def run(failure: Failure, out: Path, rank: int) -> None:
    case = zero_case.Case(failure.name, failure.model)
    module = zero_case.module_of(case)
    if failure.urls:
        engine = VLLMEngine(failure.urls, str(out / "weights"))
        engine.clients = [VLLMClient(url=url, pause=0.0, seconds=60.0) for url in failure.urls]
        module.rollout = engine
    if failure.verifier and rank == 1:
        module.verifier_pool = Broken()
    batches = zero_case.batches(case, 2, rank, 2)
    if failure.media and rank == 1:
        batches[0].inputs[0].mm_token_type_ids_S[0] = 1
    data = DataLoader(batches, batch_size=None)
    trainer = zero_case.trainer_of(case, out, 2, max_steps=4, callbacks=[ParityCheck()])
    getattr(trainer, failure.function)(module, data)


def main() -> None:
    out, rank = Path(sys.argv[1]), int(os.environ["LOCAL_RANK"])
    torch.set_num_threads(1)
    for content in json.loads((out / "failures.json").read_text()):
        failure = Failure(**content)
        L.seed_everything(0, verbose=False)
        try:
            run(failure, out, rank)
            said = "nothing"
        except Exception as error:
            notes = getattr(error, "__notes__", ())
            said = "\n".join([f"{type(error).__name__}: {error}", *notes])
        own, other = (out / f"{failure.name}-{r}.txt" for r in (rank, 1 - rank))
        own.write_text(said)
        start = time.monotonic()
        while not other.exists():
            if time.monotonic() - start > PATIENCE:
                os._exit(1)
            time.sleep(0.1)


if __name__ == "__main__":
    main()
