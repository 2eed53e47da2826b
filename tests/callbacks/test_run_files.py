"""What a run leaves on disk and in its log, through a real Trainer."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from project import CoinVerifier, Project, trainer
from transformers import AutoModelForImageTextToText, AutoProcessor

from datamodules.shards import write_shards
from datamodules.sources import figures
from sapo_vl.callbacks import (
    AnswerWriter,
    GateMonitor,
    IterationCheckpoint,
    ParityCheck,
    ResultWriter,
    RewardMonitor,
    SampleLog,
    SkipLog,
    ThroughputMonitor,
)
from sapo_vl.policy import Policy
from sapo_vl.types import Sampling


def monitors() -> list[Any]:
    return [ParityCheck(), RewardMonitor(), GateMonitor(), ThroughputMonitor(), SkipLog()]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit of three iterations with every callback."""
    folder = tmp_path_factory.mktemp("run")
    callbacks = [*monitors(), SampleLog(1, 2), IterationCheckpoint(2, keep_last=1)]
    logger = CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1)
    t = trainer(folder, max_steps=6, logger=logger, callbacks=callbacks, log_every_n_steps=1)
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()))
    t.fit(project.sapo(), data)
    return folder


def test_every_promised_metric_is_logged_each_iteration(run: Path) -> None:
    table = rows(run)
    assert [row["step"] for row in table] == ["0", "1", "2"]
    names = """rollout/length_mean rollout/truncated_share rollout/tokens reward/mean
        reward/accuracy
        reward/leftmost_colour reward/count_colour reward/uniform_groups_share reward/status_ok
        reward/status_no_answer reward/status_error policy/entropy policy/kl_old policy/loss
        policy/grad_norm policy/lr gate/weight_mean gate/abs_log_ratio_p50 gate/abs_log_ratio_p99
        gate/abs_log_ratio_max gate/first_update_error gate/tau_pos gate/tau_neg time/sync
        time/rollout time/verify time/old_logp time/update time/data time/iteration
        time/tokens_per_second data/skipped_total data/skipped_too_long""".split()
    for row in table:
        assert not [name for name in names if not row.get(name)]
        assert float(row["gate/first_update_error"]) < 1e-5
        # Left out where no group carries signal: then nothing was scored.
        assert abs(float(row["policy/kl_rollout"] or 0)) < 1e-5
        assert float(row["time/iteration"]) >= float(row["time/rollout"])
    assert any(row["policy/kl_rollout"] for row in table)
    assert float(table[-1]["policy/updates"]) == 6


def test_sampled_answers_lie_beside_their_images(run: Path) -> None:
    records = lines(run / "samples.jsonl")
    assert [r["iteration"] for r in records] == [0, 0, 1, 1, 2, 2]
    for record in records:
        assert len(record["responses"]) == 4
        assert {"text", "score", "status", "advantage"} <= record["responses"][0].keys()
        assert "[image]" in record["question"]
        assert [(run / image).read_bytes()[:4] for image in record["images"]] == [b"\x89PNG"]


def test_checkpoints_and_the_exported_model(run: Path) -> None:
    assert [p.name for p in (run / "checkpoints").iterdir()] == ["iteration-000003.ckpt"]
    checkpoint = torch.load(run / "checkpoints/iteration-000003.ckpt", weights_only=True)
    model = AutoModelForImageTextToText.from_pretrained(run / "hf")
    AutoProcessor.from_pretrained(run / "hf")
    for name, value in model.state_dict().items():
        assert torch.equal(value, checkpoint["state_dict"][f"policy.model.{name}"]), name


