import json
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from published import jsonl, parquet
from shard_files import make

from datamodules.shards import check_shards, write_shards
from datamodules.sources import figures

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_shards.py"


@pytest.fixture(scope="module")
def main():
    return runpy.run_path(str(SCRIPT))["main"]


@pytest.fixture
def mine(tmp_path):
    rows = [{"id": str(i), "question": "Q?", "answer": str(i)} for i in range(5)]
    return jsonl(tmp_path / "mine.jsonl", [*rows, {"id": "5", "question": "Q?", "answer": "red"}])


def run(main, *words):
    return main([str(word) for word in words])


def test_a_verifier_lists_what_it_cannot_use(tmp_path, mine, main, capsys):
    words = ["folder", "--data", mine, "--name", "mine"]
    assert run(main, *words, "--verifier", "number", tmp_path / "a") == 0
    out = capsys.readouterr().out
    assert "5 samples" in out
    assert "1 unusable_reference" in out
    dotted = "sapo_vl.verifiers.NumberVerifier"
    assert run(main, *words, "--verifier", dotted, tmp_path / "b") == 0
    manifest = json.loads((tmp_path / "b" / "mine-train-manifest.json").read_text())
    assert manifest["options"]["verifier"] == dotted
    assert manifest["samples"] == 5
    capsys.readouterr()
    for name, message in (
        ("nunber", "no verifier is called 'nunber'; there are math"),
        ("sapo_vl.verifiers.Nothing", "can't be made"),
        ("no.such.module", "can't be made"),
        ("builtins.dict", "no check_reference"),
    ):
        assert run(main, *words, "--verifier", name, tmp_path / "c") == 1
        assert message in capsys.readouterr().err


def test_a_bad_row_stops_or_is_listed(tmp_path, mine, main, capsys):
    with mine.open("a") as file:
        file.write("{\n")
    words = ["folder", "--data", mine, "--name", "mine", tmp_path / "a"]
    assert run(main, *words) == 1
    assert f'{mine}, line 7, field "(whole line)": no JSON' in capsys.readouterr().err
    assert run(main, *words, "--skip-bad") == 0
    assert "1 bad_row" in capsys.readouterr().out


def test_columns_and_parquet(tmp_path, main, capsys):
    path = parquet(tmp_path / "a.parquet", [{"ask": "Q?", "say": "1"}])
    words = ["parquet", "--data", path, "--name", "p", "--question", "ask", tmp_path / "a"]
    assert run(main, *words) == 1
    assert 'row 1, field "answer"' in capsys.readouterr().err
    assert run(main, *words, "--answer", "say") == 0


def test_the_same_command_says_what_is_there_already(tmp_path, mine, main, capsys):
    words = ["folder", "--data", mine, "--name", "mine", "--max-samples", 2, tmp_path / "a"]
    assert run(main, *words) == 0
    assert run(main, *words) == 0
    assert capsys.readouterr().out.count("there already, hash verified") == 3


def test_filter_and_contact_sheet(tmp_path, main, capsys):
    write_shards(make(3), tmp_path / "in", "a")
    rows = [
        {"key": f"a-000000.tar#000{i}", "sampling": "s", "responses": [{"score": i / 2}]}
        for i in range(3)
    ]
    answers = jsonl(tmp_path / "answers.jsonl", rows)
    bounds = ["--min-pass", 0.05, "--max-pass", 0.9]
    assert run(main, "--filter", answers, *bounds, tmp_path / "in", tmp_path / "out") == 0
    assert "a: 1 samples stay; dropped: 1 too_easy, 1 too_hard" in capsys.readouterr().out
    sheet = tmp_path / "sheet.png"
    assert run(main, "--check", tmp_path / "out", "--contact-sheet", sheet) == 0
    out = capsys.readouterr().out
    assert "hash ok" in out
    assert "a picture of 1 samples" in out
    assert sheet.is_file()
    with pytest.raises(SystemExit):
        run(main, "--filter", answers, tmp_path / "in")


def test_evaluation_sets_are_not_written_as_train(tmp_path, mine, main, capsys):
    assert run(main, "math500", "--data", mine, "--split", "train", tmp_path / "a") == 1
    assert "evaluation only" in capsys.readouterr().err


def test_control_c_says_how_to_go_on(tmp_path, main, capsys, monkeypatch):
    draw = figures.draw_sample

    def interrupt(task, *, index, **more):
        if index == 25:
            signal.raise_signal(signal.SIGINT)
        return draw(task, index=index, **more)

    monkeypatch.setattr(figures, "draw_sample", interrupt)
    words = ["figures", "--tasks", "count_shapes", "--count", 40, "--max-samples", 10, tmp_path]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        assert run(main, *words) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "goes on from here" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.tar"))
    monkeypatch.undo()
    drawn = []
    monkeypatch.setattr(
        figures, "draw_sample", lambda task, **x: drawn.append(x["index"]) or draw(task, **x)
    )
    assert run(main, *words) == 0
    assert drawn == list(range(20, 40))
    assert check_shards(tmp_path)["samples"] == 40


@pytest.mark.slow
def test_control_c_and_kill_lose_no_finished_shard(tmp_path, main, capsys):
    out = tmp_path / "out"
    words = ["figures", "--tasks", "count_shapes", "--count", "3000", "--max-samples", "200", out]
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    partial = out / ".count_shapes-train.partial"
    kept = {}
    for sent, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 100
        while len(_finished(partial)) < len(kept) + 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(sent)
        error = process.communicate()[1].decode()
        assert process.returncode == code, error
        assert ("goes on from here" in error) == (sent == signal.SIGINT)
        assert not list(out.glob("*.tar"))
        for name, made in kept.items():
            assert (partial / name).stat().st_mtime_ns == made
        kept = {name: (partial / name).stat().st_mtime_ns for name in _finished(partial)}
    assert run(main, *words) == 0
    assert capsys.readouterr().err == ""  # no bar where nobody looks
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
    report = check_shards(out)
    assert (report["ok"], report["samples"], report["hashes"]) == (True, 3000, 15)
    assert not partial.exists()


def _finished(partial):
    state = partial / "progress.json"
    if not state.is_file():
        return []
    return list(json.loads(state.read_text())["writers"]["count_shapes-train"]["shards"])
