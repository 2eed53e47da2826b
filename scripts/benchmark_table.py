"""Write docs/benchmarks.md from the YAMLs of configs/eval."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from datamodules.benchmarks import read_suite
from datamodules.tasks import BenchmarkCard, TaskConfig
from datamodules.templates import PromptTemplate

ROOT = Path(__file__).resolve().parents[1]
EVAL = ROOT / "configs" / "eval"
NO_BENCHMARKS = ("model", "trainer")  # parts that the others take in
HEAD = """# Benchmarks

Made by `scripts/benchmark_table.py` from the files of `configs/eval`; do not edit it by hand.

```sh
python scripts/make_shards.py mathvision --split test --data MathVision/data data/
sapo-vl test --config configs/eval/mathvision.yaml --model.policy.path FOLDER
```

- **Several at once**: `--config configs/eval/aime25.yaml --config configs/eval/chartqa.yaml`; the
  pixel budget is that of the last one. `configs/eval/sapo_paper.yaml`: the SAPO paper's validation.
- **Sampling**: add `--config configs/eval/sampling/instruct.yaml`, `thinking.yaml` (which also
  tells every verifier that the model reasons before `</think>`) or `greedy.yaml` (as `model.yaml`).
- **Wording**: each benchmark has several; `--data.template qwen3_vl` uses that one wherever there
  is one of this name. `official` is what the authors ask, `qwen3_vl` what the scripts of Qwen3-VL
  and VLMEvalKit's Qwen3VLChat ask, `vlmevalkit` the wording of its data set's class where that is
  another one; VLMEvalKit's registered Qwen3-VL models are asked that (`use_custom_prompt=False`).
- **Official and own score** come from the same answers: the score is that of the rule in the table,
  other rules' scores stand beside it under their names (`parts` in `samples.jsonl`). A rule named
  `training_rule` or `box` reads the form that the default wording asks for.
- **Judges**: where the official score is given by a language model, the name of the task ends in
  `_rule` or `_judge` and its score is another one, not to be compared with published numbers.
- **Headlines**: where the published score is a mean over tasks it has a name of its own, see below.
- **Less of it**: `--data.max_samples 100`.
"""
TAIL = """
## Rescoring with the kits

`scripts/export_results.py` and `scripts/check_kits.py`: see [rescoring.md](rescoring.md).
"""


HEADLINES = """## Headlines

A benchmark's headline is the score of its task (`eval/TASK/SAMPLING`), but for these, where every
task counts the same whatever its size:
"""
COUNTS = """## Item counts

Where the number of items was looked up:
"""
DIFFERENCES = """## Differences left on purpose

From the official code, and from VLMEvalKit (e8e78f05) and lmms-eval (75571cfe) where they differ:
"""


def page() -> str:
    """Return the whole page."""
    files = sorted(path for path in EVAL.glob("*.yaml") if path.stem not in NO_BENCHMARKS)
    suites = {path.stem: read_suite(path) for path in files}
    seen: set[str] = set()
    rows: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    sources = []
    counts: dict[str, list[str]] = {}
    differences: dict[str, list[str]] = {}
    for stem, suite in suites.items():
        if stem == "sapo_paper":  # its tasks are those of their own files
            continue
        for task in suite.tasks["test"]:
            card = task.card
            if card is not None and task.name not in seen:
                seen.add(task.name)
                named = (f"`{task.name}`", f"{card.items:,}")
                rows.setdefault(_same(stem, task, card), []).append(named)
                sources.append(f"| `{task.name}` | `{_source(card)}` | {card.licence} |")
                counts.setdefault(card.counted, []).append(f"`{task.name}` ({card.items:,})")
                differences.setdefault(card.differs, []).append(f"`{task.name}`")
    table = ["| task | file | items | wordings | official score | judge | this score | metric |"]
    table += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    table += [_row(named, same) for same, named in rows.items()]
    shards = ["## Data", "", "| task | `scripts/make_shards.py` | licence |", "| --- | --- | --- |"]
    means = [
        f"- `eval/{name}/SAMPLING` (`{stem}.yaml`): the mean over {_listed(tasks)}"
        for stem, suite in suites.items()
        for name, tasks in suite.headlines.items()
    ]
    parts = [HEAD, *table, "", HEADLINES, *means, "", *shards, *sources]
    notes = ["", COUNTS, *_notes(counts), "", DIFFERENCES, *_notes(differences), TAIL]
    return "\n".join([*parts, *notes])


def _notes(tasks: Mapping[str, Iterable[str]]) -> list[str]:
    """One line a text, after the tasks that it is about."""
    return [f"- {', '.join(names)}: {text}" for text, names in tasks.items() if text]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _same(stem: str, task: TaskConfig, card: BenchmarkCard) -> tuple[str, ...]:
    """Cells beside task and items; tasks that have them all in common share a row."""
    judge = "needed" if card.judge else "no"
    return f"`{stem}.yaml`", _wordings(task), card.official, judge, card.score, card.metric


def _row(named: Iterable[tuple[str, str]], same: tuple[str, ...]) -> str:
    """One row; names and numbers of items stand line by line."""
    names, items = ("<br>".join(column) for column in zip(*named, strict=True))
    file, *rest = same
    cells = [names, file, items, *rest]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _wordings(task: TaskConfig) -> str:
    if not isinstance(task.template, PromptTemplate):
        return ""
    used = task.template.use
    return ", ".join([f"**{used}**", *(name for name in task.template.texts if name != used)])


def _source(card: BenchmarkCard) -> str:
    return f"{card.source} --data FILES data/"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page(), encoding="utf-8")
    print(target.relative_to(ROOT))
