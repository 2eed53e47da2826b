from __future__ import annotations

import json
import warnings

import lightning as L
import pytest
from jsonargparse import ArgumentParser
from pictures import png
from recorder import Recorder, SaveAt, iterations, trainer
from shard_files import pack

from datamodules import ReasoningDataModule, TaskConfig
from sapo_vl.verifiers import NumberVerifier


@pytest.fixture
def data(processor, tasks):
    """Make a data module over the tasks "few" and "many"."""

    def make(**changes):
        options = {
            "processor": processor,
            "tasks": tasks(),
            "prompts_per_iteration": 6,
            "eval_batch_size": 8,
            "num_workers": 0,
            "min_pixels": 256,
            "max_pixels": 65536,
        }
        return ReasoningDataModule(**options | changes)

    return make


@pytest.fixture
def fit(data):
    """Fit for so many iterations, counted over resumes; gives the batches of keys it saw."""

    def run(count, ckpt_path=None, callbacks=(), workers=0, save=None, **options):
        module = Recorder()
        own = trainer(**iterations(count) | {"callbacks": list(callbacks)} | options)
        own.fit(module, datamodule=data(num_workers=workers), ckpt_path=ckpt_path)
        if save:
            own.save_checkpoint(save)
        return module.seen["fit"]

    return run


class TestResume:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_from_between_iterations(self, fit, tmp_path, workers):
        path = tmp_path / "3.ckpt"
        whole = fit(7, callbacks=[SaveAt(path, 3)], workers=workers)
        assert len(whole) == 7
        assert fit(7, ckpt_path=path, workers=workers) == whole[3:]

    def test_from_the_end_of_a_fit_and_once_more(self, fit, tmp_path):
        whole = fit(9)
        assert fit(2, save=tmp_path / "2.ckpt") == whole[:2]
        assert fit(5, ckpt_path=tmp_path / "2.ckpt", save=tmp_path / "5.ckpt") == whole[2:5]
        assert fit(9, ckpt_path=tmp_path / "5.ckpt", workers=1) == whole[5:]

    def test_position_counts_iterations_trained_not_fetched(self, data, tmp_path):
        own, module, source = trainer(**iterations(4)), Recorder(), data(num_workers=2)
        own.fit(module, datamodule=source)
        assert source.state_dict()["iteration"] == 4
        assert own.global_step == 8

    def test_epochs_go_on_where_the_last_one_stopped(self, fit, tmp_path):
        whole = fit(6)
        epochs = {"limit_train_batches": 2, "max_steps": -1}
        assert fit(6, max_epochs=3, **epochs) == whole
        assert fit(6, max_epochs=3, workers=1, **epochs) == whole
        fit(4, max_epochs=2, save=tmp_path / "epoch.ckpt", **epochs)
        assert fit(6, max_epochs=3, ckpt_path=tmp_path / "epoch.ckpt", **epochs) == whole[4:]

    def test_after_a_crash_in_the_middle_of_an_iteration(self, fit, tmp_path):
        path = tmp_path / "crash.ckpt"

        class Crash(SaveAt):
            def on_train_batch_start(self, trainer, *_):
                if trainer.fit_loop.epoch_loop.batch_progress.total.ready == 4:
                    trainer.save_checkpoint(self.path)
                    raise RuntimeError("out of memory")

        whole = fit(6)
        with pytest.raises(RuntimeError, match="out of memory"):
            fit(6, callbacks=[Crash(path, 0)])
        assert fit(6, ckpt_path=path) == whole[3:]

    def test_validation_in_between_changes_nothing(self, data, tasks):
        module = Recorder()
        source = data(val_tasks=tasks(), num_workers=1)
        trainer(**iterations(4), val_check_interval=2).fit(module, datamodule=source)
        plain = Recorder()
        trainer(**iterations(4)).fit(plain, datamodule=data())
        assert module.seen["fit"] == plain.seen["fit"]
        assert len(module.seen["validate"]) == 2 * 5
        assert sum(map(len, module.seen["validate"])) == 2 * 38

    def test_other_data_than_the_checkpoints_is_said_and_well_defined(self, data, tasks, tmp_path):
        def fit(path=None, count=4, **changes):
            module, own = Recorder(), trainer(**iterations(count))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                own.fit(module, datamodule=data(**changes), ckpt_path=path)
            own.save_checkpoint(tmp_path / "last.ckpt")
            said = [str(w.message) for w in caught if "not that of the check" in str(w.message)]
            return module.seen["fit"], said

        fit(count=2)
        (tmp_path / "last.ckpt").rename(tmp_path / "2.ckpt")
        path = tmp_path / "2.ckpt"
        assert fit(path)[1] == []
        for changes, words in (
            ({"tasks": tasks(shares=(2, 1))}, ["task few is [2, 5], was [0.5, 5]"]),
            ({"tasks": tasks(max_samples=5)}, ["task many is [0.5, 5], was [0.5, 33]"]),
            ({"tasks": tasks()[:1]}, ["task many is gone, was [0.5, 33]"]),
            ({"seed": 3}, ["seed is 3, was 0"]),
            ({"prompts_per_iteration": 12}, ["prompts_per_iteration is 12, was 6"]),
        ):
            resumed, (said,) = fit(path, **changes)
            assert all(word in said for word in [*words, "Iteration 2 and those after it"])
            assert resumed == fit(**changes)[0][2:]

    def test_seed_changes_the_order(self, data):
        first = [next(iter(loader(data(seed=seed)))).prompts for seed in (0, 0, 1)]
        assert first[0] == first[1] != first[2]


