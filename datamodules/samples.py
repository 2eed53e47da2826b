r"""One sample of a shard: the raw fields as they lie in the tar, and the prompt they stand for.

A sample is ``KEY.json`` with its images beside it: ``KEY.png`` (also jpg, jpeg, webp) for one
image, ``KEY.0.png, KEY.1.png, ...`` for several, nothing for text alone. Example::

    000017.json   {"question": "How many red shapes are there?", "answer": "3"}
    000017.png

    000018.json   {"question": "Compare <image1> with <image2>. Which is larger?", "answer": "B",
                   "options": ["the first", "the second"], "response": "\\boxed{B}", "level": 2}
    000018.0.png
    000018.1.jpg

    000019.json   {"messages": [{"role": "user", "content": [{"type": "image"},
                   {"type": "text", "text": "How many?"}]}], "answer": "3", "max_pixels": 401408}
    000019.webp

Fields of the JSON: ``question`` (text) or ``messages`` (Qwen chat form, taken as it stands), and
``answer`` are required; ``options`` (list of texts, labelled A, B, ..., or label -> text),
``response`` (a worked response), ``min_pixels``, ``max_pixels`` (of each image) are optional; the
rest becomes meta. In a question ``<image>`` or ``<image1>``, ``<image2>``, ... say where the images
go; without them all images come before the text. ``"image_markers": false`` makes such markers
plain text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from datamodules.fields import SampleError, check_text, image_extension, load_images, load_json
from sapo_vl.types import Prompt, Verifier

__all__ = ["DEFAULT_TEMPLATE", "SampleError", "image_extension", "read_sample"]

DEFAULT_TEMPLATE = "{question}\n{options}"

_MARKER = re.compile(r"<image([0-9]{0,3})>")
_ROLES = ("system", "user", "assistant")
_READ_FIELDS = ("question", "messages", "answer", "options", "response", "image_markers")
_PIXELS = ("min_pixels", "max_pixels")
_IMAGE_PART_KEYS = (*_PIXELS, "resized_height", "resized_width")


def read_sample(
    fields: Mapping[str, bytes],
    *,
    key: str,
    template: str = DEFAULT_TEMPLATE,
    task: str = "",
    verifier: Verifier | None = None,
    index: int = 0,
) -> Prompt:
    """Turn the raw fields of one sample into a prompt; images stay encoded.

    Args:
        fields: field name -> content, e.g. ``{"json": b"...", "png": b"..."}``; names that start
            with "__" are webdataset's own and left alone.
        key: unique name of the sample, set as ``Prompt.key``.
        template: str.format text with ``{question}`` and ``{options}`` (lines "A. text", or none).
        task: set as ``Prompt.task``.
        verifier: set as ``Prompt.verifier``.
        index: set as ``Prompt.index``.

    Raises:
        SampleError: the sample can't be used; ``why`` names the reason.
    """
    data = load_json(fields)
    images = load_images(fields)
    options = _options(data.get("options"))
    pixels = _sizes(data, _PIXELS, {})
    if data.get("messages") is not None:
        messages = _read_messages(data["messages"], pixels)
        _match_parts(messages, images)
    else:
        text = _render(data, options, template)
        content, images = _place_images(text, images, pixels, data.get("image_markers", True))
        messages = [{"role": "user", "content": content}]
    response = data.get("response")
    return Prompt(
        reference=_answer(data),
        task=task,
        key=key,
        index=index,
        messages=tuple(messages),
        images=images,
        options=options,
        response=None if response is None else check_text(response, "response"),
        meta={name: value for name, value in data.items() if name not in (*_READ_FIELDS, *_PIXELS)},
        verifier=verifier,
    )


def _answer(data: Mapping[str, Any]) -> str:
    answer = data.get("answer")
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        answer = str(answer)
    if answer is None or answer == "":
        raise SampleError("missing_answer", 'the .json has no "answer"')
    return check_text(answer, "answer", "missing_answer")


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
    data: Mapping[str, Any], names: Sequence[str], default: Mapping[str, int]
) -> dict[str, int]:
    """Read the size limits called ``names``; what isn't there stays as in ``default``."""
    own = {name: data[name] for name in names if data.get(name) is not None}
    for name, value in own.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SampleError(
                "bad_json", f'"{name}" is {value!r}; it must be a whole number above 0'
            )
    sizes = {**default, **own}
    if "max_pixels" in sizes and sizes.get("min_pixels", 0) > sizes["max_pixels"]:
        raise SampleError("bad_json", f'"min_pixels" is above "max_pixels": {sizes}')
    return sizes


def _render(data: Mapping[str, Any], options: Mapping[str, str], template: str) -> str:
    question = data.get("question")
    if question is None or (isinstance(question, str) and not question.strip()):
        raise SampleError("missing_question", 'the .json has neither "question" nor "messages"')
    lines = "\n".join(f"{label}. {text}" for label, text in options.items())
    question = check_text(question, "question", "missing_question")
    try:
        return template.format(question=question, options=lines).strip()
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"template {template!r} can't be filled ({error!r});"
            " the names it may hold are {question} and {options}"
        ) from None


def _place_images(
    text: str, images: tuple[bytes, ...], pixels: Mapping[str, int], markers: bool
) -> tuple[list[dict[str, Any]], tuple[bytes, ...]]:
    """Cut the text at its markers; the images come back in the order of their parts."""
    image_part = {"type": "image", **pixels}
    pieces = _MARKER.split(text) if markers else [text]  # text, number, text, number, ..., text
    order = [int(number or place) for place, number in enumerate(pieces[1::2], start=1)]
    if not order:
        return [*(dict(image_part) for _ in images), {"type": "text", "text": text}], images
    if sorted(order) != list(range(1, len(images) + 1)):
        raise SampleError(
            "image_count",
            f"the text marks images {order}, the sample has {len(images)}; mark each one once,"
            ' or set "image_markers" to false to keep the markers as text',
        )
    content: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        if place % 2:
            content.append(dict(image_part))
        elif piece:
            content.append({"type": "text", "text": piece})
    return content, tuple(images[number - 1] for number in order)


def _read_messages(value: Any, pixels: Mapping[str, int]) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise SampleError("missing_question", '"messages" is no list of messages')
    messages = []
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise SampleError("bad_json", f'a message needs a "role" out of {", ".join(_ROLES)}')
        content = message.get("content")
        if isinstance(content, list):
            content = [_read_part(part, pixels) for part in content]
        else:
            content = check_text(content, "content")
        messages.append({"role": role, "content": content})
    if messages[-1]["role"] != "user":
        raise SampleError("missing_question", 'the last of "messages" must be the user\'s')
    return messages


def _read_part(part: Any, pixels: Mapping[str, int]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return {"type": "text", "text": check_text(part.get("text"), "text")}
    if kind == "image":
        # Only sizes pass: a path or URL here would make the processor fetch it.
        return {"type": "image", **_sizes(part, _IMAGE_PART_KEYS, pixels)}
    raise SampleError(
        "unknown_media", f'a content part has the type {kind!r}; use "text" or "image"'
    )


def _match_parts(messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> None:
    parts = [
        part
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    count = sum(part["type"] == "image" for part in parts)
    if count != len(images):
        raise SampleError(
            "image_count", f'"messages" has {count} image parts, the sample {len(images)} images'
        )
