"""The formulas against numbers worked out by hand, and against DeepSpeed's own estimators."""

from __future__ import annotations

import pytest
import torch

from sapo_vl.plan import saved, states
from sapo_vl.plan.activations import MicroBatchSize, Scoring, head_chunk, kept_by_layers
from sapo_vl.plan.architecture import load_architecture, meta_model
from sapo_vl.plan.counts import Adapters, Counts, adapter_parameters, count
from sapo_vl.plan.rollout import (
    RolloutSize,
    attention_scores,
    key_value_cache,
    pass_size,
    rollout_cache,
)
from sapo_vl.plan.shape import Experts, Shape
from sapo_vl.plan.sharding import STRATEGIES, Sharding
from sapo_vl.plan.states import Numbers
from sapo_vl.policy.parts import PartSize
from sapo_vl.rollout import Sampler

MILLION = Counts(
    parts=(PartSize("vision", 200_000, 0), PartSize("language", 800_000, 800_000)),
    largest_layer=50_000,
    largest_block=30_000,
    rest=60_000,
)
BF16 = Numbers(weight=2, gathered=2, trained=2, moments=2)
MIXED = Numbers(weight=4, gathered=2, trained=4, moments=2)
EIGHT_B = Shape.of(load_architecture("Qwen/Qwen3-VL-8B-Instruct"))


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "optimizer"),
    [
        (Sharding(ranks=1), 2_000_000, 1_600_000, 3_200_000),
        (Sharding(ranks=4), 2_000_000, 3_200_000, 3_200_000),
        (Sharding(ranks=4, bucket_views=True), 2_000_000, 1_600_000, 3_200_000),
        (Sharding(ranks=4, stage=1), 2_000_000, 1_600_000, 2_400_000),
        (Sharding(ranks=4, stage=2), 2_000_000, 400_000, 2_400_000),
        (Sharding(ranks=4, stage=3), 500_000, 400_000, 2_400_000),
        (Sharding(ranks=4, stage=2, offload_optimizer=True), 2_000_000, 0, 0),
        (Sharding(ranks=4, stage=3, offload_optimizer=True, offload_parameters=True), 0, 0, 0),
    ],
)
def test_states_of_a_million(
    sharding: Sharding, weights: int, gradients: int, optimizer: int
) -> None:
    given = (MILLION, BF16, sharding)
    assert states.weights(*given) == weights
    assert states.gradients(*given) == gradients
    assert states.optimizer_states(*given) == optimizer


def test_what_is_offloaded_lies_in_cpu_memory() -> None:
    both = Sharding(ranks=4, stage=3, offload_optimizer=True, offload_parameters=True)
    # Master, two moments and a gradient in float32, a quarter each; the bfloat16 weights' quarter.
    assert states.offloaded(MILLION, BF16, both) == 4 * 4 * 200_000 + 500_000
    assert states.optimizer_step(MILLION, BF16, both) == 0
    assert states.offloaded(MILLION, BF16, Sharding(ranks=4, stage=2)) == 0


def test_fsdp2_splits_float32_weights_and_gathers_half_precision() -> None:
    given = (MILLION, MIXED, Sharding(ranks=4, fsdp2=True))
    assert states.weights(*given) == 4 * 1_000_000 // 4
    assert states.gradients(*given) == 4 * 800_000 // 4
    assert states.optimizer_states(*given) == 2 * 4 * 800_000 // 4  # the weights are the masters
    assert states.optimizer_step(*given) == 4 * 800_000 // 4
    assert states.gathered_whole(*given) == 2 * 1_000_000
    assert states.gathered_layers(*given) == 2 * (60_000 + 3 * 30_000) + 4 * 60_000
    assert states.unreduced(MILLION, given[-1]) == 4 * 800_000
    assert states.unreduced(MILLION, Sharding(ranks=4, stage=3)) == 0


