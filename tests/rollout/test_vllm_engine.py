"""The vLLM engine over HTTP, against a server that speaks as vLLM does (``vllm_stub.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from models import mixed_prompts, prompt_batch
from project import Project, trainer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from vllm_fit import EQUAL, check, fit
from vllm_stub import DISABLED, Stub, serving_stub

from sapo_vl.callbacks import ParityCheck
from sapo_vl.policy import AdapterConfig, Policy, PolicyConfig
from sapo_vl.rollout import Sampler, VLLMEngine
from sapo_vl.rollout.engine import TOLERANCE
from sapo_vl.rollout.vllm_client import VLLMClient, VLLMError
from sapo_vl.rollout.vllm_weights import fingerprint
from sapo_vl.strategies.fsdp2 import _split
from sapo_vl.types import PromptBatch, Rollout, Sampling

FAMILY = "qwen3_vl"
SAMPLING = Sampling(group_size=3, temperature=0.8, max_new_tokens=6)
Load = Callable[..., Policy]


@pytest.fixture(scope="module")
def server(model_folder: Callable[[str], Path]) -> Iterator[Stub]:
    with serving_stub(model_folder(FAMILY)) as stub:
        yield stub


@pytest.fixture
def stub(server: Stub) -> Stub:
    """The server as it is at its start, but for its weights."""
    server.reset()
    return server


@pytest.fixture(scope="module")
def policy(model_folder: Callable[[str], Path]) -> Policy:
    """For tests that do not change it."""
    return Policy(PolicyConfig(path=str(model_folder(FAMILY))))


@pytest.fixture(scope="module")
def strategy() -> SingleDeviceStrategy:
    return SingleDeviceStrategy(device="cpu")


def batch_of(policy: Policy) -> PromptBatch:
    return prompt_batch(mixed_prompts(policy.processor), [7, 8, 9, 10])


def engine_of(stub: Stub, folder: Path, **options: Any) -> VLLMEngine:
    engine = VLLMEngine([stub.url], str(folder), **options)
    engine.clients = [VLLMClient(url=stub.url, pause=0.0, seconds=options.get("seconds", 60.0))]
    return engine


def step(policy: Policy, seed: int = 0) -> None:
    """Move every trainable weight in place, as an optimizer does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter += 0.03 * torch.randn(parameter.shape, generator=generator)


@torch.no_grad()
def gap(policy: Policy, batch: PromptBatch, drawn: Rollout) -> float:
    rows = torch.arange(len(batch)).repeat_interleave(drawn.group_size)
    own = policy.score(
        batch.inputs, rows, drawn.response_ids_BT, drawn.mask_BT, SAMPLING.temperature
    )
    return float((own.logp_BT - drawn.logp_BT).abs().max())


def draw(engine: VLLMEngine, policy: Policy, strategy: Any, batch: PromptBatch) -> Rollout:
    with engine.ready(policy, strategy):
        return engine(policy, batch, SAMPLING, (0, 1))


def test_a_rollout_holds_what_the_server_drew(
    stub: Stub, load_policy: Load, strategy: Any, tmp_path: Path
) -> None:
    policy = load_policy(FAMILY)
    policy.eos_ids = (*policy.eos_ids, *range(20, 60))  # so that some end
    batch = batch_of(policy)
    drawn = draw(engine_of(stub, tmp_path), policy, strategy, batch)

    assert gap(policy, batch, drawn) < EQUAL
    assert drawn.group_size == 3
    assert len(drawn.texts) == 12
    assert 0 < drawn.finished_B.sum() < 12
    assert (drawn.response_ids_BT[~drawn.mask_BT] == policy.pad_id).all()
    assert (drawn.logp_BT[~drawn.mask_BT] == 0).all()
    assert torch.equal(drawn.entropy_BT, -drawn.logp_BT)
    for b, mask in enumerate(drawn.mask_BT):  # nothing behind the end, and the end is kept
        row = drawn.response_ids_BT[b, mask]
        ends = torch.isin(row, torch.tensor(policy.eos_ids)).nonzero()
        assert bool(len(ends)) == bool(drawn.finished_B[b])
        assert not len(ends) or int(ends[0]) == len(row) - 1


