"""Random damage to shards: what is read is right, what isn't is said, and nothing else happens."""

from __future__ import annotations

import json
import random

import pytest
import torch
from clips import clip
from pictures import encode, noise, png

from datamodules import TaskConfig
from datamodules.encode import Encoder
from datamodules.fields import SampleError
from datamodules.samples import read_sample
from datamodules.shard_index import ShardIndex
from datamodules.shards import write_shards
from datamodules.stream import EvalDataset, TaskReader
from datamodules.video import VideoLimits
from sapo_vl.types import SKIP_REASONS
from sapo_vl.verifiers import NumberVerifier

BLOCK = 512
ROUNDS = 60


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """One shard of every kind of sample, as bytes."""
    folder = tmp_path_factory.mktemp("whole")
    media = [
        [png((20, 30), colour=(9, 8, 7))],
        [encode(noise((40, 30)), "JPEG")],
        [encode(noise((30, 30)), "WEBP")],
        [],
        [png((16, 16)), encode(noise((20, 20)).convert("P")), encode(noise((20, 20)))],
    ]
    samples = [
        {"key": f"{i:02d}", "images": images, "question": f"How many {i}?", "answer": str(i)}
        for i, images in enumerate(media * 3)
    ]
    (path,) = write_shards(samples, folder, "a")
    return path.read_bytes()


@pytest.fixture(scope="module")
def small_encoder(processor):
    limits = VideoLimits(min_pixels=256, max_pixels=4096, total_pixels=65536)
    return Encoder(processor, 4096, 256, 16384, video=limits)


def contents(path):
    index = ShardIndex(str(path))
    return {key: index.read(i) for i, key in enumerate(index.keys)}, index.problems


def read_all(path, encoder):
    """Read every sample to the end; gives its prompts, inputs and skips."""
    task = TaskConfig(name="t", shards=str(path), verifier=NumberVerifier())
    dataset = EvalDataset([TaskReader(task, encoder)])
    return [dataset[i] for i in range(len(dataset))]


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def headers(data):
    """Where the headers of members lie."""
    places, place = [], 0
    while data[place : place + BLOCK].strip(b"\0"):
        places.append(place)
        size = int(data[place + 124 : place + 135], 8)
        place += BLOCK + -(-size // BLOCK) * BLOCK
    return places


def garble_a_header(data, rng):
    place = rng.choice(headers(data))
    return data[:place] + rng.randbytes(BLOCK) + data[place + BLOCK :]


def flip_in_a_header(data, rng):
    place = rng.choice(headers(data)) + rng.randrange(BLOCK)
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def lose_blocks(data, rng):
    start = BLOCK * rng.randrange(len(data) // BLOCK)
    return data[:start] + data[start + BLOCK * rng.randint(1, 6) :]


@pytest.mark.parametrize("damage", [cut, garble_a_header, flip_in_a_header])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_samples_that_survive_a_broken_tar_are_whole(shard, tmp_path, damage, seed):
    (tmp_path / "a.tar").write_bytes(shard)
    whole, problems = contents(tmp_path / "a.tar")
    assert (len(whole), problems) == (15, [])
    (tmp_path / "a.tar").write_bytes(damage(shard, random.Random(seed)))
    try:
        found, problems = contents(tmp_path / "a.tar")
    except ValueError as error:
        if "no sample in" not in str(error):
            raise
        return
    assert {key: whole[key] for key in found} == found
    assert list(found) == list(whole)[: len(found)]
    assert (len(found) == len(whole)) or problems


def flips(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 30)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def zeros(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + bytes(rng.randint(1, 3000)) + data[start + 3000 :]


def junk(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.randint(1, 3000)) + data[start:]


def twice(data, rng):
    start = rng.randrange(len(data))
    return data[: start + 2000] + data[start:]


@pytest.mark.parametrize("damage", [cut, garble_a_header, lose_blocks, flips, zeros, junk, twice])
@pytest.mark.parametrize("seed", range(ROUNDS // 6))
def test_any_damage_ends_in_a_prompt_or_a_reason(shard, tmp_path, small_encoder, damage, seed):
    (tmp_path / "a.tar").write_bytes(damage(shard, random.Random(f"{damage.__name__} {seed}")))
    try:
        items = read_all(tmp_path / "a.tar", small_encoder)
    except ValueError as error:
        if "no sample in" not in str(error):
            raise
        return
    for item in items:
        assert all(skip.why in SKIP_REASONS and skip.detail for skip in item.skipped)
        if item.inputs is None:
            assert item.skipped
            continue
        assert item.prompt is not None
        grids = item.inputs.media.get("image_grid_thw", torch.zeros(0, 3))
        tokens = int((item.inputs.mm_token_type_ids_S == 1).sum())
        assert tokens == int(grids.prod(-1).sum()) // 4
        assert len(grids) == len(item.prompt.images)


MEDIA = {
    "png": encode(noise((30, 20))),
    "flat.png": png((40, 40), colour=(1, 200, 3)),
    "jpg": encode(noise((30, 20)), "JPEG"),
    "webp": encode(noise((30, 20)), "WEBP"),
    "mp4": clip(),
    "first.mp4": clip(movflags="faststart"),
    "pieces.mp4": clip(movflags="frag_keyframe+empty_moov"),
}


@pytest.mark.parametrize("name", MEDIA)
@pytest.mark.parametrize("damage", [cut, flips, zeros, junk, twice])
def test_media_that_are_damaged_are_a_reason_or_whole(small_encoder, tmp_path, name, damage):
    kind = name.rpartition(".")[2]
    fields = {"json": json.dumps({"question": "Q?", "answer": "1"}).encode()}
    whole = small_encoder(read_sample({**fields, kind: MEDIA[name]}, key="k"))
    for seed in range(ROUNDS // 4):
        data = damage(MEDIA[name], random.Random(f"{name} {damage.__name__} {seed}"))
        try:
            inputs = small_encoder(read_sample({**fields, kind: data}, key="k"))
        except SampleError as error:
            if error.why not in ("undecodable_media", "too_long"):
                raise
            continue
        if kind == "png":  # the others hold no checksums: a flipped bit can look like a picture
            assert torch.equal(inputs.media["pixel_values"], whole.media["pixel_values"])
        if damage is cut and kind == "mp4":
            raise AssertionError("half a video passed as a whole one")
