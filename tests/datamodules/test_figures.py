import io
import json
import time
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from datamodules.sources import figures
from datamodules.sources.scene import COLOURS, SPLITS, Bar, Shape, render, split_of

TASKS = sorted(figures.TASKS)


def content(scene):
    """What a picture shows, from the sample's meta: all but size and jitter."""
    return frozenset(
        ("bar", f["colour"], f["column"], f["value"])
        if "value" in f
        else (f["kind"], f["colour"], f["cell"])
        for f in scene
    )


def pixels(sample):
    return np.asarray(Image.open(io.BytesIO(sample["images"][0])))


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_is_whole_and_repeatable(task):
    one = figures.draw_sample(task, split="val", index=3, seed=5)
    assert one == figures.draw_sample(task, split="val", index=3, seed=5)
    assert one != figures.draw_sample(task, split="val", index=4, seed=5)
    assert one != figures.draw_sample(task, split="val", index=3, seed=6)
    assert one["key"] == "000003"
    assert one["response"] == rf"\boxed{{{one['answer']}}}"
    assert json.loads(json.dumps(one["scene"])) == one["scene"]
    image = Image.open(io.BytesIO(one["images"][0]))
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (64, 64))
    assert ("options" in one) == (task == "leftmost_choice")


def test_splits_never_share_a_scene():
    scenes = {split: set() for split in SPLITS}
    for split in SPLITS:
        for task in TASKS:
            for seed in (0, 1):
                made = figures.samples(task, split=split, count=150, seed=seed)
                scenes[split] |= {content(sample["scene"]) for sample in made}
    assert not scenes["train"] & scenes["val"]
    assert not scenes["train"] & scenes["test"]
    assert not scenes["val"] & scenes["test"]


def test_jitter_size_and_order_do_not_change_the_split():
    shapes = [Shape(kind="circle", colour="red", cell=c, x=8, y=8, radius=5) for c in range(3)]
    moved = [Shape(kind="circle", colour="red", cell=c, x=9, y=7, radius=7) for c in (2, 0, 1)]
    assert split_of(shapes) == split_of(moved)


def test_shares_of_the_splits():
    scenes = [
        [Bar(colour="red", column=0, value=v), Shape(kind=k, colour=c, cell=p, x=0, y=0, radius=5)]
        for v in range(1, 9)
        for k in ("circle", "cross")
        for c in COLOURS
        for p in range(16)
    ]
    shares = Counter(split_of(scene) for scene in scenes)
    assert shares["train"] / len(scenes) == pytest.approx(0.8, abs=0.05)
    assert shares["val"] / len(scenes) == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize("task", TASKS)
def test_no_answer_dominates(task):
    answers = Counter(s["answer"] for s in figures.samples(task, split="train", count=400))
    assert max(answers.values()) / 400 < 0.5
    assert len(answers) >= 4


def asked_colours(sample):
    words = sample["question"].replace("?", " ").replace(".", " ").replace(",", " ").split()
    return [word for word in words if word in COLOURS]


def truth(task, sample):
    """Answer from the scene alone, written apart from the tasks."""
    scene = sample["scene"]
    if task == "count_shapes":
        return str(len(scene))
    if task == "count_colour":
        return str(sum(shape["colour"] == asked_colours(sample)[0] for shape in scene))
    if task == "more_colour":
        counts = {c: sum(shape["colour"] == c for shape in scene) for c in asked_colours(sample)}
        assert len(set(counts.values())) == 2
        return max(counts, key=counts.get)
    if task == "only_circle_colour":
        (circle,) = [shape for shape in scene if shape["kind"] == "circle"]
        return circle["colour"]
    if task == "bar_value":
        return str({bar["colour"]: bar["value"] for bar in scene}[asked_colours(sample)[0]])
    if task == "bar_highest":
        (best,) = [b for b in scene if b["value"] == max(bar["value"] for bar in scene)]
        return best["colour"]
    column = min(shape["cell"] % 4 for shape in scene)
    (first,) = [shape for shape in scene if shape["cell"] % 4 == column]
    if task == "leftmost_colour":
        return first["colour"]
    return "ABCD"[sample["options"].index(first["kind"])]


@pytest.mark.parametrize("task", TASKS)
def test_the_answer_is_true_of_the_scene(task):
    for split in SPLITS:
        for sample in figures.samples(task, split=split, count=100):
            assert truth(task, sample) == sample["answer"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [32, 64, 176])
def test_the_picture_shows_the_scene(task, size):
    """Every cell shows its figure's colour and no other, and an empty cell is blank."""
    for index in range(10):
        sample = figures.draw_sample(task, split="train", index=index, size=size)
        image, cell = pixels(sample), size // 4
        assert image.shape == (size, size, 3)
        for place in range(16):
            row, column = divmod(place, 4)
            patch = image[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
            shown = {tuple(int(x) for x in p) for p in patch.reshape(-1, 3)} - {(255, 255, 255)}
            expected = set()
            for figure in sample["scene"]:
                bar = "value" in figure and figure["column"] == column
                # A bar of value v fills the lowest v half cells of its column.
                if figure.get("cell") == place or (bar and figure["value"] > 2 * (3 - row)):
                    expected.add(COLOURS[figure["colour"]])
            assert shown == expected


def test_kinds_can_be_told_apart_at_every_radius():
    for radius in (5, 6, 7):
        areas = {
            kind: int((np.asarray(Image.open(io.BytesIO(render([shape])))) < 250).any(-1).sum())
            for kind in ("circle", "square", "triangle", "cross")
            for shape in [Shape(kind=kind, colour="red", cell=5, x=24, y=24, radius=radius)]
        }
        assert areas["square"] == (2 * radius) ** 2
        assert areas["square"] > areas["circle"] > areas["triangle"]
        assert areas["square"] > areas["cross"]


def test_bad_requests_name_what_there_is():
    with pytest.raises(ValueError, match="count_colour"):
        figures.draw_sample("count", split="train", index=0)
    with pytest.raises(ValueError, match="train, val, test"):
        figures.draw_sample("count_colour", split="dev", index=0)
    with pytest.raises(ValueError, match="multiple of 16"):
        figures.draw_sample("count_colour", split="train", index=0, size=65)


def test_drawing_is_fast():
    scene = figures.TASKS["count_shapes"](np.random.default_rng(0)).scene
    times = []
    for _ in range(50):
        start = time.perf_counter()
        render(scene)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3
