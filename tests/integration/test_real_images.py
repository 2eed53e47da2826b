"""Two SAPO iterations and a test on real images, with the real Qwen vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from project import ARCHITECTURE, CoinVerifier, trainer
from strict_sets import strict_sets

from datamodules import ReasoningDataModule, TaskConfig
from datamodules.shards import check_shards, write_shards
from datamodules.sources.catalogue import Request
from sapo_vl.callbacks import GateMonitor, ParityCheck, ResultWriter, RewardMonitor, SkipLog
from sapo_vl.modules import SAPOModule
from sapo_vl.modules.batching import MicroBatch
from sapo_vl.policy import PolicyConfig
from sapo_vl.policy.build import build_model
from sapo_vl.types import Sampling
from sapo_vl.verifiers import ChoiceVerifier, MathVerifier

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SETS = ("puzzlevqa", "algopuzzlevqa", "nlvr", "mathvision")

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no folder {SHARED}: the real image sets are not here"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small Qwen3-VL with patch size 16 and the real vocabulary."""
    pytest.importorskip("dashscope", reason="the real Qwen vocabulary comes with dashscope")
    from qwen_vocabulary import real_qwen_tokenizer

    folder = tmp_path_factory.mktemp("real_vocabulary")
    text = {**ARCHITECTURE["text_config"], "vocab_size": 151936}
    vision = {**ARCHITECTURE["vision_config"], "patch_size": 16, "num_position_embeddings": 2304}
    architecture = {**ARCHITECTURE, "text_config": text, "vision_config": vision}
    build_model(architecture, real_qwen_tokenizer(), folder)
    return str(folder)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real_shards")
    for source in SETS:
        for name, samples in strict_sets(source, Request(data=SHARED, count=24)):
            write_shards(samples, folder, name)
    report = check_shards(folder)
    assert report["ok"], report
    return folder


def tasks(shards: Path, verifier: Any = None) -> list[TaskConfig]:
    choice = ChoiceVerifier()
    verifiers = {"puzzlevqa": choice, "algopuzzlevqa": choice, "nlvr": choice}
    return [
        TaskConfig(
            name=name,
            shards=str(shards / f"{name}-*.tar"),
            verifier=verifier or verifiers.get(name, MathVerifier()),
        )
        for name in SETS
    ]


def data(model: str, shards: Path, **changes: Any) -> ReasoningDataModule:
    options: dict[str, Any] = {
        "tasks": tasks(shards, CoinVerifier()),
        "test_tasks": tasks(shards),
        "prompts_per_iteration": 8,
        "num_workers": 1,
        "max_prompt_tokens": 700,
        "min_pixels": 4 * 32 * 32,
        "max_pixels": 128 * 32 * 32,
    }
    return ReasoningDataModule(model, **(options | changes))


def module(model: str) -> SAPOModule:
    return SAPOModule(
        PolicyConfig(path=model),
        sampling=Sampling(group_size=4, max_new_tokens=12),
        evaluation={"greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=8)},
        micro_batch=MicroBatch(responses=8),
    )


def test_two_iterations_and_a_test(model: str, shards: Path, tmp_path: Path) -> None:
    callbacks = [ParityCheck(tolerance=1e-4), RewardMonitor(), GateMonitor(), SkipLog()]
    t = trainer(tmp_path, max_steps=4, callbacks=callbacks)
    trained = module(model)
    t.fit(trained, data(model, shards))
    logged = {k: float(v) for k, v in t.callback_metrics.items()}
    assert t.global_step == 4
    assert logged["gate/first_update_error"] < 1e-4
    assert logged["parity/sampler_scorer"] < 1e-4
    assert logged["rollout/tokens"] > 0

    test = trainer(tmp_path, callbacks=[ResultWriter(str(tmp_path / "out"))])
    test.test(trained, data(model, shards), verbose=False)
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    records = [json.loads(x) for x in (tmp_path / "out/samples.jsonl").read_text().splitlines()]
    assert metrics["tasks"].keys() == set(SETS)
    assert metrics["all"]["greedy"]["n"] == len(records) > 80  # the rest was too long
    statuses = {r["status"] for record in records for r in record["responses"]}
    assert statuses <= {"ok", "no_answer"}


def test_over_long_prompts_are_counted_not_fatal(model: str, shards: Path, tmp_path: Path) -> None:
    skips = SkipLog()
    t = trainer(tmp_path, max_steps=2, callbacks=[skips])
    t.fit(module(model), data(model, shards, max_prompt_tokens=200, num_workers=0))
    assert skips.counts["too_long"] > 0
    assert sum(skips.counts.values()) == skips.counts["too_long"]
