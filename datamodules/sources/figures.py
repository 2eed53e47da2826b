r"""The built-in tasks: drawn scenes whose truth is known exactly, made from (seed, split, index).

Train, val and test never share a scene, whatever the seed: a scene's content decides its split
(``split_of``). The majority share is the share of the commonest answer, measured on 2,000 train
samples of seed 0; in more_colour it is 0.5 once the question is read.

| task | question | majority share | answers |
| --- | --- | --- | --- |
| leftmost_colour | colour of the leftmost shape | 0.26 | 4 colours |
| leftmost_choice | kind of the leftmost shape, as A to D | 0.27 | 4 labels |
| only_circle_colour | colour of the only circle | 0.25 | 4 colours |
| count_colour | shapes of one colour among 1 to 6 | 0.28 | 0 to 6 |
| count_shapes | all shapes, 1 to 9 | 0.12 | 1 to 9 |
| more_colour | which of two colours has more shapes | 0.26 | 4 colours |
| bar_value | value of one bar of a chart | 0.13 | 1 to 8 |
| bar_highest | colour of the highest bar | 0.26 | 4 colours |
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from datamodules.sources.scene import (
    CELL,
    COLOURS,
    GRID,
    KINDS,
    SIDE,
    SPLITS,
    Bar,
    Scene,
    Shape,
    describe,
    render,
    split_of,
)

_COLOURS = tuple(COLOURS)
_LABELS = "ABCD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A scene and a question. Example: ``Draft(scene=..., question="How many?", answer="3")``."""

    scene: Scene
    question: str
    answer: str
    options: tuple[str, ...] = ()


Task = Callable[[Generator], Draft]


def draw_sample(
    task: str, *, split: str, index: int, seed: int = 0, size: int = SIDE
) -> dict[str, Any]:
    """Make one sample; the same arguments give the same sample.

    Returns:
        ``key, images`` (one PNG), ``question, answer, options`` (choice tasks only), ``response``
        (the boxed answer) and ``scene`` (one object a figure), as ``write_shards`` takes it.

    Raises:
        ValueError: an unknown task or split, or a size that is no multiple of 16.
    """
    if task not in TASKS:
        raise ValueError(f"no drawn task is called {task!r}; there are {', '.join(TASKS)}")
    if split not in SPLITS:
        raise ValueError(f"no split is called {split!r}; there are {', '.join(SPLITS)}")
    rng = np.random.default_rng([seed, zlib.crc32(task.encode()), SPLITS.index(split), index])
    draft = TASKS[task](rng)
    while split_of(draft.scene) != split:
        draft = TASKS[task](rng)
    sample: dict[str, Any] = {
        "key": f"{index:06d}",
        "images": [render(draft.scene, size)],
        "question": draft.question,
        "answer": draft.answer,
        "response": rf"\boxed{{{draft.answer}}}",
        "scene": describe(draft.scene),
    }
    if draft.options:
        sample["options"] = list(draft.options)
    return sample


def samples(
    task: str, *, split: str, count: int, seed: int = 0, size: int = SIDE, start: int = 0
) -> Iterator[dict[str, Any]]:
    """Make the samples ``start`` to ``count`` - 1 of a task (see ``draw_sample``)."""
    for index in range(start, count):
        yield draw_sample(task, split=split, index=index, seed=seed, size=size)


