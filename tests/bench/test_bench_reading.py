"""The reading benchmark on a few small photos: what it counts, not how long that took."""

from __future__ import annotations

from pathlib import Path

import pytest

from datamodules.bench import Reading
from sapo_vl.bench.photos import build_processor, write_samples
from sapo_vl.bench.reading import index_speed, shuffle_quality, skip_speed
from sapo_vl.verifiers import TextVerifier

PROMPTS = 4


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    folder = tmp_path_factory.mktemp("reading")
    shards = write_samples(folder, count=40, size=64)
    processor = build_processor(folder / "model")
    return Reading(shards, processor, PROMPTS, (256, 4096), TextVerifier())


def test_a_place_far_into_the_stream_costs_no_more_images_than_the_first(reading: Reading) -> None:
    found = skip_speed(reading)
    assert found["images_decoded"] == PROMPTS
    assert found["skipped_samples"] == 1_000_000 * PROMPTS


def test_the_order_is_a_shuffle_of_all_samples(reading: Reading) -> None:
    assert sorted(reading.order(500)) == list(range(500))
    assert shuffle_quality(reading, 500)["ours"] == pytest.approx(0, abs=0.15)


def test_a_made_shard_is_indexed_whole(reading: Reading, tmp_path: Path) -> None:
    assert index_speed(reading, tmp_path, 30)["samples"] == 30
    assert len(reading.index(str(tmp_path / "small.tar"))) == 30
