r"""One sample of a shard: the raw fields as they lie in the tar, and the prompt they stand for.

A sample is ``KEY.json`` with its media beside it: ``KEY.png`` (also jpg, jpeg, webp) for one image,
``KEY.0.png, KEY.1.png, ...`` for several, ``KEY.mp4`` or ``KEY.0.mp4, ...`` for videos, nothing for
text alone. Images and videos are numbered each on their own. Example::

    000017.json   {"question": "How many red shapes are there?", "answer": "3"}
    000017.png

    000018.json   {"question": "Compare <image1> with <image2>. Which is larger?", "answer": "B",
                   "options": ["the first", "the second"], "response": "\\boxed{B}", "level": 2}
    000018.0.png
    000018.1.jpg

    000019.json   {"messages": [{"role": "user", "content": [{"type": "image"},
                   {"type": "text", "text": "How many?"}]}], "answer": "3", "max_pixels": 401408}
    000019.webp

    000020.json   {"question": "<video> Which ball falls first?", "answer": "the red one", "fps": 1}
    000020.mp4

Fields of the JSON: ``question`` (text) or ``messages`` (Qwen chat form, taken as it stands), and
``answer`` are required; ``options`` (list of texts, labelled A, B, ..., or label -> text),
``response`` (a worked response), ``min_pixels``, ``max_pixels`` (of each image or frame) and,
beside a video, ``fps`` or ``nframes``, ``min_frames``, ``max_frames``, ``total_pixels`` are
optional; the rest becomes meta. In a question ``<image>`` or ``<image1>``, ``<image2>``, ... say
where the images go, ``<video>``, ``<video1>``, ... where the videos; without them the media come
before the text. ``"image_markers": false`` makes all such markers plain text.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from datamodules.fields import SampleError, check_text, image_extension, load_json, load_media
from datamodules.templates import PromptTemplate
from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt

__all__ = ["DEFAULT_TEMPLATE", "SampleError", "image_extension", "read_sample"]

DEFAULT_TEMPLATE = "{question}\n{options}"

_IMAGE_MARKER = re.compile(r"<(image)([0-9]{0,3})>")
_MEDIA_MARKER = re.compile(r"<(image|video)([0-9]{0,3})>")
_ROLES = ("system", "user", "assistant")
_READ_FIELDS = ("question", "messages", "answer", "options", "response", "image_markers")
_PIXELS = ("min_pixels", "max_pixels")
_FRAMES = ("fps", "nframes", "min_frames", "max_frames", "total_pixels")
_PART_KEYS = {
    "image": (*_PIXELS, "resized_height", "resized_width"),
    "video": (*_PIXELS, *_FRAMES),
}

_Limits = Mapping[str, Mapping[str, float]]  # "image", "video" -> what the JSON says of them all
_Media = dict[str, tuple[bytes, ...]]  # "image", "video" -> encoded files


def read_sample(
    fields: Mapping[str, bytes],
    *,
    key: str,
    template: str | PromptTemplate = DEFAULT_TEMPLATE,
    task: str = "",
    verifier: Verifier | None = None,
    index: int = 0,
) -> Prompt:
    """Turn the raw fields of one sample into a prompt; images stay encoded.

    Args:
        fields: field name -> content, e.g. ``{"json": b"...", "png": b"..."}``; names that start
            with "__" are webdataset's own and left alone.
        key: unique name of the sample, set as ``Prompt.key``.
        template: str.format text with ``{question}`` and ``{options}`` (lines "A. text", or none),
            or wordings in jinja2.
        task: set as ``Prompt.task``.
        verifier: set as ``Prompt.verifier``.
        index: set as ``Prompt.index``.

    Raises:
        SampleError: the sample can't be used; ``why`` names the reason.
    """
    data = load_json(fields)
    media: _Media = dict(zip(("image", "video"), load_media(fields), strict=True))
    options = _options(data.get("options"))
    frames = _FRAMES if media["video"] else ()
    pixels = _sizes(data, _PIXELS, {})
    limits = {"image": pixels, "video": _sizes(data, frames, pixels)}
    meta = _without(data, (*_READ_FIELDS, *_PIXELS, *frames))
    if data.get("messages") is not None:
        messages = _read_messages(data["messages"], limits, media)
    else:
        text = _render(data, options, template, meta)
        content, media = _place_media(text, media, limits, data.get("image_markers", True))
        messages = [*_system(template), {"role": "user", "content": content}]
    return Prompt(
        reference=_answer(data),
        task=task,
        key=key,
        index=index,
        messages=tuple(messages),
        images=media["image"],
        videos=media["video"],
        options=options,
        response=_response(data),
        meta=meta,
        verifier=verifier,
    )


def _answer(data: Mapping[str, Any]) -> str:
    answer = data.get("answer")
    if isinstance(answer, int | float) and not isinstance(answer, bool) and math.isfinite(answer):
        answer = str(answer)
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        raise SampleError("missing_answer", 'the .json has no "answer"')
    return check_text(answer, "answer", "missing_answer")


def _response(data: Mapping[str, Any]) -> str | None:
    response = data.get("response")
    return None if response is None else check_text(response, "response")


def _without(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


def _options(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, list) and len(value) <= len(string.ascii_uppercase):
        value = dict(zip(string.ascii_uppercase, value, strict=False))
    if not isinstance(value, dict):
        raise SampleError(
            "bad_json", '"options" is no list of up to 26 texts and no mapping label -> text'
        )
    texts = {label: str(x) if isinstance(x, int | float) else x for label, x in value.items()}
    return {check_text(label, "options"): check_text(x, "options") for label, x in texts.items()}


def _sizes(
    data: Mapping[str, Any], names: Sequence[str], default: Mapping[str, float]
) -> dict[str, float]:
    """Read the size limits called ``names``; what isn't there stays as in ``default``."""
    own = {name: data[name] for name in names if data.get(name) is not None}
    for name, value in own.items():
        kinds, kind = (int | float, "number") if name == "fps" else (int, "whole number")
        if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value < math.inf:
            raise SampleError("bad_json", f'"{name}" is {value!r}; it must be a {kind} above 0')
    sizes = {**default, **own}
    if "max_pixels" in sizes and sizes.get("min_pixels", 0) > sizes["max_pixels"]:
        raise SampleError("bad_json", f'"min_pixels" is above "max_pixels": {sizes}')
    return sizes


