"""Images as they come: shown to the model as a viewer shows them, or left out with a reason."""

from __future__ import annotations

import io
import json
import struct
import zlib

import numpy as np
import pytest
import torch
from pictures import SIGNATURE, chunk, encode, header_only, noise, png
from PIL import Image
from shard_files import pack, row

from datamodules.fields import SampleError
from datamodules.images import open_image
from datamodules.samples import read_sample
from datamodules.shard_index import ShardIndex
from datamodules.stream import EvalDataset, TaskReader
from datamodules.tasks import TaskConfig
from sapo_vl.verifiers import NumberVerifier

ROW = {"question": "How many?", "answer": "1"}
NOISE = noise()


def pixels(encoder, data, **fields):
    """What the model gets of an image."""
    sample = {"json": json.dumps(ROW | fields).encode(), "png": data}
    return encoder(read_sample(sample, key="k")).media


def same(encoder, one, other):
    one, other = pixels(encoder, one), pixels(encoder, other)
    assert one["image_grid_thw"].tolist() == other["image_grid_thw"].tolist()
    return torch.equal(one["pixel_values"], other["pixel_values"])


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


class TestTurned:
    TURNS = (
        None,
        Image.Transpose.FLIP_LEFT_RIGHT,
        Image.Transpose.ROTATE_180,
        Image.Transpose.FLIP_TOP_BOTTOM,
        Image.Transpose.TRANSPOSE,
        Image.Transpose.ROTATE_90,  # the camera's turn; a viewer turns back, by 270
        Image.Transpose.TRANSVERSE,
        Image.Transpose.ROTATE_270,
    )

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
    def test_a_photo_is_upright(self, encoder, kind, orientation):
        seen = noise((64, 32))
        turn = self.TURNS[orientation - 1]
        stored = seen if turn is None else seen.transpose(turn)
        options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}
        data = encode(stored, kind, exif=exif(orientation), **options.get(kind, {}))
        ours, theirs = pixels(encoder, data), pixels(encoder, encode(seen))
        assert ours["image_grid_thw"].tolist() == theirs["image_grid_thw"].tolist()
        # A JPEG that was turned is packed in other blocks.
        tolerance = 0.15 if kind == "JPEG" else 0
        torch.testing.assert_close(
            ours["pixel_values"], theirs["pixel_values"], atol=tolerance, rtol=0
        )

    @pytest.mark.parametrize("orientation", [0, 9, 300])
    def test_a_turn_that_does_not_exist_is_none(self, encoder, orientation):
        assert same(encoder, encode(NOISE, exif=exif(orientation)), encode(NOISE))

    def test_broken_exif_data_spoil_nothing(self, encoder):
        whole = encode(NOISE)
        broken = whole[:33] + chunk(b"eXIf", b"II*\0\xff\xff\xff\xffgarbage") + whole[33:]
        assert same(encoder, broken, whole)


class TestColours:
    def test_grey_of_16_bits_is_grey(self, encoder):
        ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
        deep = encode(Image.fromarray(ramp))
        assert same(encoder, deep, encode(Image.fromarray((ramp >> 8).astype(np.uint8))))

    def test_grey_of_16_bits_with_a_transparent_value(self, encoder):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 16, 0, 0, 0, 0))
        rows = (b"\0" + struct.pack(">16H", *[256] * 8, *[512] * 8)) * 16
        body = chunk(b"tRNS", struct.pack(">H", 256)) + chunk(b"IDAT", zlib.compress(rows))
        data = SIGNATURE + header + body + chunk(b"IEND", b"")
        shown = Image.new("L", (16, 16), 255)
        shown.paste(2, (8, 0, 16, 16))
        assert same(encoder, data, encode(shown))

    @pytest.mark.parametrize("mode", ["RGBA", "LA"])
    def test_transparent_is_white_in_every_form(self, encoder, mode):
        clear = Image.new(mode, (32, 32), (0,) * len(mode))
        assert same(encoder, encode(clear), png((32, 32), colour="white"))

    def test_transparent_colour_of_a_palette(self, encoder):
        image = Image.new("P", (32, 32), 0)
        image.putpalette([200, 0, 0, 0, 0, 200])
        image.paste(1, (16, 0, 32, 32))
        shown = Image.new("RGB", (32, 32), "white")
        shown.paste((0, 0, 200), (16, 0, 32, 32))
        assert same(encoder, encode(image, transparency=0), encode(shown))
        assert not same(encoder, encode(image), encode(shown))

    def test_transparent_colour_of_rgb(self, encoder):
        image = Image.new("RGB", (32, 32), (1, 2, 3))
        assert same(encoder, encode(image, transparency=(1, 2, 3)), png((32, 32), colour="white"))

    def test_cmyk_keeps_its_colours(self, encoder):
        red = Image.new("RGB", (32, 32), (220, 20, 30))
        printed = pixels(encoder, encode(red.convert("CMYK"), "JPEG", quality=95))["pixel_values"]
        shown = pixels(encoder, encode(red))["pixel_values"]
        torch.testing.assert_close(printed, shown, atol=0.05, rtol=0)


