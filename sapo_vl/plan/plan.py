"""The plan of a run on one GPU of it: terms by phase, whether they fit, and what would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sapo_vl.modules.batching import MicroBatch
from sapo_vl.plan import states
from sapo_vl.plan.activations import Activations, MicroBatchSize, Scoring, update_activations
from sapo_vl.plan.architecture import load_architecture, meta_model
from sapo_vl.plan.arithmetic import Arithmetic, Lengths, arithmetic, largest_micro_batch
from sapo_vl.plan.counts import Counts, count
from sapo_vl.plan.rollout import NOTHING, RolloutMemory, RolloutSize, pass_size, rollout_memory
from sapo_vl.plan.settings import RunSettings
from sapo_vl.plan.shape import Shape
from sapo_vl.plan.sharding import Sharding
from sapo_vl.rollout import Sampler

GIB = 2**30
USABLE = 0.99  # of a GPU's nominal GiB: torch finds 79.2 of 80
MOST_ROWS = 4096  # where the search ends


def gpu_bytes(nominal: float) -> int:
    """Bytes of a GPU of so many GB, as vendors call them: an 80 GB one has 79.2 GiB."""
    return int(nominal * USABLE * GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes that stay on the GPU, and those of a moment, all of one rank."""

    weights: int
    reference: int  # of a KL penalty's second model
    gradients: int
    optimizer: int
    communication: int
    step: int  # during the optimizer's step alone
    unreduced: int  # gradients before ranks exchange them, where that is later
    layers: int  # gathered while training
    whole: int  # gathered for a rollout
    context: int
    cpu: int  # CPU memory, where states are offloaded

    @property
    def held(self) -> int:
        """What every phase finds on the GPU."""
        held = self.weights + self.reference + self.optimizer
        return held + self.communication + self.context


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Memory of one GPU by phase, in bytes, and the arithmetic of the run."""

    run: RunSettings
    shape: Shape
    counts: Counts
    lengths: Lengths
    packed: bool
    states: States
    micro_batch: MicroBatchSize
    activations: dict[str, Activations]  # by how they could be computed; "run": as it will be
    rollout: RolloutMemory
    arithmetic: Arithmetic

    @property
    def peaks(self) -> dict[str, int]:
        """The most that each phase takes."""
        held = self.states.held
        update = max(self.states.gradients, self.states.unreduced) + self.states.layers
        return {
            "rollout": held + self.states.whole + _padded(self.rollout.peak),
            "update": held + update + _padded(self.activations["run"].peak),
            "optimizer step": held + self.states.gradients + _padded(self.states.step),
        }

    @property
    def peak(self) -> int:
        """The most of all phases."""
        return max(self.peaks.values())

    def fits(self, memory: int) -> bool:
        """Whether every phase stays within ``memory`` bytes."""
        return self.peak <= memory


def _padded(come_and_go: int) -> int:
    return int(come_and_go * (1 + states.FRAGMENTS))


def make_plan(run: RunSettings, lengths: Lengths | None = None) -> Plan:
    """Plan a run.

    Args:
        run: its settings.
        lengths: of prompts and responses; by default the longest that the settings allow, with one
            image at the pixel budget in every prompt.

    Raises:
        FileNotFoundError: no architecture is known for ``policy.path``, or the reference policy's.
        ValueError: the batch arithmetic does not work out.
    """
    config = load_architecture(run.policy.path)
    shape = Shape.of(config)
    lengths = lengths or longest(run, shape)
    packed = run.policy.share_prefix and not shape.text.delta_layers
    policy = run.policy
    counts = count(meta_model(config), policy.freeze, policy.adapters, quantize=policy.quantize)
    if run.reference is not None:
        second = load_architecture(run.reference, "model.reference_path")
        counts = replace(counts, reference=count(meta_model(second)).total)
    batch = largest_micro_batch(run, lengths, packed=packed)
    work = arithmetic(run, lengths, packed=packed)
    return Plan(
        run=run,
        shape=shape,
        counts=counts,
        lengths=lengths,
        packed=packed,
        states=_states(run, counts, work),
        micro_batch=batch,
        activations=_activations(run, shape, counts, batch),
        rollout=_rollout(run, shape, lengths),
        arithmetic=work,
    )


def with_sharding(plan: Plan, sharding: Sharding) -> Plan:
    """The same run under another strategy, on as many GPUs, weights in the dtype that it takes."""
    policy = plan.run.policy
    if sharding.fsdp2:
        policy = replace(policy, size=4)  # it refuses others under mixed precision
    elif sharding.stage is not None:
        policy = replace(policy, size=policy.activation_size)
    sharding = replace(sharding, ranks=plan.run.sharding.ranks)
    run = replace(plan.run, sharding=sharding, policy=policy)
    return replace(plan, run=run, states=_states(run, plan.counts, plan.arithmetic))


def longest(run: RunSettings, shape: Shape) -> Lengths:
    """The longest prompt and response that the settings allow, with one image at its largest."""
    image = min(shape.image_tokens(run.pixels), run.prompt_tokens)
    return Lengths(prompt=run.prompt_tokens, image=image, response=run.sampling.max_new_tokens)


def _states(run: RunSettings, counts: Counts, work: Arithmetic) -> States:
    sharding = run.sharding
    numbers = states.Numbers(
        weight=run.policy.size,
        gathered=run.policy.activation_size,
        trained=4 if counts.adapters else run.policy.size,
        moments=run.moments,
    )
    given = (counts, numbers, sharding)
    several = max(work.micro_batches) > 1
    return States(
        weights=states.weights(*given),
        reference=states.reference(*given),
        gradients=states.gradients(*given),
        optimizer=states.optimizer_states(*given),
        communication=states.communication(*given),
        step=states.optimizer_step(*given),
        unreduced=states.unreduced(counts, sharding) if several else 0,
        layers=states.gathered_layers(*given),
        whole=states.gathered_whole(*given) if run.in_process else 0,
        context=states.CONTEXT,
        cpu=states.offloaded(*given),
    )


def scoring_of(run: RunSettings, counts: Counts) -> Scoring:
    """How the policy of a run scores."""
    trained = {part.part for part in counts.parts if part.trainable}
    adapted = set(run.policy.adapters.parts) if run.policy.adapters else trained
    return Scoring(
        size=run.policy.activation_size,
        checkpointing=run.policy.checkpointing,
        head_chunk=run.policy.head_chunk,
        trains_vision="vision" in adapted,
        trains_merger="merger" in adapted,
    )


def _activations(
    run: RunSettings, shape: Shape, counts: Counts, batch: MicroBatchSize
) -> dict[str, Activations]:
    own = scoring_of(run, counts)
    ways = {
        "run": (batch, own),
        "packed, checkpointing": (replace(batch, packed=True), replace(own, checkpointing=True)),
        "packed": (replace(batch, packed=True), replace(own, checkpointing=False)),
        "plain, checkpointing": (replace(batch, packed=False), replace(own, checkpointing=True)),
        "plain": (replace(batch, packed=False), replace(own, checkpointing=False)),
    }
    if shape.text.delta_layers:  # cannot share a prefix
        ways = {name: way for name, way in ways.items() if not name.startswith("packed")}
    return {name: update_activations(shape, *way) for name, way in ways.items()}


def _rollout(run: RunSettings, shape: Shape, lengths: Lengths) -> RolloutMemory:
    if not run.in_process:
        return NOTHING
    prompts = max(1, run.prompts // run.sharding.ranks)
    size = _pass(prompts, run.sampling.group_size, run.sampler, lengths)
    return rollout_memory(shape, size, run.policy.activation_size)


def _pass(prompts: int, group: int, sampler: Sampler | None, lengths: Lengths) -> RolloutSize:
    return pass_size(
        prompts,
        group,
        sampler,
        prompt_tokens=lengths.prompt,
        new_tokens=lengths.response,
        image_tokens=lengths.image,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The most that fits in a memory; 0: not even one."""

    responses: int  # in a micro-batch of one rank's update
    tokens: int  # of that micro-batch as micro_batch.tokens counts them
    rows: int  # responses decoded at a time: the sampler's max_rows, and the largest group


