"""A made-up run of two stages and two tests, as the other parts of the project would write it."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

TASKS = ("counting", "geometry", "chart reading", "spatial")
COLOURS = ("#c0392b", "#2471a3", "#239b56", "#d4ac0d", "#7d3c98")


def write_run(root: Path, *, iterations: int = 120, prompts: int = 40) -> dict[str, Any]:
    """Write the run below ``root``; returns the arguments of build_report but for ``out``."""
    draw = random.Random(7)
    stages = {"cold start": root / "cold_start", "sapo": root / "sapo"}
    tests = {"cold start": root / "test_cold", "after SAPO": root / "test_sapo"}
    write_metrics(stages["cold start"], [_sft_row(i, draw) for i in range(80)])
    write_metrics(stages["sapo"], [_row(i, iterations, draw) for i in range(iterations)])
    for name, folder in stages.items():
        (folder / "config.yaml").write_text(f"model:\n  stage: {name}\n  seed: 3\n")
    write_samples(
        stages["sapo"],
        [_train_sample(i, draw, stages["sapo"]) for i in range(0, iterations, 6)],
    )
    write_samples(stages["cold start"], [])
    for skill, (name, folder) in zip((0.38, 0.66), tests.items(), strict=True):
        lines = [
            sample(folder, task=TASKS[i % 4], key=f"test-000000.tar#{i:06d}", sampling=s, draw=d)
            | {"responses": _responses(n, skill, i, d)}
            for i in range(prompts)
            for d in [random.Random(i)]
            for s, n in (("greedy", 1), ("avg4", 4))
        ]
        write_samples(folder, lines)
        write_test(folder, skill, name)
    return {"title": "Quickstart, seed 3", "stages": stages, "tests": tests, "summary": summary()}


def write_metrics(folder: Path, rows: Sequence[Mapping[str, float]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names)
        writer.writeheader()
        writer.writerows(rows)


def write_samples(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_test(folder: Path, skill: float, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shift = {"counting": 0.1, "geometry": -0.1, "chart reading": 0.02, "spatial": -0.06}

    def score(mean: float, n: int) -> dict[str, float]:
        return {"mean": mean, "stderr": math.sqrt(mean * (1 - mean) / n), "n": n}

    record = {
        "settings": {
            "model": f"checkpoints/{name}",
            "seed": 3,
            "max_pixels": 200704,
            "samplings": {
                "greedy": {"temperature": 0.0, "group_size": 1},
                "avg4": {"temperature": 1.0, "group_size": 4},
            },
            "versions": {"torch": "2.9.1", "transformers": "5.20.0", "math-verify": "0.9.0"},
        },
        "tasks": {
            task: {
                "greedy": score(skill + by * skill + 0.03, 100),
                "avg4": score(skill + by * skill, 100),
            }
            for task, by in shift.items()
        },
        "all": {"greedy": score(skill + 0.03, 400), "avg4": score(skill, 400)},
    }
    (folder / "metrics.json").write_text(json.dumps(record))


def summary() -> dict[str, Any]:
    return {
        "seed": 3,
        "model_parameters": 2_134_016,
        "seconds": {"install": 41.0, "data": 6.2, "cold_start": 95.0, "sapo": 402.0, "test": 63.0},
        "tasks": {t: {"cold_start_avg4": 0.38, "sapo_avg4": 0.66, "n": 100} for t in TASKS},
        "accuracy_cold_start": 0.38,
        "accuracy_sapo": 0.66,
        "accuracy_gain": 0.28,
        "accuracy_gain_ci95": [0.231, 0.327],
        "gate": {"weight_mean_pos": 0.9912, "weight_mean_neg": 0.9874},
        "entropy": {"first": 0.83, "last": 0.31},
        "ratio_abs_log_p99": 0.41,
        "updates": 240,
        "tokens_per_second": 2310.0,
    }


def sample(
    folder: Path, *, task: str, key: str, sampling: str, draw: random.Random
) -> dict[str, Any]:
    count = draw.randint(2, 7)
    name = f"images/{key[-6:]}.png"
    draw_figure(folder / name, count, draw)
    question = (
        f"How many shapes are there in the picture? Think first, then answer with \\boxed{{}}. "
        f"({task})"
    )
    return {
        "stage": "test",
        "iteration": 0,
        "task": task,
        "key": key,
        "question": question,
        "options": {"A": "two", "B": "more than two"} if task == "spatial" else {},
        "images": [name],
        "reference": str(count),
        "sampling": sampling,
    }


def draw_figure(path: Path, count: int, draw: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (224, 160), "#fffdf5")
    pen = ImageDraw.Draw(image)
    for _ in range(count):
        x, y, size = draw.randint(5, 180), draw.randint(5, 120), draw.randint(18, 38)
        shape = draw.choice((pen.ellipse, pen.rectangle))
        shape((x, y, x + size, y + size), fill=draw.choice(COLOURS), outline="#333333")
    image.save(path)


def response(right: bool, answer: str, draw: random.Random, **more: Any) -> dict[str, Any]:
    found = None if not right and draw.random() < 0.2 else answer
    steps = " ".join(
        f"I see shape {i + 1} at the {draw.choice(('left', 'right'))}." for i in range(4)
    )
    record = {
        "text": f"Let me count the shapes one by one. {steps} So there are \\boxed{{{answer}}}.",
        "score": float(right),
        "extracted": found,
        "status": "ok" if found is not None else "no_answer",
        "reason": f"{answer} {'equals' if right else 'does not equal'} the reference"
        if found is not None
        else "no \\boxed{} and no number in the last line",
        "length": draw.randint(30, 120),
        "finished": draw.random() > 0.1,
        "advantage": None,
    }
    return {**record, **more}


def _responses(n: int, skill: float, index: int, draw: random.Random) -> list[dict[str, Any]]:
    hardness = random.Random(f"{index}-hard").random()
    reference = str(random.Random(index).randint(2, 7))
    out = []
    for _ in range(n):
        right = 0.7 * hardness + 0.3 * draw.random() < skill
        out.append(response(right, reference if right else str(draw.randint(8, 12)), draw))
    return out


def _train_sample(step: int, draw: random.Random, folder: Path) -> dict[str, Any]:
    key = f"train-000000.tar#{step:06d}"
    line = sample(folder, task=TASKS[step // 6 % 4], key=key, sampling="train", draw=draw)
    rights = [draw.random() < 0.3 + step / 200 for _ in range(8)]
    mean = sum(rights) / 8
    spread = math.sqrt(mean * (1 - mean)) or 1.0
    answers = [
        response(r, line["reference"] if r else "9", draw, advantage=(r - mean) / spread)
        for r in rights
    ]
    return line | {"stage": "train", "iteration": step, "responses": answers}


def _sft_row(step: int, draw: random.Random) -> dict[str, float]:
    loss = 2.4 * math.exp(-step / 18) + 0.3 + draw.gauss(0, 0.04)
    return {"step": step, "epoch": 0, "sft/loss": loss, "sft/token_accuracy": 1 - loss / 4}


def _row(i: int, total: int, draw: random.Random) -> dict[str, float]:
    done = i / total
    accuracy = 0.35 + 0.35 * (1 - math.exp(-3 * done)) + draw.gauss(0, 0.05)
    moved = 0.02 * (1 + 2 * done) * math.exp(draw.gauss(0, 0.15))
    seconds = {"rollout": 1.7, "verify": 0.1, "old_logp": 0.4, "update": 1.1}
    times = {f"time/{k}": v * (1 + draw.gauss(0, 0.05)) for k, v in seconds.items()}
    row = {
        "step": 2 * i + 1,
        "epoch": 0,
        "reward/mean": accuracy + 0.02,
        "reward/accuracy": accuracy,
        **{
            f"reward/{t}": min(1.0, max(0.0, accuracy + s + draw.gauss(0, 0.08)))
            for t, s in zip(TASKS, (0.1, -0.1, 0.0, -0.05), strict=True)
        },
        "reward/uniform_groups_share": 0.2 + 0.3 * done + draw.gauss(0, 0.05),
        "rollout/length_mean": 60 - 14 * done + draw.gauss(0, 2),
        "rollout/truncated_share": max(0.0, 0.12 * math.exp(-4 * done) + draw.gauss(0, 0.01)),
        "rollout/tokens": 12_000,
        **_gate_row(moved, draw),
        "policy/entropy": 0.3 + 0.55 * math.exp(-3 * done) + draw.gauss(0, 0.015),
        "policy/loss": draw.gauss(0, 0.01),
        "policy/grad_norm": 0.8 * math.exp(draw.gauss(0, 0.25)) + (3 if i == total // 2 else 0),
        "policy/lr": 1e-4 * min(1.0, i / 10),
        "policy/kl_old": moved**2,
        **times,
        "time/iteration": sum(times.values()) + 0.2,
        "time/tokens_per_second": 2300 * (1 + draw.gauss(0, 0.04)),
        "data/skipped_total": 2,
        "data/skipped_undecodable_image": 2,
    }
    if i % 20 == 0 or i == total - 1:
        row["eval/all/greedy"] = accuracy + 0.03
        row["eval/all/avg4"] = accuracy
        row |= {
            f"eval/{t}/{s}": min(1.0, accuracy + draw.gauss(0, 0.05))
            for t in TASKS
            for s in ("greedy", "avg4")
        }
    return row


def _gate_row(moved: float, draw: random.Random) -> dict[str, float]:
    return {
        "gate/weight_mean": 1 - moved / 3,
        "gate/weight_mean_pos": 1 - moved / 4,
        "gate/weight_mean_neg": 1 - moved / 2.5,
        "gate/effective_pos_up": 1.01 + moved,
        "gate/effective_pos_down": 0.99 - moved,
        "gate/effective_neg_up": 1.005 + moved,
        "gate/effective_neg_down": 0.98 - moved,
        "gate/under_half_share": max(0.0, moved / 20 + draw.gauss(0, 0.0005)),
        "gate/abs_log_ratio_p50": moved / 4,
        "gate/abs_log_ratio_p95": moved * 2.5,
        "gate/abs_log_ratio_p99": moved * 6,
        "gate/abs_log_ratio_max": moved * 40,
        "gate/first_update_error": 2.4e-7,
        "gate/tau_pos": 1.0,
        "gate/tau_neg": 1.05,
    }
