"""One picture of many samples: image or middle of the video, question, answer, to look at."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from datamodules.fields import is_mp4
from datamodules.samples import SampleError, read_sample
from datamodules.shard_check import find_shards
from datamodules.shard_index import ShardIndex
from sapo_vl.types import Prompt

_CELL = 300  # width of a cell
_PICTURE = 200  # height of its picture
_LINES = 7
_LINE = 16
_PAD = 8
_WIDTH = 42  # characters a line
_HEIGHT = _PICTURE + (_LINES + 3) * _LINE + 3 * _PAD


def contact_sheet(
    shards: str | Path, path: str | Path, *, count: int = 24, columns: int = 4
) -> int:
    """Write a PNG of samples: as many of each shard, evenly through it.

    Args:
        shards: a folder or a pattern.
        path: the PNG to write.
        count: how many samples at most.
        columns: how many side by side.

    Returns:
        how many samples it shows.
    """
    index = ShardIndex(find_shards(shards)[0])
    places = _choose(index.keys, count)
    count = len(places)
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = Image.new("RGB", (columns * _CELL, rows * _HEIGHT), "white")
    for cell, place in enumerate(places):
        left, top = cell % columns * _CELL, cell // columns * _HEIGHT
        sheet.paste(_draw(index, place), (left, top))
    sheet.save(path, "PNG")
    return count


def _choose(keys: Sequence[str], count: int) -> list[int]:
    """Give the places of ``count`` samples; a small shard shows as many as a large one."""
    shards: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        shards.setdefault(key.partition("#")[0], []).append(place)
    each = -(-count // len(shards))
    chosen = [
        places[i * len(places) // min(each, len(places))]
        for places in shards.values()
        for i in range(min(each, len(places)))
    ]
    return (
        [chosen[i * len(chosen) // count] for i in range(count)] if len(chosen) > count else chosen
    )


def _draw(index: ShardIndex, place: int) -> Image.Image:
    cell = Image.new("RGB", (_CELL, _HEIGHT), "white")
    pen = ImageDraw.Draw(cell)
    pen.rectangle((0, 0, _CELL - 1, _HEIGHT - 1), outline=(200, 200, 200))
    key = index.keys[place]
    try:
        prompt = read_sample(index.read(place), key=key)
    except SampleError as error:
        _write(pen, _PAD, f"{key}: {error}", "firebrick", _LINES)
        return cell
    pictures = [*prompt.images, *prompt.videos]
    for number, data in enumerate(pictures):
        _paste(cell, data, number, len(pictures))
    y = _PAD + _PICTURE + _PAD if pictures else _PAD
    lines = _LINES if pictures else _LINES + _PICTURE // _LINE
    y = _write(pen, y, _question(prompt), "black", lines)
    chosen = prompt.options.get(prompt.reference)
    answer = prompt.reference if chosen is None else f"{prompt.reference}. {chosen}"
    _write(pen, y, f"= {answer}", "darkgreen", 2)
    pen.text((_PAD, _HEIGHT - _LINE - _PAD // 2), key[-_WIDTH:], "gray", font=_font())
    return cell


def _paste(cell: Image.Image, data: bytes, number: int, count: int) -> None:
    """Put a picture in its share of the cell's upper part, small ones enlarged."""
    width = (_CELL - 2 * _PAD) // count
    left = _PAD + number * width
    try:
        shown = _still(data) if is_mp4(data) else _decode(data, width)
    except Exception as error:  # PIL raises many kinds
        note = f"undecodable: {type(error).__name__}"
        ImageDraw.Draw(cell).text((left, _PAD), note, "firebrick", font=_font())
        return
    scale = min((width - 4) / shown.width, _PICTURE / shown.height)
    size = (max(1, int(shown.width * scale)), max(1, int(shown.height * scale)))
    # Enlarged pixels stay sharp: what a small picture really holds is the point.
    method = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    shown = shown.resize(size, method)
    cell.paste(shown, (left, _PAD), shown)


def _decode(data: bytes, width: int) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
        image.draft("RGB", (width, _PICTURE))  # a large JPEG needn't be decoded in full
        return image.convert("RGBA")


def _still(data: bytes) -> Image.Image:
    """The middle of a video with a sign that it is one: the triangle that plays it."""
    from datamodules.video import middle_frame  # brings torchvision, which images don't need

    still = middle_frame(data).convert("RGBA")
    x, y, r = still.width / 2, still.height / 2, min(still.size) / 8
    corners = [(x - r, y - r), (x - r, y + r), (x + r, y)]
    ImageDraw.Draw(still).polygon(corners, fill="white", outline="black")
    return still


def _question(prompt: Prompt) -> str:
    content = prompt.messages[-1]["content"]
    if isinstance(content, str):
        return content
    several = sum(part["type"] != "text" for part in content) > 1
    marks = "[{}] " if several else ""
    return "".join(
        part["text"] if part["type"] == "text" else marks.format(part["type"]) for part in content
    )


def _write(pen: ImageDraw.ImageDraw, y: int, text: str, colour: str, lines: int) -> int:
    wrapped = [one for line in text.splitlines() for one in textwrap.wrap(line, _WIDTH) or [""]]
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], wrapped[lines - 1][: _WIDTH - 4] + " ..."]
    for line in wrapped:
        pen.text((_PAD, y), line, colour, font=_font())
        y += _LINE
    return y


def _font() -> ImageFont.FreeTypeFont:
    # matplotlib's DejaVu Sans has mathematical signs, Greek and Cyrillic; PIL's own font has not.
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), 12)