def largest(plan: Plan, memory: int) -> Largest:
    """The largest micro-batch of an update and pass of the sampler within ``memory`` bytes.

    Each phase is judged by itself: an update may fit where the rollout does not.
    """

    def update(rows: int) -> bool:
        return _with_rows(plan, rows).peaks["update"] <= memory

    def rollout(rows: int) -> bool:
        return _with_pass(plan, rows).peaks["rollout"] <= memory

    responses = _search(update, plan.arithmetic.responses // plan.run.updates)
    found = _with_rows(plan, responses).micro_batch if responses else None
    return Largest(
        responses=responses,
        tokens=found.tokens if found else 0,
        rows=_search(rollout, MOST_ROWS),
    )


def _with_rows(plan: Plan, rows: int) -> Plan:
    batch = largest_micro_batch(
        plan.run, plan.lengths, packed=plan.packed, limit=MicroBatch(responses=rows)
    )
    scoring = scoring_of(plan.run, plan.counts)
    activations = {"run": update_activations(plan.shape, batch, scoring)}
    return replace(plan, micro_batch=batch, activations=activations)


def _with_pass(plan: Plan, rows: int) -> Plan:
    """The same with a pass of this many rows, in whole groups from one group on."""
    if not plan.run.in_process:
        return plan
    group = min(rows, plan.run.sampling.group_size)
    one = _pass(rows // group, group, None, plan.lengths)
    return replace(plan, rollout=rollout_memory(plan.shape, one, plan.run.policy.activation_size))


def _search(fits: Callable[[int], bool], most: int) -> int:
    """The largest n in 1..most that fits; 0 if 1 does not. What fits only shrinks with n."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