def _render(
    data: Mapping[str, Any],
    options: Mapping[str, str],
    template: str | PromptTemplate,
    meta: Mapping[str, Any],
) -> str:
    question = data.get("question")
    if question is None or (isinstance(question, str) and not question.strip()):
        raise SampleError("missing_question", 'the .json has neither "question" nor "messages"')
    question = check_text(question, "question", "missing_question")
    if isinstance(template, PromptTemplate):
        return template.render(question, options, meta)
    lines = "\n".join(f"{label}. {text}" for label, text in options.items())
    try:
        return template.format(question=question, options=lines).strip()
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"template {template!r} can't be filled ({error!r});"
            " the names it may hold are {question} and {options}"
        ) from None


def _system(template: str | PromptTemplate) -> list[dict[str, Any]]:
    text = template.system if isinstance(template, PromptTemplate) else ""
    return [{"role": "system", "content": text}] if text else []


def _place_media(
    text: str, media: _Media, limits: _Limits, markers: bool
) -> tuple[list[dict[str, Any]], _Media]:
    """Cut the text at its markers; the media come back in the order of their parts."""
    marker = _MEDIA_MARKER if media["video"] else _IMAGE_MARKER  # else <video> is an HTML tag
    pieces = marker.split(text) if markers else [text]  # text, kind, number, text, ..., text
    kinds = pieces[1::3]
    content: list[dict[str, Any]] = []
    ordered: _Media = {}
    for kind, files in media.items():
        numbers = [n for k, n in zip(kinds, pieces[2::3], strict=True) if k == kind]
        order = [int(number or place) for place, number in enumerate(numbers, start=1)]
        if not order:
            content += [{"type": kind, **limits[kind]} for _ in files]
            order = list(range(1, len(files) + 1))
        if sorted(order) != list(range(1, len(files) + 1)):
            raise SampleError(
                "image_count",
                f"the text marks {kind}s {order}, the sample has {len(files)}; mark each one once,"
                ' or set "image_markers" to false to keep the markers as text',
            )
        ordered[kind] = tuple(files[number - 1] for number in order)
    for place, piece in enumerate(pieces[::3]):
        if piece or len(pieces) == 1:
            content.append({"type": "text", "text": piece})
        if place < len(kinds):
            content.append({"type": kinds[place], **limits[kinds[place]]})
    return content, ordered


def _read_messages(value: Any, limits: _Limits, media: _Media) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise SampleError("missing_question", '"messages" is no list of messages')
    messages = []
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise SampleError("bad_json", f'a message needs a "role" out of {", ".join(_ROLES)}')
        content = message.get("content")
        if isinstance(content, list):
            content = [_read_part(part, limits) for part in content]
        else:
            content = check_text(content, "content")
        messages.append({"role": role, "content": content})
    if messages[-1]["role"] != "user":
        raise SampleError("missing_question", 'the last of "messages" must be the user\'s')
    _match_parts(messages, media)
    return messages


def _read_part(part: Any, limits: _Limits) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return {"type": "text", "text": check_text(part.get("text"), "text")}
    if isinstance(kind, str) and kind in _PART_KEYS:
        # Only sizes pass: a path or URL here would make the processor fetch it.
        return {"type": kind, **_sizes(part, _PART_KEYS[kind], limits[kind])}
    raise SampleError(
        "unknown_media", f'a content part has the type {kind!r}; use "text", "image" or "video"'
    )


def _match_parts(messages: Sequence[Mapping[str, Any]], media: _Media) -> None:
    kinds = [
        part["type"]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    for kind, files in media.items():
        if kinds.count(kind) != len(files):
            raise SampleError(
                "image_count",
                f'"messages" has {kinds.count(kind)} {kind} parts, the sample {len(files)} {kind}s',
            )
