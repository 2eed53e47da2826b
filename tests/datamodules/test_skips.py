"""Too many samples that can't be used end a run, and the error says why."""

from __future__ import annotations

import pytest
from pictures import png
from recorder import Recorder, iterations, trainer
from shard_files import pack, row

from datamodules import ReasoningDataModule, TaskConfig
from datamodules.shard_index import ShardIndex
from datamodules.skips import LEAST_SEEN, SkipBudget, TooManySkippedError
from sapo_vl.callbacks import SkipLog
from sapo_vl.verifiers import NumberVerifier


@pytest.fixture
def data(processor, tmp_path):
    """A data module over one shard of 40 samples, of which the first ``bad`` do not decode."""

    def make(bad, stage="tasks", **changes):
        members = []
        for number in range(40):
            members.append((f"{number:02d}.json", row()))
            members.append((f"{number:02d}.png", b"" if number < bad else png((16, 16))))
        shard = pack(tmp_path / "t.tar", members)
        options = {
            "prompts_per_iteration": 8,
            "num_workers": 0,
            "min_pixels": 256,
            "max_pixels": 65536,
            stage: [TaskConfig(name="t", shards=shard, verifier=NumberVerifier())],
        }
        return ReasoningDataModule(processor, **options | changes)

    return make


def fit(source, count):
    module = Recorder()
    trainer(**iterations(count)).fit(module, datamodule=source)
    return module


def test_a_run_ends_as_soon_as_enough_was_seen(data):
    source = data(20)
    module = Recorder()
    with pytest.raises(TooManySkippedError) as caught:
        trainer(**iterations(100)).fit(module, datamodule=source)
    seen = len(module.prompts) + len(module.skipped)
    assert LEAST_SEEN - 40 < seen < LEAST_SEEN
    message = str(caught.value)
    assert "the train stage: " in message
    assert "more than data.max_skipped_share (0.1) allows" in message
    assert "undecodable_media, such as t.tar#" in message
    assert "make_shards.py --check" in message


@pytest.mark.parametrize(("bad", "share"), [(3, 0.1), (20, 1.0), (0, 0.0)])
def test_what_is_allowed_goes_on(data, bad, share):
    assert len(fit(data(bad, max_skipped_share=share), 60).seen["fit"]) == 60


def test_evaluation_is_judged_too_and_a_small_set_is_not(data, tmp_path):
    members = [(f"{n:03d}.json", row() if n % 5 else b"{") for n in range(300)]
    task = TaskConfig(name="t", shards=pack(tmp_path / "e", members), verifier=NumberVerifier())
    source = data(0, test_tasks=[task], eval_batch_size=50)
    with pytest.raises(TooManySkippedError, match=r"the test stage: 40 of 200 .*40 bad_json"):
        trainer().test(Recorder(), datamodule=source, verbose=False)
    trainer().test(Recorder(), datamodule=data(30, "test_tasks"), verbose=False)


def test_questions_of_a_user_are_answered_as_far_as_they_can(data, tmp_path):
    lines = ['{"question": "Q?"}', *['{"question": "Q?", "images": ["none.png"]}'] * 299]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    source = data(0, questions=str(tmp_path / "q.jsonl"))
    found = trainer().predict(Recorder(), datamodule=source)
    assert [key for batch in found for key in batch] == ["0"]


class TestIndex:
    def index(self, path, good, bad):
        members = [(f"a{n:03d}.json", row()) for n in range(good)]
        members += [(f"b{n:03d}.png", b"") for n in range(bad)]
        return ShardIndex(pack(path / "i.tar", members))

    def test_is_judged_beside_all_its_samples(self, tmp_path):
        SkipBudget(0.1).check_index("t", self.index(tmp_path, 360, 40))
        with pytest.raises(TooManySkippedError, match=r"task 't': 41 of 401 .*41 missing_json"):
            SkipBudget(0.1).check_index("t", self.index(tmp_path, 360, 41))
        SkipBudget(0.1).check_index("t", self.index(tmp_path, 10, 100))  # too few to tell

    def test_its_faults_come_with_the_first_batch_and_count_once(self, data, tmp_path):
        index = self.index(tmp_path, 1900, 100)
        task = TaskConfig(name="t", shards=index.shards, verifier=NumberVerifier())
        log = SkipLog()
        module = Recorder()
        own = trainer(**iterations(40), callbacks=[log], default_root_dir=tmp_path)
        own.fit(module, datamodule=data(0, tasks=[task], max_skipped_share=0.06))
        assert log.counts["missing_json"] == 100
        assert len(module.prompts) == 320


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_out_of_range(share):
    with pytest.raises(ValueError, match=r"data\.max_skipped_share is"):
        SkipBudget(share)
