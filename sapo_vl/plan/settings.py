"""Read the YAML files of ``sapo-vl fit`` as its command line does, without building anything."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from sapo_vl.cli import SapoCLI, build_cli
from sapo_vl.modules import SAPOModule
from sapo_vl.modules.batching import MicroBatch
from sapo_vl.plan.counts import Adapters
from sapo_vl.plan.sharding import Sharding, read_sharding
from sapo_vl.plan.states import moments_of
from sapo_vl.policy.config import Part
from sapo_vl.rollout import Sampler, VLLMEngine
from sapo_vl.types import Sampling

GPUS_PER_NODE = 8  # what trainer.devices: auto is taken for
SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What of ``model.init_args.policy`` memory depends on."""

    path: str
    freeze: tuple[Part, ...]
    adapters: Adapters | None
    quantize: bool
    size: int  # bytes of a weight of the model
    activation_size: int  # bytes of a number between layers
    checkpointing: bool
    share_prefix: bool
    head_chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run is, as far as memory and arithmetic go."""

    policy: PolicySettings
    sampling: Sampling
    evaluation: Mapping[str, Sampling]
    in_process: bool  # the policy samples; else servers do, on GPUs of their own
    sampler: Sampler | None  # None: an engine that works through its rows as it likes
    updates: int  # per iteration
    spare_prompts: int  # of every rank
    micro_batch: MicroBatch
    moments: int  # of the optimizer
    penalty: bool  # a KL penalty: a reference policy scores every response
    reference: str | None  # path of its second model; None: there is none, or it is the base
    prompts: int  # per iteration, over all ranks
    prompt_tokens: int  # of the longest prompt
    pixels: int  # of the largest image
    max_steps: int  # updates of the run; -1: no end
    nodes: int
    sharding: Sharding


class _Resolve(SapoCLI):
    """Parses as ``sapo-vl`` does, and stops there."""

    @override
    def instantiate_classes(self) -> None:
        pass

    @override
    def _set_seed(self) -> None:
        pass

    @override
    def _run_subcommand(self, subcommand: str) -> None:
        pass


def read_settings(arguments: Sequence[str], ranks: int | None = None) -> RunSettings:
    """Settings of ``sapo-vl fit ARGUMENTS`` (``["--config", "a.yaml", ...]``).

    Args:
        arguments: of the command line.
        ranks: takes the place of trainer.devices times trainer.num_nodes.

    Raises:
        SystemExit: the command line's own errors.
        ValueError: not a SAPOModule, no optimizer class, devices unknown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LightningCLI's args parameter")
        cli = build_cli(_Resolve, ["fit", *arguments])
    config = cli.config["fit"].as_dict()
    model, data, trainer = config["model"], config["data"]["init_args"], config["trainer"]
    kind = _class(model["class_path"])
    if not issubclass(kind, SAPOModule):
        raise ValueError(f"model.class_path is {kind.__name__}; the plan is of SAPOModule runs")
    arguments_of_model = model["init_args"]
    sharding = read_sharding(trainer["strategy"], ranks or _ranks(trainer))
    optimizer = arguments_of_model["optimizer"]
    class_path, options = _optimizer(optimizer)
    penalty = bool(arguments_of_model["kl"]["beta"])
    second = penalty and not arguments_of_model["policy"].get("lora")
    path = arguments_of_model["reference_path"] or arguments_of_model["policy"]["path"]
    return RunSettings(
        policy=_policy(
            arguments_of_model["policy"],
            str(trainer["precision"] or ""),
            sharding.stage is not None,
        ),
        sampling=Sampling(**arguments_of_model["sampling"]),
        evaluation={k: Sampling(**v) for k, v in (arguments_of_model["evaluation"] or {}).items()},
        in_process=_in_process(arguments_of_model["rollout"]),
        sampler=_sampler(arguments_of_model["rollout"]),
        updates=arguments_of_model["updates_per_iteration"],
        spare_prompts=arguments_of_model["spare_prompts"],
        micro_batch=MicroBatch(**arguments_of_model["micro_batch"]),
        moments=moments_of(class_path, options),
        penalty=penalty,
        reference=path if second else None,
        prompts=data["prompts_per_iteration"],
        prompt_tokens=data["max_prompt_tokens"],
        pixels=data["max_pixels"],
        max_steps=trainer["max_steps"],
        nodes=int(trainer["num_nodes"]),
        sharding=sharding,
    )


def _policy(policy: Mapping[str, Any], precision: str, deepspeed: bool) -> PolicySettings:
    """Half precision: "true" holds weights in it, "mixed" computes in it; DeepSpeed always both."""
    lora, own = policy.get("lora"), SIZES[policy["dtype"]]
    half = precision.startswith(("bf16", "16"))
    return PolicySettings(
        path=policy["path"],
        freeze=tuple(policy["freeze"]),
        adapters=_adapters(lora) if lora else None,
        quantize=bool(policy.get("quantize")),
        size=2 if half and (deepspeed or precision.endswith("true")) else own,
        activation_size=2 if half else own,
        checkpointing=policy["gradient_checkpointing"],
        share_prefix=policy["share_prefix"],
        head_chunk=policy["head_chunk_tokens"],
    )


def _adapters(lora: Mapping[str, Any]) -> Adapters:
    named = lora["targets"]
    return Adapters(
        rank=lora["rank"],
        targets=None if named == "all-linear" else tuple(named),
        parts=tuple(lora["parts"]),
    )


def _optimizer(optimizer: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(optimizer, Mapping) or "class_path" not in optimizer:
        return "torch.optim.AdamW", {"lr": 1e-6}  # the modules' default
    return optimizer["class_path"], dict(optimizer.get("init_args") or {})


def _in_process(rollout: Any) -> bool:
    kind = _class(rollout["class_path"]) if isinstance(rollout, Mapping) else type(rollout)
    return not issubclass(kind, VLLMEngine)


def _sampler(rollout: Any) -> Sampler | None:
    if not isinstance(rollout, Mapping):
        return rollout if isinstance(rollout, Sampler) else None
    kind = _class(rollout["class_path"])
    return kind(**(rollout.get("init_args") or {})) if issubclass(kind, Sampler) else None


def _ranks(trainer: Mapping[str, Any]) -> int:
    """Devices times nodes; all devices of a node (auto, -1) are taken to be 8."""
    devices = trainer["devices"]
    if devices in ("auto", -1, "-1"):
        devices = GPUS_PER_NODE
    count = len(devices) if isinstance(devices, list) else int(devices)
    return count * int(trainer["num_nodes"])


def _class(path: str) -> type:
    module, name = path.rsplit(".", 1)
    found: type = getattr(importlib.import_module(module), name)
    return found
