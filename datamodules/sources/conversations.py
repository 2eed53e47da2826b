r"""Conversations as LLaVA and Qwen-VL write them, made into plain columns.

Two forms, one object each::

    {"id": "1", "image": "a.jpg", "conversations": [
        {"from": "human", "value": "<image>How many?"}, {"from": "gpt", "value": "\\boxed{3}"}]}
    {"images": ["a.jpg"], "messages": [{"role": "user", "content": "<image>How many?"},
        {"role": "assistant", "content": "3"}]}

The last turn must be the model's: it becomes the worked response, and the answer is what its last
``\boxed{...}`` holds, else its ``<answer>``, else all of it. An ``answer`` beside the conversation
goes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from datamodules.sources.rows import RowError

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
_MARKER = re.compile(r"\s*<image>\s*")
_TAG = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL)


def plain_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row with ``question`` or ``messages``, ``answer`` and ``response`` in place of turns.

    Raises:
        RowError: no turns, an unknown speaker, or no answer of the model at the end.
    """
    column = "conversations" if "conversations" in fields else "messages"
    turns = _turns(fields.get(column), column)
    rest = {name: value for name, value in fields.items() if name != column}
    if len(turns) < 2 or turns[-1][0] != "assistant" or turns[-2][0] != "user":
        raise RowError(
            "row", column, "the last two turns must be the user's and then the model's answer"
        )
    response = turns[-1][1]
    rest.setdefault("answer", final_answer(response))
    rest["response"] = response
    if len(turns) == 2:
        return {**rest, "question": turns[0][1]}
    return {**rest, "messages": [_message(role, text) for role, text in turns[:-1]]}


def final_answer(response: str) -> str:
    r"""Give what the last ``\boxed{...}`` holds, else the last ``<answer>``, else all of it."""
    boxed = _last_box(response)
    if boxed is not None:
        return boxed
    tagged = _TAG.findall(response)
    return str(tagged[-1]) if tagged else response.strip()


def _last_box(text: str) -> str | None:
    start = text.rfind(r"\boxed{")
    if start < 0:
        return None
    start += len(r"\boxed{")
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place].strip()
    return None


def _turns(value: Any, column: str) -> list[tuple[str, str]]:
    if not isinstance(value, list):
        raise RowError("row", column, 'missing; write a list of turns {"from", "value"}')
    turns = []
    for turn in value:
        speaker = turn.get("from", turn.get("role")) if isinstance(turn, dict) else None
        if not isinstance(speaker, str) or speaker not in _ROLES:
            raise RowError("row", column, f"no speaker is called {speaker!r}; use human and gpt")
        turns.append((_ROLES[speaker], _text(turn.get("value", turn.get("content")), column)))
    return turns


def _text(content: Any, column: str) -> str:
    """Give a turn as a text; parts of a chat message become text with ``<image>`` marks."""
    if isinstance(content, list):
        return "".join(
            "<image>" if part.get("type") == "image" else str(part.get("text", ""))
            for part in content
            if isinstance(part, dict)
        )
    if not isinstance(content, str):
        raise RowError("row", column, f"a turn holds {content!r}; write a text")
    return content


def _message(role: str, text: str) -> dict[str, Any]:
    if role != "user" or "<image>" not in text:
        return {"role": role, "content": text}
    parts: list[dict[str, str]] = []
    for place, piece in enumerate(_MARKER.split(text)):
        if place:
            parts.append({"type": "image"})
        if piece:
            parts.append({"type": "text", "text": piece})
    return {"role": role, "content": parts}