def _pick(rng: Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _colours(rng: Generator, count: int, without: Sequence[str] = ()) -> list[str]:
    choices = [colour for colour in _COLOURS if colour not in without]
    return [_pick(rng, choices) for _ in range(count)]


def _scatter(
    rng: Generator, colours: Sequence[str], kinds: Sequence[str] | None = None
) -> list[Shape]:
    """Put shapes of these colours (and kinds, at random if not given) in cells of their own."""
    count = len(colours)
    kinds = kinds or [_pick(rng, KINDS) for _ in range(count)]
    cells = rng.permutation(GRID * GRID)[:count].tolist()
    jitter = rng.integers(-1, 2, (count, 2)).tolist()
    radii = rng.integers(5, 8, count).tolist()
    return [
        Shape(
            kind=kinds[i],
            colour=colours[i],
            cell=cells[i],
            x=cells[i] % GRID * CELL + CELL // 2 + jitter[i][0],
            y=cells[i] // GRID * CELL + CELL // 2 + jitter[i][1],
            radius=radii[i],
        )
        for i in range(count)
    ]


def _with_leftmost(rng: Generator) -> tuple[list[Shape], Shape]:
    """Draw 2 to 6 shapes of which one alone stands in the leftmost column that is used."""
    while True:
        scene = _scatter(rng, _colours(rng, int(rng.integers(2, 7))))
        first, second = sorted(scene, key=lambda shape: shape.column)[:2]
        if first.column < second.column:
            return scene, first


def _bars(rng: Generator) -> list[Bar]:
    values = rng.integers(1, 9, GRID).tolist()
    order = rng.permutation(len(_COLOURS)).tolist()
    return [Bar(colour=_COLOURS[order[i]], column=i, value=values[i]) for i in range(GRID)]


def _leftmost_colour(rng: Generator) -> Draft:
    scene, first = _with_leftmost(rng)
    wordings = (
        "What colour is the leftmost shape?",
        "Which colour does the leftmost shape have?",
        "Give the colour of the shape farthest to the left.",
    )
    return Draft(scene=scene, question=_pick(rng, wordings), answer=first.colour)


def _leftmost_choice(rng: Generator) -> Draft:
    scene, first = _with_leftmost(rng)
    options = tuple(KINDS[i] for i in rng.permutation(len(KINDS)))
    wordings = ("What is the leftmost shape?", "Which kind of shape is the leftmost one?")
    answer = _LABELS[options.index(first.kind)]
    return Draft(scene=scene, question=_pick(rng, wordings), answer=answer, options=options)


def _only_circle_colour(rng: Generator) -> Draft:
    count = int(rng.integers(2, 7))
    others = [kind for kind in KINDS if kind != "circle"]
    kinds = ["circle", *(_pick(rng, others) for _ in range(count - 1))]
    scene = _scatter(rng, _colours(rng, count), kinds)
    wordings = (
        "What colour is the circle?",
        "Which colour does the only circle have?",
        "Give the colour of the circle.",
    )
    return Draft(scene=scene, question=_pick(rng, wordings), answer=scene[0].colour)


def _count_colour(rng: Generator) -> Draft:
    colour = _pick(rng, _COLOURS)
    total = int(rng.integers(1, 7))
    count = int(rng.integers(0, total + 1))
    scene = _scatter(rng, [colour] * count + _colours(rng, total - count, without=[colour]))
    wordings = (
        "How many {} shapes are there?",
        "How many shapes are {}?",
        "Count the {} shapes.",
    )
    return Draft(scene=scene, question=_pick(rng, wordings).format(colour), answer=str(count))


def _count_shapes(rng: Generator) -> Draft:
    scene = _scatter(rng, _colours(rng, int(rng.integers(1, 10))))
    wordings = ("How many shapes are there?", "How many shapes do you see?", "Count the shapes.")
    return Draft(scene=scene, question=_pick(rng, wordings), answer=str(len(scene)))


def _more_colour(rng: Generator) -> Draft:
    more, fewer = (_COLOURS[i] for i in rng.permutation(len(_COLOURS))[:2])
    high = int(rng.integers(1, 5))
    low = int(rng.integers(0, high))
    rest = _colours(rng, int(rng.integers(0, 3)), without=[more, fewer])
    scene = _scatter(rng, [more] * high + [fewer] * low + rest)
    asked = (more, fewer) if rng.integers(2) else (fewer, more)
    wordings = (
        "Are there more {} or more {} shapes?",
        "Which shapes are there more of, {} or {}?",
        "Is {} or {} the colour of more shapes?",
    )
    return Draft(scene=scene, question=_pick(rng, wordings).format(*asked), answer=more)


def _bar_value(rng: Generator) -> Draft:
    scene = _bars(rng)
    bar = scene[int(rng.integers(GRID))]
    wordings = (
        "What is the value of the {} bar?",
        "How high is the {} bar?",
        "Read the value of the {} bar.",
    )
    return Draft(
        scene=scene, question=_pick(rng, wordings).format(bar.colour), answer=str(bar.value)
    )


def _bar_highest(rng: Generator) -> Draft:
    while True:
        scene = _bars(rng)
        second, first = sorted(scene, key=lambda bar: bar.value)[-2:]
        if first.value > second.value:
            break
    wordings = (
        "Which colour is the highest bar?",
        "What colour is the tallest bar?",
        "Give the colour of the highest bar.",
    )
    return Draft(scene=scene, question=_pick(rng, wordings), answer=first.colour)


TASKS: Mapping[str, Task] = {
    "leftmost_colour": _leftmost_colour,
    "leftmost_choice": _leftmost_choice,
    "only_circle_colour": _only_circle_colour,
    "count_colour": _count_colour,
    "count_shapes": _count_shapes,
    "more_colour": _more_colour,
    "bar_value": _bar_value,
    "bar_highest": _bar_highest,
}