def test_what_is_asked(stub: Stub, policy: Policy, strategy: Any, tmp_path: Path) -> None:
    batch = batch_of(policy)
    draw(engine_of(stub, tmp_path), policy, strategy, batch)
    sent = {tuple(body["token_ids"]): body for body in stub.bodies}
    for inputs in batch.inputs:
        body = sent[tuple(inputs.input_ids_S.tolist())]
        asked = dict(body["sampling_params"])
        seed, bans = asked.pop("seed"), asked.pop("logit_bias")
        assert asked == {
            "n": 3,
            "temperature": 0.8,
            "top_p": 1.0,
            "top_k": 0,
            "presence_penalty": 0.0,
            "max_tokens": 6,
            "stop_token_ids": list(policy.eos_ids),
            "ignore_eos": True,
            "logprobs": 0,
            "detokenize": False,
        }
        assert 0 <= seed < 2**62
        never = {int(token) for token in bans}
        assert never == set(policy.banned_V.nonzero().squeeze(-1).tolist())
        assert policy.model.config.image_token_id in never
        assert ("features" in body) == bool(inputs.media)
    assert len({body["sampling_params"]["seed"] for body in stub.bodies}) == 5  # and the probe's


def test_greedy_responses_are_asked_for_once(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    """As where ``samples_per_task`` gives a task several samples; vLLM refuses n above 1."""
    batch, greedy = batch_of(policy), Sampling(group_size=3, temperature=0, max_new_tokens=6)
    engine = engine_of(stub, tmp_path)
    with engine.ready(policy, strategy):
        drawn = engine(policy, batch, greedy, (0, 0))
    wanted = Sampler()(policy, batch, greedy, (0, 0))
    assert drawn.texts == wanted.texts
    assert torch.equal(drawn.response_ids_BT, wanted.response_ids_BT)


def test_weights_split_by_fsdp2_are_known_again_after_a_forward_pass(load_policy: Load) -> None:
    policy = load_policy(FAMILY)
    # One of two ranks; what it gathers is not the other's, which does not matter here.
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,))
        _split(policy, mesh, "32-true")
        before = fingerprint(policy)
        inputs, ids = batch_of(policy).inputs[:1], torch.tensor([[40, 41]])
        with torch.no_grad():
            policy.score(inputs, torch.tensor([0]), ids, torch.ones_like(ids).bool(), 1.0)
        assert any(not isinstance(p, DTensor) for p in policy.parameters())  # the root is whole
        assert fingerprint(policy) == before
    finally:
        torch.distributed.destroy_process_group()