def loader(source, stage="train", setup="fit"):
    source.setup(setup)
    return getattr(source, f"{stage}_dataloader")()


class TestOtherStages:
    def test_validate_and_test_see_every_sample_once(self, data, tasks):
        source = data(tasks=None, val_tasks=tasks(), test_tasks=tasks(max_samples=3))
        module = Recorder()
        trainer().validate(module, datamodule=source, verbose=False)
        trainer().test(module, datamodule=source, verbose=False)
        keys = [key for batch in module.seen["validate"] for key in batch]
        assert len(keys) == len(set(keys)) == 38
        assert [len(batch) for batch in module.seen["test"]] == [6]

    def test_fit_without_validation(self, data):
        trainer(**iterations(1)).fit(Recorder(), datamodule=data())

    def test_predict_answers_every_question(self, data, tmp_path):
        (tmp_path / "a.png").write_bytes(png())
        rows = [{"id": f"q{i}", "question": "Q?", "images": ["a.png"]} for i in range(5)]
        path = tmp_path / "questions.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows))
        source = data(tasks=None, questions=str(path), eval_batch_size=2)
        found = trainer().predict(Recorder(), datamodule=source)
        assert found == [["q0", "q1"], ["q2", "q3"], ["q4"]]

    @pytest.mark.parametrize(
        ("stage", "field"),
        [
            ("fit", "tasks"),
            ("validate", "val_tasks"),
            ("test", "test_tasks"),
            ("predict", "questions"),
        ],
    )
    def test_what_a_stage_lacks_is_said(self, data, stage, field):
        with pytest.raises(ValueError, match=rf"{stage} needs data\.{field}"):
            getattr(trainer(), stage)(Recorder(), datamodule=data(tasks=None))


class TestBadInput:
    def test_two_tasks_of_one_name(self, data, tasks):
        for field in ("tasks", "val_tasks", "test_tasks"):
            with pytest.raises(ValueError, match=r"same name: \['few', 'few', 'many', 'many'\]"):
                data(**{field: tasks() + tasks()}).setup("fit")

    def test_missing_shards(self, data):
        task = TaskConfig(name="a", shards="nowhere/a-*.tar", verifier=NumberVerifier())
        with pytest.raises(FileNotFoundError, match=r"no shard at nowhere/a-\*\.tar"):
            loader(data(tasks=[task]))

    def test_empty_shard(self, data, tmp_path):
        shard = pack(tmp_path / "empty.tar", [])
        task = TaskConfig(name="a", shards=shard, verifier=NumberVerifier())
        with pytest.raises(ValueError, match=r"no sample in .*empty\.tar"):
            loader(data(tasks=[task]))

    @pytest.mark.parametrize(
        ("field", "value"),
        [("prompts_per_iteration", 0), ("eval_batch_size", 0), ("num_workers", -1), ("seed", -1)],
    )
    def test_numbers_out_of_range(self, data, field, value):
        with pytest.raises(ValueError, match=rf"data\.{field} is {value}"):
            data(**{field: value})

    def test_prompts_that_ranks_cannot_share(self, data, monkeypatch):
        source = data(prompts_per_iteration=7)
        monkeypatch.setattr(ReasoningDataModule, "_ranks", 2)
        with pytest.raises(ValueError, match="prompts_per_iteration is 7; with 2 ranks"):
            loader(source)

    def test_fewer_samples_than_ranks(self, data, tasks, tmp_path, monkeypatch):
        path = tmp_path / "q.jsonl"
        path.write_text('{"question": "Q?"}\n')
        source = data(test_tasks=tasks(max_samples=1), questions=str(path))
        monkeypatch.setattr(ReasoningDataModule, "_ranks", 3)
        with pytest.raises(ValueError, match="2 samples of few, many are too few for 3 ranks"):
            loader(source, "test", "test")
        with pytest.raises(ValueError, match="1 samples of questions are too few for 3 ranks"):
            loader(source, "predict", "predict")


def test_settings_of_videos_and_of_the_cache_come_from_yaml(processor, shards):
    parser = ArgumentParser()
    parser.add_subclass_arguments(L.LightningDataModule, "data")
    given = {
        "class_path": "datamodules.ReasoningDataModule",
        "init_args": {
            "processor": processor,
            "tasks": [
                {
                    "name": "few",
                    "shards": [f"{shards}/few-*.tar"],
                    "verifier": {"class_path": "sapo_vl.verifiers.NumberVerifier"},
                }
            ],
            "video": {"fps": 1, "max_frames": 8},
            "shard_cache": {"folder": "somewhere"},
            "max_skipped_share": 0.5,
        },
    }
    config = parser.parse_object({"data": given})
    source = parser.instantiate_classes(config).data
    assert (source.video.fps, source.video.max_frames, source.video.min_frames) == (1, 8, 4)
    assert (source.shard_cache.folder, source.budget.share) == ("somewhere", 0.5)
    source.setup("fit")
    assert len(source.train_dataloader().dataset) == 5


def test_says_at_start_how_far_off_a_share_can_be(data, tasks, caplog):
    def said(**changes):
        caplog.clear()
        source = data(tasks=tasks(shares=(2, 1)), **changes)
        source.setup("fit")
        with caplog.at_level("INFO"):
            source.train_dataloader()
        return [r.getMessage() for r in caplog.records if "no whole numbers" in r.getMessage()]

    assert said(prompts_per_iteration=6) == []
    (message,) = said(prompts_per_iteration=4)
    assert "off its share by up to 0.667 prompts" in message
