"""How answers are written: one JSON line a prompt, its images beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sapo_vl.still import middle_frame
from sapo_vl.types import Answers, Prompt, Verdict

_STILL = 640  # pixels of the longer side
_MAGIC = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"RIFF": "webp"}


def question_of(prompt: Prompt) -> str:
    """The text of a prompt's last message, with a mark where each image stands."""
    content = prompt.messages[-1]["content"]
    if isinstance(content, str):
        return content
    marks = {"image": "[image]", "video": "[video]"}
    return " ".join(marks.get(p["type"]) or str(p["text"]) for p in content)


def write_images(prompt: Prompt, folder: Path) -> list[str]:
    """Write a prompt's images under ``folder/images``, named by content; returns relative paths."""
    names = []
    for data in prompt.images:
        extension = next((e for magic, e in _MAGIC.items() if data.startswith(magic)), "bin")
        name = f"images/{hashlib.sha256(data).hexdigest()[:16]}.{extension}"
        path = folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        names.append(name)
    return names


def write_stills(prompt: Prompt, folder: Path) -> list[str]:
    """Write the middle frame of each video, as `write_images` does; a broken one is left out."""
    names = []
    for data in prompt.videos:
        name = f"images/{hashlib.sha256(data).hexdigest()[:16]}-middle.jpg"
        path = folder / name
        if not path.exists():
            try:
                still = middle_frame(data)
            except ValueError:
                continue
            still.thumbnail((_STILL, _STILL))
            path.parent.mkdir(parents=True, exist_ok=True)
            still.convert("RGB").save(path, "JPEG")
        names.append(name)
    return names


def answers_record(
    answers: Answers,
    folder: Path,
    stage: str,
    iteration: int,
    advantages: Iterable[float] | None = None,
) -> dict[str, Any]:
    """One line of samples.jsonl."""
    prompt = answers.prompt
    # Other evaluation kits score by more than the reference; a training log has no use for it.
    meta = {"meta": dict(prompt.meta)} if stage == "test" and prompt.meta else {}
    return {
        "stage": stage,
        "iteration": iteration,
        "task": prompt.task,
        "key": prompt.key,
        "index": prompt.index,
        "problem": prompt.problem,
        "categories": {name: list(values) for name, values in prompt.categories.items()},
        "question": question_of(prompt),
        "options": dict(prompt.options),
        "images": write_images(prompt, folder),
        **({"video_frames": write_stills(prompt, folder)} if prompt.videos else {}),
        "reference": prompt.reference,
        "sampling": answers.sampling,
        **meta,
        "responses": judged_responses(answers, advantages),
    }


def judged_responses(
    answers: Answers, advantages: Iterable[float] | None = None
) -> list[dict[str, Any]]:
    """Every response to a prompt with its verdict, as records hold them."""
    n = len(answers.texts)
    verdicts: list[Verdict | None] = list(answers.verdicts) or [None] * n
    advantage: list[float | None] = list(advantages) if advantages is not None else [None] * n
    rows = zip(answers.texts, verdicts, answers.lengths, answers.finished, advantage, strict=True)
    return [_response(*row) for row in rows]


def answers_from(record: Mapping[str, Any]) -> Answers:
    """Read a judged line of samples.jsonl again; the prompt has no messages and no media."""
    categories = {name: tuple(values) for name, values in record["categories"].items()}
    responses = record["responses"]
    return Answers(
        Prompt(
            reference=record["reference"],
            task=record["task"],
            key=record["key"],
            index=record["index"],
            options=record["options"],
            problem=record["problem"],
            categories=categories,
        ),
        record["sampling"],
        texts=[r["text"] for r in responses],
        verdicts=[
            Verdict(
                score=r["score"],
                extracted=r["extracted"],
                status=r["status"],
                reason=r["reason"],
                parts=r.get("parts", {}),
            )
            for r in responses
        ],
        lengths=[r["length"] for r in responses],
        finished=[r["finished"] for r in responses],
    )


def _response(
    text: str, verdict: Verdict | None, length: int, finished: bool, advantage: float | None
) -> dict[str, Any]:
    response: dict[str, Any] = {"text": text, "length": length, "finished": finished}
    if verdict is not None:
        response |= {
            "score": verdict.score,
            "extracted": verdict.extracted,
            "status": verdict.status,
            "reason": verdict.reason,
        }
        if verdict.parts:
            response["parts"] = dict(verdict.parts)
    if advantage is not None:
        response["advantage"] = advantage
    return response


def append_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Add records to a JSONL file, making its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