def test_buffers_are_those_of_deepspeeds_documentation() -> None:
    large = Counts(parts=(PartSize("language", 10**10, 10**10),), largest_layer=10**8)
    zero2 = Sharding(ranks=8, stage=2, reduce_bucket=500_000_000, gather_bucket=500_000_000)
    assert states.communication(large, BF16, zero2) == 9_000_000_000  # "9 GB for two of 5e8"
    assert states.communication(large, BF16, Sharding(ranks=8)) == 0
    zero3 = Sharding(ranks=8, stage=3, max_live=0)
    assert states.gathered_layers(large, BF16, zero3) == 2 * (2 * 10**8 + 50_000_000)


@pytest.mark.parametrize("ranks", [4, 64])
def test_states_beside_deepspeeds_estimators(ranks: int) -> None:
    pytest.importorskip("deepspeed")
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    p = 8_000_000_000
    whole = Counts(parts=(PartSize("language", p, p),), largest_layer=10**8)

    def ours(stage: int) -> int:
        given = (whole, BF16, Sharding(ranks=ranks, stage=stage))
        return states.weights(*given) + states.gradients(*given) + states.optimizer_states(*given)

    def cpu(**offload: bool) -> int:
        stage = 3 if "offload_parameters" in offload else 2
        return states.offloaded(whole, BF16, Sharding(ranks=ranks, stage=stage, **offload)) * ranks

    zero2, zero3 = estimate_zero2_model_states_mem_needs, estimate_zero3_model_states_mem_needs
    # Theirs counts the float32 gradient of the step all the time.
    assert zero2(p, ranks, 1, cpu_offload=False)[1] == ours(2) + 4 * p // ranks
    given = {"cpu_offload": False, "cpu_offload_params": False}
    assert zero3(p, 0, ranks, 1, **given)[1] == ours(3) + 2 * p // ranks
    # A factor for buffers of 1; with many ranks theirs assumes that every one loads the model.
    if ranks == 4:
        assert zero2(p, ranks, 1, True, 1.0)[0] == cpu(offload_optimizer=True)
    both = cpu(offload_optimizer=True, offload_parameters=True)
    assert zero3(p, 0, ranks, 1, additional_buffer_factor=1.0)[0] == both


def test_moments_are_what_the_optimizer_keeps() -> None:
    assert states.moments_of("torch.optim.AdamW", {"lr": 1e-6}) == 2
    assert states.moments_of("torch.optim.SGD", {"lr": 0.1}) == 0
    assert states.moments_of("torch.optim.SGD", {"lr": 0.1, "momentum": 0.9}) == 1


def test_layers_of_an_8b() -> None:
    # Hidden 4096, 32 heads and 8 key-value heads of 128, feed-forward 12288, bfloat16.
    assert saved.rms_norm(4096, 2) == 4 * 4096 + 4 + 2 * 4096
    assert saved.gated_mlp(4096, 12288, 2) == 2 * (4096 + 4 * 12288)
    norms = 40 * (4 * 128 + 4 + 2 * 128)
    assert saved.attention(EIGHT_B.text, 2) == 2 * (4096 + 2 * 4096 + 2 * 1024) + 4 * 32 + norms
    assert saved.repeated_keys(EIGHT_B.text, 2) == 2 * 2 * 4096
    pair = 2 * (2 * 10 + 4 * 3 + 1) + 24
    router = 4 * 8 + 8 * 2 + 4 + 4 * 2
    sparse = Experts(count=8, per_token=2, width=3, shared_width=0)
    assert saved.experts(10, sparse, 2) == 2 * 10 + router + 2 * pair


def test_checkpointing_keeps_the_inputs_of_layers() -> None:
    batch = MicroBatchSize(
        prompts=1, rows=8, prompt_tokens=1000, response_tokens=500, image_tokens=256, packed=True
    )
    assert batch.tokens == 1000 + 8 * 500
    assert batch.patches(EIGHT_B.vision) == 4 * 256
    scoring = Scoring(size=2, checkpointing=True, head_chunk=1024)
    assert kept_by_layers(EIGHT_B.text, batch, scoring) == 36 * 5000 * 4096 * 2
    assert head_chunk(151_936, batch.scored, scoring) == 1024 * 151_936 * 10
    assert head_chunk(151_936, 100, scoring) == 100 * 151_936 * 10