class TestShapes:
    @pytest.mark.parametrize("size", [(1, 1), (1, 200), (20_000, 101), (101, 20_000)])
    def test_extremes_that_can_be_used(self, encoder, size):
        assert int(pixels(encoder, png(size, mode="L"))["image_grid_thw"].prod()) > 0

    @pytest.mark.parametrize(
        "data",
        [png((1, 201)), png((20_000, 99), mode="1"), header_only(20_000, 20_000)],
        ids=["ratio", "long", "bomb"],
    )
    def test_extremes_that_cannot(self, encoder, data):
        with pytest.raises(SampleError, match="undecodable_media"):
            pixels(encoder, data)


class TestAnimations:
    @pytest.mark.parametrize("kind", ["PNG", "WEBP"])
    def test_are_left_out(self, encoder, kind):
        second = Image.new("RGB", (64, 64), "red")
        data = encode(NOISE, kind, save_all=True, append_images=[second])
        with pytest.raises(
            SampleError, match=r"undecodable_media: .*animation; write it as KEY\.mp4"
        ):
            pixels(encoder, data)

    def test_a_gif_is_left_out_by_name_and_by_content(self, encoder):
        gif = encode(NOISE, "GIF", save_all=True, append_images=[noise()])
        with pytest.raises(SampleError, match="undecodable_media"):
            pixels(encoder, gif)
        with pytest.raises(SampleError, match=r"unknown_media: .*write a \.gif as"):
            read_sample({"json": json.dumps(ROW).encode(), "gif": gif}, key="k")

    def test_a_jpeg_with_a_preview_is_a_photo(self, encoder):
        options = {"quality": 90}
        photo = encode(
            NOISE, "MPO", save_all=True, append_images=[Image.new("RGB", (8, 8))], **options
        )
        assert Image.open(io.BytesIO(photo)).n_frames == 2
        assert same(encoder, photo, encode(NOISE, "JPEG", **options))


class TestTexts:
    @pytest.mark.parametrize(
        ("why", "data"),
        [
            ("bad_json", '{"question": "Größe?", "answer": "1"}'.encode("latin-1")),
            ("bad_json", b'{"question": "Q?", "answer": "1"'),
            ("bad_json", b""),
            ("bad_json", b'{"question": "\\ud800", "answer": "1"}'),
            ("image_count", b'{"question": "What is <image>?", "answer": "1"}'),
        ],
    )
    def test_are_left_out(self, why, data):
        with pytest.raises(SampleError) as caught:
            read_sample({"json": data}, key="k")
        assert caught.value.why in (why, "missing_question")

    def test_a_marker_can_be_text(self):
        row = ROW | {"question": "What is <image>?", "image_markers": False}
        prompt = read_sample({"json": json.dumps(row).encode()}, key="k")
        assert prompt.messages[0]["content"] == [{"type": "text", "text": "What is <image>?"}]

    @pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_unicode_in_other_codings_is_read(self, coding):
        row = json.dumps(ROW | {"question": "Größe?"}, ensure_ascii=False).encode(coding)
        prompt = read_sample({"json": row}, key="k")
        assert prompt.messages[0]["content"][0]["text"] == "Größe?"


def test_keys_with_dots_are_left_out_and_say_why(tmp_path, encoder):
    members = [("v1.5_a.json", row()), ("v1.5_a.png", png()), ("b.json", row())]
    shard = pack(tmp_path / "s.tar", members)
    index = ShardIndex(shard)
    assert index.keys == ["s.tar#b"]
    (problem,) = index.problems
    assert (problem.why, problem.where) == ("missing_json", "s.tar#v1")
    assert "keys must hold none" in problem.detail
    task = TaskConfig(name="t", shards=shard, verifier=NumberVerifier())
    (item,) = (EvalDataset([TaskReader(task, encoder)])[0],)
    assert [skip.why for skip in item.skipped] == ["missing_json"]


def test_every_fault_of_a_set_is_said_and_the_rest_is_read(tmp_path, encoder):
    files = {
        "cut": encode(NOISE)[:500],
        "zero": b"",
        "bomb": header_only(20_000, 20_000),
        "wide": png((201, 1)),
        "good": png(),
    }
    members = [m for k, v in files.items() for m in ((f"{k}.json", row()), (f"{k}.png", v))]
    task = TaskConfig(name="t", shards=pack(tmp_path / "s.tar", members), verifier=NumberVerifier())
    dataset = EvalDataset([TaskReader(task, encoder)])
    items = [dataset[i] for i in range(len(dataset))]
    assert [item.prompt.key for item in items if item.prompt] == ["s.tar#good"]
    assert {(s.why, s.where) for item in items for s in item.skipped} == {
        ("undecodable_media", f"s.tar#{key}") for key in ("cut", "zero", "bomb", "wide")
    }


@pytest.mark.parametrize("kind", [b"ftypheic", b"ftypavif"])
def test_formats_that_are_not_read_say_so(kind):
    with pytest.raises(
        SampleError, match=r"no PNG, JPEG or WebP \(it starts with .*ftyp"
    ) as caught:
        open_image(bytes(3) + b"\x18" + kind + bytes(200))
    assert caught.value.why == "undecodable_media"