def test_the_same_pixels_have_the_same_name(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    inputs = mixed_prompts(policy.processor)
    batch = prompt_batch([inputs[0], inputs[2], inputs[0]], [0, 1, 2])
    draw(engine_of(stub, tmp_path), policy, strategy, batch)
    names = [body["features"]["mm_hashes"]["image"] for body in stub.bodies[1:]]
    assert len(names) == 3
    assert len({tuple(name) for name in names}) == 2
    assert len({name for two in names for name in two}) == 3


def test_weights_are_handed_over_when_they_have_changed(
    stub: Stub, load_policy: Load, strategy: Any, tmp_path: Path
) -> None:
    policy, engine = load_policy(FAMILY), engine_of(stub, tmp_path)
    batch = batch_of(policy)
    step(policy)
    for _ in range(2):
        assert gap(policy, batch, draw(engine, policy, strategy, batch)) < EQUAL
    resets = ["/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"]
    assert [c for c in stub.calls if c != "/inference/v1/generate"] == [
        "describe_policy",
        "load_policy",
        *resets,
        "/update_weight_version",
    ]
    step(policy, seed=1)
    stale = engine(policy, batch, SAMPLING, (0, 1))
    assert gap(policy, batch, stale) > 0.05
    assert gap(policy, batch, draw(engine, policy, strategy, batch)) < EQUAL
    assert stub.calls.count("load_policy") == 2
    assert [Path(folder).name for folder in stub.folders] == ["policy-000001", "policy-000002"]
    assert [path.name for path in tmp_path.iterdir()] == ["policy-000002"]


def test_a_server_that_was_started_again_is_found_out(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    engine = engine_of(stub, tmp_path)
    with engine.ready(policy, strategy):
        stub.weights = "default"
        with pytest.raises(VLLMError, match=r"drawn with the weights \['default'\], not with '/"):
            engine(policy, batch_of(policy), SAMPLING, (0, 0))


def test_what_a_killed_run_left_is_removed_and_other_things_are_not(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    for name in ("policy-000007", ".policy-000008.123.partial", "policy-best", "notes"):
        (tmp_path / name).mkdir()
    draw(engine_of(stub, tmp_path), policy, strategy, batch_of(policy))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"policy-000001", "policy-best", "notes"}


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5"])
@pytest.mark.parametrize("lora", [None, AdapterConfig(rank=4)], ids=["whole", "lora"])
def test_every_family_is_handed_over(
    family: str,
    lora: AdapterConfig | None,
    model_folder: Callable[[str], Path],
    strategy: Any,
    tmp_path: Path,
) -> None:
    policy = Policy(PolicyConfig(path=str(model_folder(family)), lora=lora))
    step(policy)
    batch = batch_of(policy)
    with serving_stub(model_folder(family)) as stub:
        drawn = draw(engine_of(stub, tmp_path), policy, strategy, batch)
    assert gap(policy, batch, drawn) < EQUAL
    if lora is not None:
        with policy.reference():
            assert gap(policy, batch, drawn) > 0.01


def test_a_server_that_keeps_its_weights_is_found_out(
    stub: Stub, load_policy: Load, strategy: Any, tmp_path: Path
) -> None:
    policy, engine = load_policy(FAMILY), engine_of(stub, tmp_path, verify_every=2)
    with engine.ready(policy, strategy):
        pass
    stub.deaf = True
    step(policy)
    with pytest.raises(VLLMError, match="does not compute with the policy's weights"):
        engine.ready(policy, strategy)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"hidden_size": 3584}, "serves another model than the policy: .*3584"),
        ({"model_type": "qwen2_5_vl"}, "Start the server with the folder of policy.path"),
        ({"logprobs_mode": "raw_logprobs"}, "--logprobs-mode processed_logprobs"),
        ({"device_normalize": True}, "--no-mm-device-do-normalize"),
        ({"unheard_of": 1}, "worker extension is of another version"),
    ],
)
def test_a_server_that_is_not_fit_is_refused(
    stub: Stub,
    policy: Policy,
    strategy: Any,
    tmp_path: Path,
    described: dict[str, Any],
    message: str,
) -> None:
    stub.described |= described
    with pytest.raises(VLLMError, match=message):
        engine_of(stub, tmp_path).ready(policy, strategy)
    assert stub.folders == []


def error(message: str) -> dict[str, Any]:
    """As vLLM writes it."""
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}


NO_METHOD = (
    "Call to collective_rpc method failed: Worker failed with error "
    "''CPUWorker' object has no attribute 'describe_policy''"
)


@pytest.mark.parametrize(
    ("path", "refusal", "message"),
    [
        ("/collective_rpc", (404, {"detail": "Not Found"}), "VLLM_SERVER_DEV_MODE=1"),
        ("/collective_rpc", (500, error(NO_METHOD)), "--worker-extension-cls"),
        ("/inference/v1/generate", (403, error(DISABLED)), "--enable-scale-out"),
        ("/inference/v1/generate", (404, {"detail": "Not Found"}), "vLLM 0.32 or later"),
        ("/inference/v1/generate", (400, error("n must be at most 2")), "n must be at most 2"),
        ("/inference/v1/generate", (200, {"choices": []}), "another form than vLLM 0.32's"),
        ("/reset_prefix_cache", (200, {"success": False}), "does another program use this server"),
    ],
)
def test_errors_say_what_to_do(
    stub: Stub,
    policy: Policy,
    strategy: Any,
    tmp_path: Path,
    path: str,
    refusal: tuple[int, Any],
    message: str,
) -> None:
    stub.refusals[path] = [refusal]
    with pytest.raises(RuntimeError, match=message):
        engine_of(stub, tmp_path).ready(policy, strategy)


