"""Two processes with unequal parts, one of them empty, score as one process does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from sapo_vl.evaluation import MajorityAtK, PassAtK, WorstCase
from sapo_vl.evaluation.scoreboard import Scoreboard
from sapo_vl.types import Answers, Prompt, PromptBatch, Sampling, Skip, Verdict

CUTS = (9, 23, 30)  # how many of 30 prompts the first rank has
SAMPLINGS = {"greedy": Sampling(group_size=1), "avg2": Sampling(group_size=2)}


def part(numbers: range) -> list[Answers]:
    return [
        Answers(
            Prompt(
                reference="1",
                task="café" if i % 2 else "b",
                key=f"Schlüssel {i}",
                problem=str(i // 3),
                categories={"level": (str(i % 3), "every")},
            ),
            name,
            texts=["x"] * sampling.group_size,
            verdicts=[
                Verdict(score=float((i * 7 + j) % 5 > 1), extracted=str(j))
                for j in range(sampling.group_size)
            ],
            lengths=[i + 1] * sampling.group_size,
            finished=[i % 4 > 0] * sampling.group_size,
        )
        for i in numbers
        for name, sampling in SAMPLINGS.items()
    ]


def score(numbers: range) -> dict[str, object]:
    board = Scoreboard(SAMPLINGS, torch.device("cpu"))
    metrics = {"b": [WorstCase(), PassAtK(2)], "café": [MajorityAtK()]}
    board.begin(PromptBatch([], [], ["b", "café"], metrics=metrics))
    board.update(part(numbers))
    board.skip(Skip(why="too_long", where=str(i), detail="") for i in numbers if i % 5 == 0)
    return board.compute()


def test_uneven_ranks_score_as_one_process(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)]),
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)], env=environment)
        for rank in range(2)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    one = json.loads(json.dumps(score(range(30))))
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == [one] * len(CUTS)
    assert one["all"]["avg2"]["n"] == 30
    assert one["skipped"]["too_long"] == 6


if __name__ == "__main__":
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    found = [score(range(cut) if rank == 0 else range(cut, 30)) for cut in CUTS]
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()
