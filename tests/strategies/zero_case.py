"""One small fit, the same prompts on any number of ranks; also what torchrun starts.

Rank 0 of two has pictures, rank 1 text alone; a rank's groups that carry no signal leave it with
fewer micro-batches than the other; responses end at different lengths.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from models import encode, picture
from project import trainer as quiet_trainer
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from sapo_vl.callbacks import IterationCheckpoint, ParityCheck
from sapo_vl.modules import SAPOModule, SFTModule
from sapo_vl.modules.batching import MicroBatch
from sapo_vl.objectives import KLPenalty
from sapo_vl.policy import AdapterConfig, PolicyConfig
from sapo_vl.processor import load_processor
from sapo_vl.rollout.vllm_weights import published_state
from sapo_vl.strategies import FSDP2Strategy, ZeroStrategy, whole_weights
from sapo_vl.types import Prompt, PromptBatch, Sampling, Verdict

PER_RANK = 4  # prompts


@dataclass(frozen=True)
class Case:
    """What differs between the fits."""

    name: str
    model: str
    stage: int = 0  # 0: no DeepSpeed
    fsdp2: bool = False
    precision: str = "32-true"
    optimizer: str = "SGD"
    clip: float = 0.5
    lr: float = 0.5
    freeze: list[str] = field(default_factory=list)
    weights: str = "pretrained"
    offload: bool = False
    checkpointing: bool = False
    videos: bool = False  # beside every other picture
    lora: list[str] = field(default_factory=list)  # layers that get adapters
    kl: float = 0.0  # beta of the penalty
    reference: str = ""  # folder of its reference policy, if not the model's
    accumulate: int = 0  # batches a step of supervised fine-tuning; 0: SAPO
    iterations: int = 2  # steps in supervised fine-tuning
    stop: int = 0  # iterations after which to stop, save and go on in another fit
    folder: str = ""  # of the checkpoint


class Halves:
    """Scores that depend on the response alone; every fourth prompt's are all 0."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        score = float(sum(response.encode()) % 2) if prompt.index % 4 != 1 else 0.0
        return Verdict(score=score, extracted=response)