def test_passing_failures_are_tried_again(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    busy = (503, error("overloaded"))
    stub.refusals["/inference/v1/generate"] = [busy, busy]
    batch = batch_of(policy)
    assert gap(policy, batch, draw(engine_of(stub, tmp_path), policy, strategy, batch)) < EQUAL
    stub.refusals["/inference/v1/generate"] = [busy] * 20
    with pytest.raises(VLLMError, match=r"prompt .*failed 3 times, last by status 503: overloaded"):
        engine_of(stub, tmp_path).ready(policy, strategy)


def test_a_server_that_is_not_there_or_never_answers(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    nowhere = VLLMEngine(["http://127.0.0.1:9"], str(tmp_path))
    nowhere.clients = [VLLMClient(url="http://127.0.0.1:9", pause=0.0)]
    with pytest.raises(VLLMError, match=r"127.0.0.1:9.*Is the server running"):
        nowhere.ready(policy, strategy)
    engine = engine_of(stub, tmp_path, seconds=1.0)
    stub.delay = 3.0
    with pytest.raises(VLLMError, match="no answer within 1 s"):
        engine.ready(policy, strategy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_token_ids": [1, 2]}, "answered a prompt of 2 tokens.*they differ from token 1"),
        ({"choices": []}, "0 responses came; 3 were asked for"),
    ],
)
def test_an_answer_to_another_prompt_names_the_prompt(
    stub: Stub,
    policy: Policy,
    strategy: Any,
    tmp_path: Path,
    change: dict[str, Any],
    message: str,
) -> None:
    engine = engine_of(stub, tmp_path)
    batch = batch_of(policy)
    with engine.ready(policy, strategy):
        stub.change = change
        with pytest.raises(VLLMError, match=rf"prompt number 7: .*{message}"):
            engine(policy, batch, SAMPLING, (0, 0))


def test_a_prompt_too_long_for_the_server_is_named(
    stub: Stub, policy: Policy, strategy: Any, tmp_path: Path
) -> None:
    engine = engine_of(stub, tmp_path)
    long = Sampling(group_size=1, max_new_tokens=500)
    with (
        engine.ready(policy, strategy),
        pytest.raises(VLLMError, match="--max-model-len 528, or lower"),
    ):
        engine(policy, prompt_batch([batch_of(policy).inputs[1]], [0]), long, (0, 0))


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="urls is empty"):
        VLLMEngine([], str(tmp_path))
    with pytest.raises(ValueError, match="not of the form http://host:8000"):
        VLLMEngine(["localhost:8000"], str(tmp_path))
    with pytest.raises(ValueError, match="concurrency is 0"):
        VLLMEngine(["http://localhost:8000"], str(tmp_path), concurrency=0)


def test_quantized_weights_are_refused(
    stub: Stub, load_policy: Load, strategy: Any, tmp_path: Path
) -> None:
    policy = load_policy(FAMILY)
    object.__setattr__(policy.config, "quantize", "nf4")
    with pytest.raises(ValueError, match="quantize: nf4"):
        engine_of(stub, tmp_path).ready(policy, strategy)


def test_the_parity_check_allows_for_the_servers_rounding(project: Project, tmp_path: Path) -> None:
    """A trainer in float32 with a server in bfloat16, which VLLMEngine's own check lets pass."""
    seen: dict[str, float] = {}

    class Watch(ParityCheck):
        def _compare(self, module: Any, part: PromptBatch) -> dict[str, float]:
            seen.update(super()._compare(module, part))
            return seen

    with serving_stub(Path(project.model)) as stub:
        stub.described["dtype"] = "bfloat16"
        module = project.sapo(rollout=engine_of(stub, tmp_path / "weights"))
        trainer(tmp_path, callbacks=[Watch()], max_steps=2).fit(module, project.data())
        assert seen["parity/sampler_scorer"] > TOLERANCE["float32"]

        engine = engine_of(stub, tmp_path / "weights", tolerance=1e-9)
        engine.handed_over = 1  # its own check is over
        module = project.sapo(rollout=engine)
        with pytest.raises(RuntimeError, match=r"tolerance 1\.0e-09, in float32"):
            trainer(tmp_path, callbacks=[Watch()]).fit(module, project.data())


@pytest.mark.slow
def test_ranks_under_zero3_ask_servers_of_their_own(
    model_folder: Callable[[str], Path], project: Project, tmp_path: Path
) -> None:
    """Weights are split over the ranks; whole ones come to both servers."""
    pytest.importorskip("deepspeed")
    model = model_folder(FAMILY)
    with serving_stub(model) as first, serving_stub(model) as second:
        fit(project, model, [first.url, second.url], tmp_path, 2, "configs/strategy/zero3.yaml")
        assert len(first.folders) == len(second.folders) == 3
        prompts = [{tuple(b["token_ids"]) for b in s.bodies[1:]} for s in (first, second)]
    assert all(prompts)
    check(model, tmp_path)
