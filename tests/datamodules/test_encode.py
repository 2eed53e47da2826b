from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from pictures import encode, header_only, noise, png, text_bomb
from PIL import Image

from datamodules.encode import Encoder
from datamodules.fields import SampleError
from datamodules.samples import read_sample


def prompt(*images, question="How many?", **fields):
    data = {"question": question, "answer": "1", **fields}
    files = {f"{i}.png": image for i, image in enumerate(images)}
    return read_sample({"json": json.dumps(data).encode(), **files}, key="k")


def image_tokens(inputs):
    return int((inputs.mm_token_type_ids_S == 1).sum())


WHOLE = {
    "square": png(),
    "odd": png((65, 47)),
    "tiny": png((1, 1)),
    "large": png((700, 500)),
    "one column": png((1, 150)),
    "one row": png((200, 1)),
    "long": png((1990, 10)),
    "transparent": png(mode="RGBA", colour=(9, 9, 9, 100)),
    "grey and transparent": png(mode="LA"),
    "palette": encode(noise().convert("P")),
    "grey": png(mode="L"),
    "bits": png(mode="1"),
    "16 bit": png(mode="I;16"),
    "jpeg": encode(noise((50, 70)), "JPEG"),
    "cmyk": encode(Image.new("CMYK", (40, 40)), "JPEG"),
    "webp": encode(noise(), "WEBP"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_tokens_counted_from_the_header_are_those_the_processor_makes(encoder, name):
    sample = prompt(WHOLE[name])
    inputs = encoder(sample)
    grid = inputs.media["image_grid_thw"]
    assert image_tokens(inputs) == int(grid.prod()) // 4 > 0
    assert len(inputs.media["pixel_values"]) == int(grid.prod())
    length = len(inputs.input_ids_S)
    encoder.max_prompt_tokens = length
    encoder(sample)
    encoder.max_prompt_tokens = length - 1
    with pytest.raises(SampleError, match=f"too_long: the prompt has {length} tokens"):
        encoder(sample)


def test_inputs_are_unpadded_and_typed(encoder):
    inputs = encoder(prompt(png()))
    assert inputs.input_ids_S.dtype == inputs.mm_token_type_ids_S.dtype == torch.int64
    assert inputs.input_ids_S.shape == inputs.mm_token_type_ids_S.shape
    assert inputs.media["pixel_values"].dtype == torch.float32
    assert image_tokens(inputs) == 16


def test_white_and_black_reach_the_ends_of_the_normalised_range(encoder):
    for colour, value in (("white", 1.0), ("black", -1.0)):
        pixels = encoder(prompt(png(colour=colour))).media["pixel_values"]
        assert torch.all(pixels == value)


def test_transparent_places_are_white(encoder):
    pixels = encoder(prompt(png(mode="RGBA", colour=(0, 0, 0, 0)))).media["pixel_values"]
    assert torch.all(pixels == 1.0)


def test_text_alone_has_no_media(encoder):
    inputs = encoder(prompt())
    assert inputs.media == {}
    assert image_tokens(inputs) == 0


def test_images_come_in_the_order_of_their_marks(encoder):
    small, large = png((32, 32)), png((64, 64))
    inputs = encoder(prompt(small, large, question="Is <image2> more than <image1>?"))
    assert inputs.media["image_grid_thw"].tolist() == [[1, 8, 8], [1, 4, 4]]
    assert image_tokens(inputs) == 16 + 4


def test_messages_are_rendered_as_they_stand(encoder):
    messages = [
        {"role": "system", "content": "Count."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How many?"}]},
    ]
    inputs = encoder(prompt(png(), question=None, messages=messages))
    text = encoder.processor.tokenizer.decode(inputs.input_ids_S)
    assert text.startswith("<|im_start|>system\nCount.<|im_end|>\n<|im_start|>user\n")
    assert text.endswith("How many?<|im_end|>\n<|im_start|>assistant\n")


def test_refusal_by_the_chat_template_is_the_samples_fault(encoder):
    encoder.processor.chat_template = "{{ raise_exception('no system message here') }}"
    with pytest.raises(SampleError, match=r"bad_json: .*no system message here"):
        encoder(prompt())


class TestPixelLimits:
    def tokens(self, encoder, size=(64, 64), **fields):
        return image_tokens(encoder(prompt(png(size), **fields)))

    def test_of_the_encoder(self, encoder):
        assert self.tokens(encoder, (4, 4)) == 1
        assert self.tokens(encoder, (1000, 1000)) == 256  # 65536 pixels

    def test_of_a_sample_come_first(self, encoder):
        assert self.tokens(encoder, max_pixels=1024) == 4
        assert self.tokens(encoder, min_pixels=16384) == 64
        assert self.tokens(encoder, min_pixels=1024, max_pixels=2048) == 4

    def test_of_a_sample_win_where_they_contradict_the_encoders(self, processor):
        encoder = Encoder(processor, 4096, min_pixels=4096, max_pixels=16384)
        assert self.tokens(encoder, max_pixels=1024) == 4
        assert self.tokens(encoder, min_pixels=65536) == 256

    def test_of_one_image_among_several(self, encoder):
        content = [
            {"type": "image", "max_pixels": 256},
            {"type": "image"},
            {"type": "image", "resized_height": 32, "resized_width": 48},
        ]
        messages = [{"role": "user", "content": content}]
        inputs = encoder(prompt(png(), png(), png(), question=None, messages=messages))
        assert inputs.media["image_grid_thw"].tolist() == [[1, 2, 2], [1, 8, 8], [1, 4, 6]]

    def test_monstrous_ones_are_refused_before_anything_is_enlarged(self, encoder):
        with pytest.raises(SampleError, match="too_long"):
            self.tokens(encoder, min_pixels=10**12)
        with pytest.raises(SampleError, match="undecodable_media"):
            self.tokens(encoder, min_pixels=10**400)

    @pytest.mark.parametrize(("least", "most"), [(0, 100), (2000, 1000)])
    def test_of_the_encoder_that_make_no_sense(self, processor, least, most):
        with pytest.raises(ValueError, match=f"min_pixels is {least} and data.max_pixels {most}"):
            Encoder(processor, 4096, min_pixels=least, max_pixels=most)

    def test_that_leave_nothing_of_an_image(self, encoder):
        with pytest.raises(SampleError, match=r"undecodable_media: .*vanishes"):
            self.tokens(encoder, (1500, 10), max_pixels=1024)


whole_png, whole_jpeg = encode(noise()), encode(noise(), "JPEG")
BROKEN = {
    "empty": b"",
    "garbage": b"no image at all" * 50,
    "signature alone": whole_png[:8],
    "cut png": whole_png[: len(whole_png) // 2],
    "cut jpeg": whole_jpeg[: len(whole_jpeg) // 2],
    "cut webp": encode(noise(), "WEBP")[:300],
    "header without pixels": header_only(64, 64),
    "flipped bytes": whole_png[:3000] + bytes(200) + whole_png[3200:],
    "bomb": header_only(10_000, 10_000),
    "large bomb": header_only(100_000, 100_000),
    "text bomb": text_bomb(),
    "too wide": png((201, 1)),
    "too high": png((5, 1010)),
    "no size": header_only(0, 64),
    "postscript": encode(noise(), "EPS"),
    "gif": encode(noise(), "GIF"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_images_are_reported_as_such(processor, name):
    encoder = Encoder(processor, 10**9, 256, 65536)
    sample = replace(prompt(png()), images=(BROKEN[name],))
    with pytest.raises(SampleError, match=r"^undecodable_media: an image "):
        encoder(sample)


def test_too_long_is_said_before_pixels_are_decoded(encoder):
    encoder.max_prompt_tokens = 12
    with pytest.raises(SampleError, match="too_long"):
        encoder(prompt(header_only(64, 64)))


@pytest.mark.parametrize("images", [0, 1, 2])
@pytest.mark.parametrize("token", ["<|image_pad|>", "<|video_pad|>"])
def test_placeholder_written_in_a_question(encoder, token, images):
    for question in (f"What does {token} mean?", f"{token}{token}"):
        with pytest.raises(SampleError, match="image_count"):
            encoder(prompt(*[png()] * images, question=question))


def test_other_special_tokens_in_a_question_do_no_harm(encoder):
    inputs = encoder(prompt(png(), question="<|vision_start|><|im_end|><|vision_end|>?"))
    assert image_tokens(inputs) == 16
