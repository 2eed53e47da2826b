import numpy as np
from clips import clip
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


def test_a_video_shows_its_middle(tmp_path):
    key = {"key": "v", "question": "<video> What?", "answer": "1"}
    rotated = {**key, "key": "w", "videos": [clip(frames=3, size=(64, 32), rotation=90)]}
    write_shards([{**key, "videos": [clip(size=(64, 64))]}, rotated], tmp_path, "a")
    assert contact_sheet(tmp_path, tmp_path / "sheet.png", columns=1) == 2
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    green = (pixels[..., 1] > 180) & (pixels[..., 0] < 90) & (pixels[..., 2] < 90)
    half = len(pixels) // 2
    assert green[:half].sum() > 2000  # the corner of the clip, enlarged
    assert green[half:].sum() > 1000
    # In the middle the noise of 0 to 59 stands about 75 above its start.
    rows = pixels[100:190, 150:190].reshape(-1, 3).mean()
    assert 80 < rows < 130
    upright = np.argwhere(green[half:])
    assert np.ptp(upright[:, 0]) > np.ptp(upright[:, 1])  # turned: its green part is tall


def test_a_video_that_was_cut_is_shown_as_such(tmp_path):
    pack(tmp_path / "a-000000.tar", [("a.json", row()), ("a.mp4", clip()[:-50])])
    assert contact_sheet(tmp_path, tmp_path / "sheet.png") == 1
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert (178, 34, 34) in {tuple(colour[1]) for colour in sheet.getcolors(1 << 20)}
