"""The folder of a test with many forms of answers to every benchmark that a kit can score.

Prompts come from files of the published layouts through our shards, answers are judged by the
verifiers of the benchmarks' YAMLs, records are written by the code that writes a test's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_config import tasks
from set_shards import write_set_shards

from datamodules.grouping import grouped
from datamodules.samples import read_sample
from datamodules.shard_index import ShardIndex, expand_shards
from sapo_vl.callbacks.records import answers_record
from sapo_vl.evaluation.store import json_text
from sapo_vl.types import Answers, Prompt
from sapo_vl.verifiers.official.compare import read_answers

FILES = (
    "mathvision", "mathvista", "mmmu", "mmmu_pro", "chartqa", "docvqa", "countbench", "refcoco",
    "visulogic", "emma", "dynamath", "wemath", "puzzlevqa",
)  # fmt: skip
ORACLES = {"mathvision": "mathvision", "mathvista_rule": "mathvista", "emma_fast": "emma"}

_CHOICE = (
    "{0}", "({0})", "{0}.", "{0}: it fits", "Answer: {0}", "The answer is {0}.", "**{0}**",
    "Answer: ({0})", r"\boxed{{{0}}}", r"So $\boxed{{\text{{{0}}}}}$.", "Not {1}.\nAnswer: {0}",
    "<Thought process>: <<no {1}>> <Answer>: <<{0}>>", "Both {0} and {1} are possible here.",
    "{0}\nsince {1} is too large", "The correct answer is option {0}", "Answer: ${0}",
    '{{"solution": "s", "short answer": "{0}"}}', "\\boxed{{{1}}} no, \\boxed{{{0}}}",
    "answer: {0}",
)  # fmt: skip
_FREE = (
    "{0}", " {0} ", "{0}.", "It is {0}", "The answer is {0}.", r"\boxed{{{0}}}", "{0}%", "${0}",
    r"Hence \boxed{{{0}}} cm", '{{"solution": "s", "short answer": "{0}"}}', "about {0} or so",
    r"\boxed{{1}}, then \boxed{{{0}}}", "Answer: {0}", "{0}0", "-{0}", "final answer is {0}\nwell",
)  # fmt: skip
_ODD = (
    "",
    " ",
    "I do not know.",
    "=SUM(A1)",
    "one\ttwo\r\nthree",
    '"',
    "\u00e9\u4e2d\U0001f600",
    "#N/A",
)
_WORDS = (
    "three",
    "2008",
    "1.95",
    "2.05",
    "12",
    "0.12",
    "12%",
    "1-8-93",
    "1/8/9",
    "1/8/ 93",
    "0.5",
    "1/2",
)
_BOXES = (
    "[20, 10, 120, 60]", "[100, 100, 600, 600]", '[{"bbox_2d": [100, 100, 600, 600]}]',
    '```json\n[{"bbox_2d": [0, 0, 9, 9]}, {"bbox_2d": [90, 90, 620, 640], "label": "dog"}]\n```',
    "(0.1, 0.1, 0.6, 0.6)", "[0.1, 0.1, 0.6, 0.6]", "It is at [100,100],[600,600].",
    '{"bbox": [110, 120, 590, 560]}', "[600, 600, 100, 100]", "[1, 2, 3]", "[300, 300, 800, 800]",
    "<box>100 100 600 600</box>",
    '[{"bbox_2d": [40, 100, 600, 600]}, {"bbox_2d": [20, 10, 121, 61]}]',
)  # fmt: skip


def write_kit_test(
    folder: Path,
    shards: Path,
    oracles: Path | None = None,
    *,
    every: int = 1,
    forms: int | None = None,
) -> Path:
    """Write ``samples.jsonl`` and ``metrics.json`` as a test does.

    Args:
        folder: to write to.
        shards: where to put shards.
        oracles: folder of stored model answers, in place of ours where it has them.
        every: take one in so many of those.
        forms: of how many forms an answer is given to a prompt; all by default.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = 0
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
        for name in FILES:
            write_set_shards(name, shards)
            for task in tasks(name).values():
                pairs = _oracle(task.name, oracles, every) if oracles else None
                for prompt, text in pairs or _pairs(task, shards, forms):
                    asked = replace(prompt, task=task.name, index=index)
                    record = _judged(asked, text, task, folder)
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                    index += 1
    settings = {"model": "models/a_model"}
    metrics = {"settings": settings, "tasks": {"all": {"greedy": {"mean": 0, "stderr": 0, "n": 1}}}}
    (folder / "metrics.json").write_text(json_text(metrics))
    return folder


def _judged(prompt: Prompt, text: str, task: Any, folder: Path) -> dict[str, Any]:
    verdict = task.verifier(prompt, text)
    assert verdict.status in ("ok", "no_answer"), verdict
    answers = Answers(
        prompt, "greedy", texts=[text], verdicts=[verdict], lengths=[1], finished=[True]
    )
    return answers_record(answers, folder, "test", 0)


def _pairs(task: Any, root: Path, forms: int | None) -> Iterator[tuple[Prompt, str]]:
    """Every form of answer to every published prompt, as so many prompts."""
    index = ShardIndex(expand_shards(str(root / task.shards)))
    for i in range(len(index)):
        read = read_sample(index.read(i), key=index.keys[i], template=task.template)
        prompt = grouped(read, task.problem, task.categories)
        for number, text in enumerate(_texts(prompt)[:forms]):
            yield replace(prompt, key=f"{prompt.key}/{number}"), text


def _texts(prompt: Prompt) -> Sequence[str]:
    if prompt.reference.startswith("["):
        return [*_BOXES, *_ODD]
    if not prompt.options and prompt.reference.isalpha():
        others = ["A", "C"]
    else:
        others = [label for label in prompt.options if label != prompt.reference][:2]
    if not others:
        forms = [f.format(x) for f in _FREE for x in (prompt.reference, "7")]
        return [*forms, *_WORDS, *_ODD]
    wrong = others[-1]
    pairs = ((prompt.reference, others[0]), (wrong, prompt.reference))
    texts = [text for text in prompt.options.values() if len(text) > 1]
    forms = [form.format(*pair) for form in _CHOICE for pair in pairs]
    return [*forms, *(f"It must be {text}" for text in texts), *texts, *_ODD]


def _oracle(task: str, folder: Path, every: int) -> Iterator[tuple[Prompt, str]] | None:
    name = ORACLES.get(task)
    if name is None or not (folder / f"{name}.jsonl").is_file():
        return None
    return _stored(name, folder, every)


def _stored(name: str, folder: Path, every: int) -> Iterator[tuple[Prompt, str]]:
    """Stored answers; MathVista stored what was extracted, which our wording asks to box."""
    for answer in list(read_answers(folder, name))[::every]:
        prompt = answer.prompt
        labels = [label for label, text in prompt.options.items() if text == prompt.reference]
        boxed = name == "mathvista"
        kind = "multi_choice" if prompt.options else "free_form"
        meta = {
            "pid": answer.id,
            "id": answer.id,
            "question_type": kind,
            "query": "",
            "metadata": {},
        }
        yield (
            replace(
                prompt,
                key=answer.id,
                meta={
                    **meta,
                    **prompt.meta,
                    "type": "Multiple Choice" if prompt.options else "Open",
                },
                reference=labels[0] if labels and boxed else prompt.reference,
                categories={"subject": ("all",)},
                messages=({"role": "user", "content": f"Question {answer.id}?"},),
            ),
            rf"\boxed{{{answer.response}}}" if boxed else answer.response,
        )
