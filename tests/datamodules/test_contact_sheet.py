import numpy as np
from PIL import Image
from shard_files import make, pack, picture, row

from datamodules.contact_sheet import contact_sheet
from datamodules.shards import write_shards


def test_a_sheet_shows_pictures_questions_and_answers(tmp_path):
    text = {"key": "t", "question": "∫ √x dx? " * 80, "answer": "½"}
    two = {**make(1)[0], "key": "u", "images": [picture("blue"), picture("lime")], "answer": "9"}
    write_shards([*make(3), text, two], tmp_path, "a")
    assert contact_sheet(tmp_path, tmp_path / "sheet.png", count=5, columns=3) == 5
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        pixels = np.asarray(sheet.convert("RGB")).reshape(-1, 3)
    assert sheet.width == 900
    colours = {tuple(int(x) for x in colour) for colour in np.unique(pixels, axis=0)}
    assert {(255, 0, 0), (0, 0, 255), (0, 255, 0), (0, 100, 0)} <= colours


def test_a_small_set_is_not_lost_beside_a_large_one(tmp_path):
    from datamodules.contact_sheet import _choose

    keys = [f"a.tar#{i}" for i in range(1000)] + [f"b.tar#{i}" for i in range(3)]
    chosen = [keys[place].split("#")[0] for place in _choose(keys, 8)]
    assert len(chosen) <= 8
    assert chosen.count("b.tar") >= 2
    assert _choose(keys[:2], 24) == [0, 1]


def test_samples_that_cannot_be_read_are_shown_as_such(tmp_path):
    members = [("a.json", row()), ("a.png", picture()[:30]), ("b.json", b"{")]
    pack(tmp_path / "a-000000.tar", members)
    assert contact_sheet(tmp_path, tmp_path / "sheet.png") == 2