class Kept(L.Callback):
    """What the fit came to."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.rotary: dict[str, torch.Tensor] = {}
        self.published: dict[str, torch.Tensor] = {}  # as a vLLM server gets them
        self.held: dict[str, int] = {"unreduced": 0}  # bytes on this rank

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        if "iteration" not in outputs:  # supervised fine-tuning
            return
        out = outputs["iteration"]
        for u in out.updates:
            row = {"grad_norm": u.grad_norm, "lr": u.lr, "ratio": float(u.log_ratio_NT.abs().max())}
            row |= {} if u.kl_NT is None else {"kl": float(u.kl_NT.max())}
            self.rows.append(row | {"iteration": out.iteration})

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        parts = [m for m in pl_module.modules() if isinstance(m, FSDPModule)]
        groups = [group for part in parts for group in part._get_fsdp_state()._fsdp_param_groups]
        held = 0
        for one in (one for group in groups for one in group.fsdp_params):
            grad = one.unsharded_accumulated_grad
            grad = one._unsharded_param.grad if grad is None else grad
            held += 0 if grad is None else grad.nbytes
        self.held["unreduced"] = max(self.held["unreduced"], held)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        parameters = list(pl_module.policy.parameters())
        optimizer = trainer.optimizers[0]
        states = [v for state in optimizer.state.values() for v in state.values()]
        moments = [v for v in states if isinstance(v, torch.Tensor) and v.ndim]
        self.held["weights"] = sum(share(p).nbytes for p in parameters)
        self.held["optimizer"] = sum(share(v).nbytes for v in moments)
        self.held["gradients"] = sum(share(p.grad).nbytes for p in parameters if p.grad is not None)
        self.published = published_state(pl_module.policy, torch.float32, keep=True)
        with torch.no_grad(), whole_weights(trainer.strategy):
            assert not torch.is_grad_enabled()  # a graph would be kept for nothing
            self.held["whole"] = sum(p.nbytes for p in pl_module.policy.parameters())
            state = pl_module.policy.model.state_dict()
            self.weights = {k: whole(v).float().cpu().clone() for k, v in state.items()}
            buffers = pl_module.policy.model.named_buffers()
            self.rotary = {k: v.clone() for k, v in buffers if k.endswith("inv_freq")}


def whole(value: torch.Tensor) -> torch.Tensor:
    """All of a tensor that FSDP2 may have split."""
    return getattr(value.detach(), "full_tensor", value.detach)()


def share(value: Any) -> torch.Tensor:
    """What this rank has of a tensor that FSDP2 may have split."""
    found: torch.Tensor = value.to_local() if isinstance(value, DTensor) else value
    return found


def batches(case: Case, iterations: int, rank: int, world: int) -> list[PromptBatch]:
    processor = load_processor(case.model)
    found = []
    for iteration in range(iterations):
        prompts, inputs = [], []
        for i in range(2 * PER_RANK):
            owner = i // PER_RANK
            if world == 2 and owner != rank:
                continue
            index = iteration * 2 * PER_RANK + i
            images = [picture(32 + 16 * (i % 2), 32, str(index))] if owner == 0 else []
            frames = np.stack([np.asarray(picture(32, 48, f"{index} {n}")) for n in range(4)])
            videos = [frames] if images and i % 2 and case.videos else []
            inputs.append(encode(processor, f"How many are red? {index}", images, videos))
            task = "picture" if owner == 0 else "text"
            prompts.append(
                Prompt(
                    reference="1",
                    task=task,
                    index=index,
                    verifier=Halves(),
                    key=str(index),
                    response="red " * (1 + i % 3) + str(index),
                )
            )
        found.append(PromptBatch(prompts, inputs, ["picture", "text"]))
    return found


def module_of(case: Case) -> SAPOModule | SFTModule:
    kind = getattr(torch.optim, case.optimizer)
    shared: dict[str, Any] = {
        "policy": PolicyConfig(
            path=case.model,
            freeze=case.freeze,
            weights=case.weights,
            head_chunk_tokens=5,  # several chunks, more on one rank than on the other
            gradient_checkpointing=case.checkpointing,
            lora=AdapterConfig(rank=4, alpha=8, targets=case.lora) if case.lora else None,
        ),
        "optimizer": lambda p: kind(p, lr=case.lr),
        "lr_scheduler": lambda o: LambdaLR(o, lambda step: 1 / (1 + step)),
    }
    if case.accumulate:
        return SFTModule(**shared)
    module = SAPOModule(
        sampling=Sampling(group_size=4, max_new_tokens=8),
        micro_batch=MicroBatch(responses=3),
        gradient_clip_norm=case.clip,
        kl=KLPenalty(case.kl),
        reference_path=case.reference or None,
        **shared,
    )
    build = module.configure_model

    def configure_model() -> None:
        build()
        # Any of many tokens ends a response, so that lengths differ.
        module.policy.eos_ids = (*module.policy.eos_ids, *range(0, 300, 5))

    module.configure_model = configure_model  # type: ignore[method-assign]
    return module


def trainer_of(case: Case, root: Path, world: int, **changes: Any) -> L.Trainer:
    strategy: Any = "ddp" if world > 1 else "auto"
    if case.stage:
        strategy = ZeroStrategy(
            stage=case.stage,
            offload_optimizer=case.offload,
            offload_parameters=case.offload and case.stage == 3,
            reduce_bucket_size=5000,  # several buckets
            param_persistence_threshold=0,  # everything is split
        )
    if case.fsdp2:
        strategy = FSDP2Strategy()
    if case.accumulate:
        changes |= {"accumulate_grad_batches": case.accumulate, "gradient_clip_val": case.clip}
    hosts = int(os.environ.get("GROUP_WORLD_SIZE", 1))  # of torchrun
    return quiet_trainer(
        root,
        num_nodes=hosts,
        devices=world // hosts,
        strategy=strategy,
        precision=case.precision,
        **changes,
    )


def run(case: Case, root: Path, rank: int = 0, world: int = 1) -> dict[str, Any]:
    """Fit; returns the weights at the end (whole, float32) and a row for every update."""
    L.seed_everything(0, verbose=False)  # random weights are drawn in every process
    kept = Kept()
    count = case.iterations * max(1, case.accumulate)
    data = DataLoader(batches(case, count, rank, world), batch_size=None)
    steps = (1 if case.accumulate else 2) * (case.stop or case.iterations)
    first = trainer_of(case, root, world, max_steps=steps, callbacks=[kept, ParityCheck()])
    if case.stop:
        first.callbacks.append(IterationCheckpoint(0, export=False, folder=case.folder))
    first.fit(module_of(case), data)
    if case.stop:
        rows = kept.rows
        kept = Kept()
        second = trainer_of(case, root, world, max_steps=2 * case.iterations, callbacks=[kept])
        # The stream is what skips the prompts that have been trained on; this stands in for it.
        rest = batches(case, case.iterations, rank, world)[case.stop :]
        path = Path(case.folder) / "checkpoints" / f"iteration-{case.stop:06d}.ckpt"
        second.fit(module_of(case), DataLoader(rest, batch_size=None), ckpt_path=path)
        kept.rows = rows + kept.rows
    names = ("weights", "rotary", "rows", "published", "held")
    return {name: getattr(kept, name) for name in names}


def main() -> None:
    faulthandler.dump_traceback_later(300)  # says where ranks hang, should they
    out, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    torch.set_num_threads(1)
    for content in json.loads((out / "cases.json").read_text()):
        case = Case(**content)
        result = run(case, out, rank, int(os.environ["WORLD_SIZE"]))
        torch.save(result, out / f"{case.name}-{rank}.pt")
        print(f"done: {case.name}", flush=True)


def dump(cases: list[Case], out: Path) -> None:
    (out / "cases.json").write_text(json.dumps([asdict(c) for c in cases]))


if __name__ == "__main__":
    main()
