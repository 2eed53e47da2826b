"""A sample that cannot be used is skipped, and another of its task takes its place."""

from __future__ import annotations

import pytest
from pictures import header_only, png
from shard_files import pack, row

from datamodules import TaskConfig
from datamodules.mixture import Place
from datamodules.stream import (
    MAX_ATTEMPTS,
    Collate,
    EvalDataset,
    TaskReader,
    TrainDataset,
)
from sapo_vl.types import SKIP_REASONS
from sapo_vl.verifiers import NumberVerifier


@pytest.fixture
def task(tmp_path, encoder):
    """Make a reader of one shard out of (name, bytes) members."""

    def make(members, name="t", **changes):
        shard = pack(tmp_path / f"{name}.tar", members)
        config = TaskConfig(name=name, shards=shard, verifier=NumberVerifier(), **changes)
        return TaskReader(config, encoder)

    return make


BAD = {
    "bad_json": [("bad.json", b"{")],
    "missing_answer": [("bad.json", b'{"question": "Q?"}')],
    "missing_question": [("bad.json", b'{"answer": "1"}')],
    "unusable_reference": [("bad.json", row("many"))],
    "image_count": [("bad.json", row(question="<image1> <image2>")), ("bad.png", png())],
    "unknown_media": [("bad.json", row()), ("bad.gif", b"...")],
    "undecodable_media": [("bad.json", row()), ("bad.png", header_only(64, 64))],
    "too_long": [("bad.json", row(question="Q?" * 3000)), ("bad.png", png())],
}
GOOD = [
    (f"good{i}.{kind}", row() if kind == "json" else png())
    for i in "12"
    for kind in ("json", "png")
]


class TestBadSamples:
    @pytest.mark.parametrize("why", BAD)
    def test_another_of_the_task_takes_the_place(self, task, why):
        assert why in SKIP_REASONS
        dataset = TrainDataset(
            [task([*GOOD, ("other.json", row())], "other"), task([*BAD[why], *GOOD])], 0
        )
        items = [dataset[Place(1 + i, 1, i)] for i in range(30)]
        assert [item.prompt.index for item in items] == list(range(1, 31))
        assert {item.prompt.key for item in items} == {"t.tar#good1", "t.tar#good2"}
        skips = [skip for item in items for skip in item.skipped]
        assert len(skips) >= 10  # once an epoch, or more
        assert {(skip.why, skip.where) for skip in skips} == {(why, "t.tar#bad")}
        assert all(skip.detail for skip in skips)
        assert any(len(item.skipped) == 0 for item in items)

    def test_skips_travel_with_the_batch(self, task):
        dataset = TrainDataset([task([*BAD["bad_json"], *GOOD])], 0)
        items = [dataset[Place(i, 0, i)] for i in range(3)]
        batch = Collate(("t",))(items)
        assert len(batch) == len(batch.inputs) == 3
        assert {skip.where for skip in batch.skipped} == {"t.tar#bad"}

    def test_a_task_without_a_usable_sample_ends_the_run(self, task):
        dataset = TrainDataset([task([("x.json", row("many")), ("y.json", row("none"))])], 0)
        message = rf"task 't': {MAX_ATTEMPTS} samples in a row .*t.tar#[xy]: unusable_reference: "
        with pytest.raises(RuntimeError, match=message):
            dataset[Place(5, 0, 5)]

    def test_a_template_that_cannot_be_filled_is_no_fault_of_the_samples(self, task):
        dataset = TrainDataset([task(GOOD, template="{problem}")], 0)
        with pytest.raises(ValueError, match=r"problem.*can't be filled"):
            dataset[Place(0, 0, 0)]

    def test_damage_of_a_shard_is_reported_once(self, task, tmp_path, encoder):
        task(GOOD)
        shard = tmp_path / "t.tar"
        shard.write_bytes(shard.read_bytes()[: 4 * 512 + 700])
        reader = TaskReader(
            TaskConfig(name="t", shards=str(shard), verifier=NumberVerifier()), encoder
        )
        stream = TrainDataset([reader], 0)
        found = [stream[Place(i, 0, i)] for i in range(8)]
        assert [len(item.skipped) for item in found] == [1, *[0] * 7]
        assert (found[0].skipped[0].why, found[0].skipped[0].where) == ("damaged_shard", "t.tar")
        once = EvalDataset([reader, reader])
        assert [len(once[i].skipped) for i in range(len(once))] == [2, *[0] * (len(once) - 1)]

    @pytest.mark.parametrize("why", BAD)
    def test_in_an_evaluation_it_is_reported_and_has_no_substitute(self, task, why):
        dataset = EvalDataset([task([*BAD[why], *GOOD])])
        batch = Collate(("t",))([dataset[i] for i in range(len(dataset))])
        assert [p.key for p in batch.prompts] == ["t.tar#good1", "t.tar#good2"]
        assert [(skip.why, skip.where) for skip in batch.skipped] == [(why, "t.tar#bad")]
        assert len(batch.inputs) == 2