def test_cache_of_an_8b() -> None:
    # 2 x 36 layers x 8 heads x 128 x 2 bytes a token, and one layer more while it grows.
    token = 2 * 36 * 8 * 128 * 2
    assert token == 147_456
    assert key_value_cache(EIGHT_B.text, 4, 1000, 2) == 4 * 1000 * token * 37 // 36
    hybrid = Shape.of(load_architecture("Qwen/Qwen3.5-9B")).text
    assert (hybrid.attention_layers, hybrid.delta_layers) == (8, 24)
    state = 24 * 32 * 128 * 128 * 4
    assert key_value_cache(hybrid, 1, 100, 2) == 9 * 100 * 2 * 4 * 256 * 2 + state


def test_a_rollout_holds_each_prompt_once() -> None:
    run = RolloutSize(prompts=2, group=16, prompt_tokens=4096, new_tokens=2048, image_tokens=1024)
    token = 2 * 36 * 8 * 128 * 2
    growing = 32 * 2048 * token // 36
    assert rollout_cache(EIGHT_B.text, run, 2) == (2 * 4096 + 32 * 2048) * token + growing
    assert attention_scores(EIGHT_B.text, run) == 3 * 32 * 32 * (4096 + 2048) * 4
    hybrid = Shape.of(load_architecture("Qwen/Qwen3.5-9B")).text
    assert rollout_cache(hybrid, run, 2) == key_value_cache(hybrid, 32, 4096 + 2048, 2)
    assert attention_scores(hybrid, run) == 0


def test_a_pass_is_whole_groups() -> None:
    def rows(prompts: int, group: int, sampler: Sampler | None) -> int:
        lengths = {"prompt_tokens": 10, "new_tokens": 10, "image_tokens": 0}
        return pass_size(prompts, group, sampler, **lengths).rows

    assert rows(8, 16, Sampler(max_rows=48)) == 48
    assert rows(8, 16, Sampler(max_rows=47)) == 32
    assert rows(2, 16, Sampler(max_rows=256)) == 32
    assert rows(8, 16, Sampler(max_rows=4)) == 4  # a group that is too large is cut
    assert rows(8, 16, None) == 8 * 16


def test_frozen_parts_have_no_states() -> None:
    model = meta_model(load_architecture("Qwen/Qwen3-VL-8B-Instruct"))
    counts = count(model, ["vision", "merger"])
    assert counts.trainable == 8_190_735_360
    assert counts.largest_layer == 622_329_856  # the embedding, larger than a layer
    assert counts.largest_block == 192_946_432  # 4096 x (12288 x 3 + 10240) and norms
    visual = model.model.visual
    blocks = sum(p.numel() for p in visual.blocks.parameters())
    assert counts.rest == counts.total - 36 * counts.largest_block - blocks


def test_adapters_alone_train() -> None:
    model = meta_model(load_architecture("Qwen/Qwen3-VL-2B-Instruct"))
    counts = count(model, [], Adapters(rank=16, targets=("q_proj",)))
    assert counts.adapters == counts.trainable == 28 * 16 * (2048 + 2048)


@pytest.mark.parametrize("parts", [("language",), ("vision", "merger")])
def test_adapters_are_those_of_peft(parts: tuple[str, ...]) -> None:
    peft = pytest.importorskip("peft")
    model = meta_model(load_architecture("Qwen/Qwen3-VL-2B-Instruct"))
    ours = adapter_parameters(model, Adapters(rank=8, parts=parts))  # type: ignore[arg-type]
    names = [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear)
        and name != "lm_head"
        and ("visual." in name) == ("vision" in parts)
    ]
    with torch.device("meta"):
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=names))
    assert ours == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_strategies_are_named_as_their_files() -> None:
    assert list(STRATEGIES) == "ddp zero1 zero2 zero2_offload zero3 zero3_offload fsdp2".split()
