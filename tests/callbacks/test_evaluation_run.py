"""Validation, test and prediction through a real Trainer and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch.loggers import CSVLogger
from project import CoinVerifier, Project, trainer

from datamodules import TaskConfig
from datamodules.filtering import PassFilter, filter_shards
from datamodules.sources import figures
from sapo_vl.callbacks import AnswerWriter, BestCheckpoint, EvaluationBar, ResultWriter
from sapo_vl.cli import main
from sapo_vl.evaluation import PassAtK, WorstCase
from sapo_vl.types import Prompt, Sampling, Verdict
from sapo_vl.verifiers import VerifierPool

EVALUATION = {
    "greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=4),
    "avg4": Sampling(group_size=4, max_new_tokens=4),
}


class BrokenVerifier:
    """Raises at every answer."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        raise RuntimeError("bug")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_tasks_metrics_and_categories_in_yaml(project: Project, tmp_path: Path) -> None:
    shards = str(project.root / "shards/count_colour-val-*.tar")
    task = {
        "name": "count",
        "shards": shards,
        "verifier": {"class_path": "project.CoinVerifier"},
        "max_samples": 8,
        "subset_seed": 1,
        "metrics": [
            {"class_path": "sapo_vl.evaluation.PassAtK", "init_args": {"k": 4}},
            {"class_path": "sapo_vl.evaluation.AvgAtN"},
        ],
        "categories": ["answer_kind"],
    }
    content = {
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "evaluation": {
                    "greedy": {"group_size": 1, "temperature": 0.0, "max_new_tokens": 4},
                    "avg4": {"group_size": 4, "max_new_tokens": 4},
                },
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "test_tasks": [task],
                "num_workers": 1,
                "eval_batch_size": 3,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "devices": 1,
            "logger": False,
            "default_root_dir": str(tmp_path),
            "callbacks": [
                {"class_path": "sapo_vl.callbacks.ResultWriter"},
                {"class_path": "sapo_vl.callbacks.EvaluationBar"},
            ],
        },
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(content))
    main(["test", "--config", str(path)])
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    found = metrics["tasks"]["count"]
    records = lines(tmp_path / "samples.jsonl")
    rights = [[r["score"] for r in x["responses"]] for x in records if x["sampling"] == "avg4"]
    assert len(rights) == 8
    assert found["avg4"]["metric"] == "pass_at_4"
    assert found["avg4"]["mean"] == pytest.approx(sum(map(any, rights)) / 8)
    assert found["avg4"]["metrics"]["avg"]["mean"] == pytest.approx(sum(map(sum, rights)) / 32)
    assert found["greedy"]["metric"] == "avg"
    assert list(found["avg4"]["categories"]["answer_kind"]) == [""]
    assert found["avg4"]["counts"]["responses"] == 32
    verifier = metrics["settings"]["data"]["tasks"]["count"]["verifier"]
    assert verifier == {"class": "project.CoinVerifier"}
    assert len(metrics["settings"]["model_sha256"]) == 64