def test_results_of_a_test(project: Project, tmp_path: Path) -> None:
    evaluation = {"greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=4)}
    module = project.sapo(evaluation=evaluation)
    callbacks = [ResultWriter(str(tmp_path / "out"))]
    for _ in range(2):  # a repeated test replaces the first
        trainer(tmp_path, callbacks=callbacks).test(module, project.data(), verbose=False)
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    records = lines(tmp_path / "out/samples.jsonl")
    assert len(records) == metrics["all"]["greedy"]["n"] == 24
    scores = [r["responses"][0]["score"] for r in records]
    assert metrics["all"]["greedy"]["mean"] == pytest.approx(sum(scores) / 24)
    assert metrics["settings"]["samplings"]["greedy"]["max_new_tokens"] == 4
    assert metrics["settings"]["versions"]["transformers"]


def test_answers_to_a_users_questions(project: Project, tmp_path: Path) -> None:
    image = next(iter(figures.samples("count_colour", split="val", count=1)))["images"][0]
    (tmp_path / "a.png").write_bytes(image)
    questions = [
        {"id": "one", "question": "How many red shapes?", "images": ["a.png"]},
        {"id": "two", "question": "Just text?"},
        {"id": "gone", "question": "What?", "images": ["missing.png"]},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(json.dumps(q) for q in questions))
    data = project.data(questions=str(path))
    callbacks = [AnswerWriter(str(tmp_path / "answers.jsonl"))]
    trainer(tmp_path, callbacks=callbacks).predict(project.sapo(), data)
    answers = {line["id"]: line for line in lines(tmp_path / "answers.jsonl")}
    assert len(answers["one"]["responses"]) == len(answers["two"]["responses"]) == 1
    assert answers["gone"]["skipped"] == "undecodable_media"
    assert "missing.png" in answers["gone"]["detail"]


def test_skipped_samples_are_counted_and_listed(project: Project, tmp_path: Path) -> None:
    samples = list(figures.samples("count_colour", split="train", count=8))
    for sample in samples[:4]:
        sample["question"] = "much too long " * 200
    write_shards(samples, tmp_path, "dirty")
    task = project.tasks()[1]
    dirty = type(task)(name="dirty", shards=str(tmp_path / "dirty-*.tar"), verifier=task.verifier)
    logger = CSVLogger(tmp_path, name="", version="", flush_logs_every_n_steps=1)
    t = trainer(tmp_path, logger=logger, callbacks=[SkipLog()], log_every_n_steps=1)
    t.fit(project.sapo(), project.data(tasks=[dirty], prompts_per_iteration=8))
    counted = float(rows(tmp_path)[-1]["data/skipped_too_long"])
    listed = lines(tmp_path / "skipped.jsonl")
    assert counted == len(listed) >= 4
    assert {line["where"].split("#")[0] for line in listed} == {"dirty-000000.tar"}
    assert all("max_prompt_tokens" in line["detail"] for line in listed)


def test_parity_stops_a_sampler_that_is_not_the_policy(project: Project, tmp_path: Path) -> None:
    module = project.sapo()
    honest = module.rollout

    def stale(policy: Policy, *args: Any) -> Any:
        other = project.policy()
        with torch.no_grad():
            other.model.lm_head.weight.mul_(1.5)
        return honest(other, *args)

    stale.ready = honest.ready  # type: ignore[attr-defined]
    module.rollout = stale  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="does not come from the policy that is trained"):
        trainer(tmp_path, callbacks=[ParityCheck()]).fit(module, project.data())


def test_a_shared_prefix_that_computes_something_else_is_left_or_stops_the_run(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Policy._hidden_shared
    monkeypatch.setattr(Policy, "_hidden_shared", lambda *a: shared(*a) * 1.01)
    with pytest.raises(RuntimeError, match="share_prefix to false"):
        trainer(tmp_path, callbacks=[ParityCheck(fall_back=False)]).fit(
            project.sapo(), project.data()
        )
    module = project.sapo()
    with pytest.warns(UserWarning, match="going on with plain scoring"):
        trainer(tmp_path, callbacks=[ParityCheck()]).fit(module, project.data())
    assert not module.policy.share_prefix


def test_parity_finds_image_tokens_that_do_not_match_the_grid(
    project: Project, tmp_path: Path
) -> None:
    class Cut(ParityCheck):
        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, i: int) -> None:
            batch.inputs[0].media["image_grid_thw"][0, 1] += 2
            super().on_train_batch_start(trainer, pl_module, batch, i)

    with pytest.raises(RuntimeError, match=r"16 image tokens, its grid makes 20 features"):
        trainer(tmp_path, callbacks=[Cut()]).fit(project.sapo(), project.data())