def test_a_verifier_that_fails_and_samples_that_do_not_load_are_counted(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datamodules.encode import Encoder

    encode = Encoder.__call__

    def crash(self: Encoder, prompt: Prompt) -> Any:
        if prompt.key.endswith("3"):
            raise ZeroDivisionError("in the processor")
        return encode(self, prompt)

    monkeypatch.setattr(Encoder, "__call__", crash)
    tasks = project.tasks("val", verifier=BrokenVerifier())
    bar = EvaluationBar()
    t = trainer(
        tmp_path,
        callbacks=[ResultWriter(str(tmp_path)), bar],
        enable_progress_bar=True,
    )
    module = project.sapo(evaluation=EVALUATION, verifier_pool=VerifierPool(workers=1))
    t.test(module, project.data(test_tasks=tasks, max_skipped_share=1.0), verbose=False)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    counts = metrics["all"]["greedy"]["counts"]
    left_out = metrics["skipped"]["encoder_error"]
    assert left_out >= 2
    assert counts["prompts"] == counts["error"] == 24 - left_out
    assert metrics["all"]["greedy"]["mean"] == 0
    assert bar.shown()["left out"] == str(left_out)
    assert bar.shown()["verifier failures"] == str(5 * (24 - left_out))
    assert len(lines(tmp_path / "samples.jsonl")) == 2 * (24 - left_out)


def test_a_metric_that_no_sampling_can_feed_is_named(project: Project, tmp_path: Path) -> None:
    tasks = project.tasks("val", metrics=[PassAtK(8)])
    module = project.sapo(evaluation=EVALUATION)
    with pytest.raises(ValueError, match="pass_at_8 of task 'leftmost_colour' needs 8 samples"):
        trainer(tmp_path).test(module, project.data(test_tasks=tasks), verbose=False)


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two metrics of 'x' have one name"):
        TaskConfig(
            name="x", shards="x", verifier=CoinVerifier(), metrics=[WorstCase(), WorstCase(0.5)]
        )


def test_the_best_checkpoint_by_a_validated_benchmark_is_kept(
    project: Project, tmp_path: Path
) -> None:
    best = BestCheckpoint("eval/count_colour/greedy", folder=str(tmp_path))
    val = [
        TaskConfig(name=t.name, shards=t.shards, verifier=CoinVerifier(), max_samples=6)
        for t in project.tasks("val")
    ]
    logger = CSVLogger(tmp_path, name="", version="", flush_logs_every_n_steps=1)
    t = trainer(
        tmp_path,
        max_steps=8,
        val_check_interval=1,
        callbacks=[best],
        logger=logger,
        log_every_n_steps=1,
    )
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()), val_tasks=val)
    t.fit(project.sapo(), data)
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    column = rows[0].split(",").index("eval/count_colour/greedy")
    scores = [float(row.split(",")[column]) for row in rows[1:] if row.split(",")[column]]
    assert len(scores) == 4
    assert best.best == max(scores)
    assert best.iteration == scores.index(max(scores)) + 1
    saved = torch.load(tmp_path / "checkpoints/best.ckpt", weights_only=True)
    assert saved["global_step"] == 2 * best.iteration
    again = BestCheckpoint("eval/all/none", folder=str(tmp_path))
    with pytest.raises(ValueError, match="'eval/all/none'; choose one of eval/all/greedy"):
        trainer(tmp_path, max_steps=2, val_check_interval=1, callbacks=[again]).fit(
            project.sapo(), data
        )


def test_predictions_are_judged_where_there_is_a_reference(
    project: Project, tmp_path: Path
) -> None:
    samples = list(figures.samples("count_colour", split="val", count=3))
    questions = []
    for i, sample in enumerate(samples):
        (tmp_path / f"{i}.png").write_bytes(sample["images"][0])
        row = {"id": f"count_colour-val-000000.tar#{i:06d}", "question": sample["question"]}
        questions.append(row | {"images": [f"{i}.png"], "answer": sample["answer"]})
    del questions[2]["answer"]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, questions)))
    data = project.data(questions=str(path), question_verifier=CoinVerifier())
    out = tmp_path / "answers.jsonl"
    module = project.sapo(evaluation={"avg4": EVALUATION["avg4"]})
    trainer(tmp_path, callbacks=[AnswerWriter(str(out))]).predict(module, data)
    answers = lines(out)
    scores = [[r["score"] for r in a["responses"]] for a in answers[:2]]
    assert all(len(row) == 4 for row in scores)
    for answer, row in zip(answers[:2], scores, strict=True):
        assert row == [float(sum(r["text"].encode()) % 2) for r in answer["responses"]]
    assert all(isinstance(text, str) for text in answers[2]["responses"])
    # The same file drops prompts by how often they were solved.
    judged = tmp_path / "judged.jsonl"
    judged.write_text("".join(json.dumps(a) + "\n" for a in answers[:2]))
    keys = [line["key"] for line in lines(judged)]
    shards = str(project.root / "shards/count_colour-val-*.tar")
    rule = PassFilter(min_pass=0.0, max_pass=1.0)
    made = filter_shards(shards, [judged], tmp_path / "filtered", rule)
    assert made["kept"] + made["unmatched_answers"] == len(keys)
