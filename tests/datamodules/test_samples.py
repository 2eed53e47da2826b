import json
import pickle

import pytest

from datamodules.samples import SampleError, image_extension, read_sample

PNG = b"\x89PNG\r\n\x1a\n"
BIG = {"type": "image", "max_pixels": "9"}
SMALL = {"type": "image", "max_pixels": 8}
BASE = {"question": "How many?", "answer": "3"}


def read(data, template="{question}\n{options}", **images):
    fields = {"json": json.dumps(data).encode()}
    fields.update({name.lstrip("_").replace("_", "."): content for name, content in images.items()})
    return read_sample(fields, key="a.tar#1", template=template)


def content(prompt):
    return prompt.messages[0]["content"]


def fails(why, fields):
    with pytest.raises(SampleError) as caught:
        read_sample(fields, key="a.tar#1")
    assert caught.value.why == why
    return caught.value


def test_one_image_goes_before_the_text():
    def verifier(prompt, response):
        raise AssertionError

    prompt = read_sample(
        {"json": json.dumps({**BASE, "level": 2}).encode(), "png": b"x", "__url__": b"u"},
        key="a.tar#1",
        task="counting",
        verifier=verifier,
        index=7,
    )
    assert content(prompt) == [{"type": "image"}, {"type": "text", "text": "How many?"}]
    assert prompt.images == (b"x",)
    assert (prompt.reference, prompt.key, prompt.task, prompt.index) == (
        "3",
        "a.tar#1",
        "counting",
        7,
    )
    assert prompt.verifier is verifier
    assert prompt.meta == {"level": 2}
    assert prompt.response is None
    assert prompt.options == {}


def test_text_alone_and_unicode():
    prompt = read({"question": "角 <b> {x}?", "answer": "½"})
    assert content(prompt) == [{"type": "text", "text": "角 <b> {x}?"}]
    assert prompt.images == ()


def test_ten_images_in_the_order_of_their_numbers():
    images = {f"_{number}_png": str(number).encode() for number in reversed(range(11))}
    assert read(BASE, **images).images == tuple(str(number).encode() for number in range(11))


def test_numbered_markers_place_and_order_images():
    data = {**BASE, "question": "Is <image2> in <image1>?"}
    prompt = read(data, _0_png=b"first", _1_jpg=b"second")
    assert content(prompt) == [
        {"type": "text", "text": "Is "},
        {"type": "image"},
        {"type": "text", "text": " in "},
        {"type": "image"},
        {"type": "text", "text": "?"},
    ]
    assert prompt.images == (b"second", b"first")


def test_plain_markers_take_images_in_turn():
    prompt = read({**BASE, "question": "<image><image> same?"}, _0_png=b"0", _1_png=b"1")
    assert [part["type"] for part in content(prompt)] == ["image", "image", "text"]
    assert prompt.images == (b"0", b"1")


def test_markers_in_options_count_and_can_be_switched_off():
    data = {**BASE, "question": "Which?", "options": ["<image1>", "<image2>"], "answer": "A"}
    prompt = read(data, _0_png=b"0", _1_png=b"1")
    assert [part["type"] for part in content(prompt)] == ["text", "image", "text", "image"]
    with pytest.raises(SampleError, match="image_markers"):
        read(data, png=b"0")
    prompt = read({**data, "image_markers": False}, png=b"0")
    assert content(prompt)[1]["text"] == "Which?\nA. <image1>\nB. <image2>"
    assert "image_markers" not in prompt.meta


def test_options_by_list_and_by_label():
    prompt = read({**BASE, "options": [6, "two"]})
    assert prompt.options == {"A": "6", "B": "two"}
    assert content(prompt)[0]["text"] == "How many?\nA. 6\nB. two"
    prompt = read({**BASE, "options": {"1": "one", "0": "none"}}, template="{options}\n{question}!")
    assert content(prompt)[0]["text"] == "1. one\n0. none\nHow many?!"


def test_a_template_with_another_name_is_the_users_error():
    with pytest.raises(ValueError, match=r"\{question\} and \{options\}") as caught:
        read(BASE, template="{quesiton}")
    assert not isinstance(caught.value, SampleError)


def test_pixel_limits_go_into_the_image_part():
    limits = {"min_pixels": 1024, "max_pixels": 4096}
    prompt = read({**BASE, **limits}, png=b"x")
    assert content(prompt)[0] == {"type": "image", **limits}
    assert prompt.meta == {}


def test_messages_pass_as_they_stand_without_their_paths():
    messages = [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<image1>?"},
                {"type": "image", "image": "http://elsewhere/x.png", "max_pixels": 99},
            ],
        },
    ]
    prompt = read({"messages": messages, "answer": "3", "min_pixels": 9}, png=b"x")
    assert prompt.messages == (
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<image1>?"},
                {"type": "image", "min_pixels": 9, "max_pixels": 99},
            ],
        },
    )


def test_numbers_as_answers_become_text():
    assert read({**BASE, "answer": 3}).reference == "3"
    assert read({**BASE, "answer": 2.5}).reference == "2.5"


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("missing_answer", {"answer": None}),
        ("missing_answer", {"answer": ""}),
        ("missing_answer", {"answer": ["3"]}),
        ("missing_answer", {"answer": True}),
        ("missing_answer", {"answer": "\ud800"}),
        ("missing_question", {"question": None}),
        ("missing_question", {"question": "  "}),
        ("missing_question", {"question": 3}),
        ("missing_question", {"messages": []}),
        ("missing_question", {"messages": [{"role": "assistant", "content": "3"}]}),
        ("bad_json", {"messages": [{"role": "root", "content": "3"}]}),
        ("bad_json", {"messages": ["hello"]}),
        ("bad_json", {"options": "AB"}),
        ("bad_json", {"options": ["x"] * 27}),
        ("bad_json", {"options": [None]}),
        ("bad_json", {"response": 3}),
        ("bad_json", {"min_pixels": 0}),
        ("bad_json", {"max_pixels": "9"}),
        ("bad_json", {"min_pixels": 9, "max_pixels": 8}),
        ("bad_json", {"messages": [{"role": "user", "content": [BIG, BIG]}]}),
        ("bad_json", {"min_pixels": 9, "messages": [{"role": "user", "content": [SMALL] * 2}]}),
        ("image_count", {"question": "<image1> or <image3>?"}),
        ("image_count", {"question": "<image1> or <image1>?"}),
        ("image_count", {"messages": [{"role": "user", "content": "no part"}]}),
        ("image_count", {"messages": [{"role": "user", "content": [{"type": "video"}]}]}),
        ("unknown_media", {"messages": [{"role": "user", "content": [{"type": "audio"}]}]}),
        ("unknown_media", {"messages": [{"role": "user", "content": [{"type": ["image"]}]}]}),
    ],
)
def test_a_bad_field_has_a_fixed_name(why, change):
    fields = {"json": json.dumps({**BASE, **change}).encode(), "0.png": b"0", "1.png": b"1"}
    fails(why, fields)


@pytest.mark.parametrize(
    ("why", "fields"),
    [
        ("missing_json", {"png": b""}),
        ("bad_json", {"json": b"{"}),
        ("bad_json", {"json": b"\xff\xfe"}),
        ("bad_json", {"json": b"[" * 100_000}),
        ("bad_json", {"json": b"3"}),
        ("unknown_media", {"json": b"{}", "pkl": b""}),
        ("unknown_media", {"json": b"{}", "5_x.png": b""}),
        ("image_count", {"json": b"{}", "png": b"", "jpg": b""}),
        ("image_count", {"json": b"{}", "png": b"", "0.png": b""}),
        ("image_count", {"json": b"{}", "0.jpg": b"", "0.png": b""}),
        ("image_count", {"json": b"{}", "1.png": b"", "2.png": b""}),
    ],
)
def test_bad_fields_have_a_fixed_name(why, fields):
    fails(why, fields)


def test_the_error_survives_a_worker_boundary():
    error = pickle.loads(pickle.dumps(fails("missing_json", {})))
    assert (error.why, str(error)) == ("missing_json", f"missing_json: {error.detail}")


def test_image_extension_by_first_bytes():
    assert image_extension(PNG) == "png"
    assert image_extension(b"\xff\xd8\xff\xe0") == "jpg"
    assert image_extension(b"RIFF\0\0\0\0WEBPVP8 ") == "webp"
    with pytest.raises(ValueError, match="convert it to PNG"):
        image_extension(b"GIF89a")


@pytest.mark.parametrize(
    ("text", "why", "words"),
    [
        ('{"question": "Q?", "answer": NaN}', "bad_json", "NaN is no JSON number"),
        ('{"question": "Q?", "answer": "1", "x": -Infinity}', "bad_json", "-Infinity is no JSON"),
        ('{"question": "Q?", "answer": 1e999}', "missing_answer", "write it as a string"),
        ('{"question": "Q?", "answer": "  "}', "missing_answer", "no .answer"),
        ('{"question": "Q?", "answer": "1", "answer": "2"}', "bad_json", "'answer' is there twice"),
        ('{"question": "Q?", "answer": "1", "x": {"y": 1, "y": 1}}', "bad_json", "'y' is there"),
        ('{"question": "Q?", "answer": 1' + "0" * 5000 + "}", "bad_json", "digits"),
    ],
)
def test_json_that_could_be_read_in_two_ways_is_refused(text, why, words):
    with pytest.raises(SampleError, match=words) as caught:
        read_sample({"json": text.encode()}, key="k")
    assert caught.value.why == why


def test_a_byte_order_mark_line_ends_and_utf_16_are_read():
    for data in ("\ufeff".encode(), b""):
        text = b'{"question": "a\\r\\nb",\r\n"answer": "1"}\r\n'
        assert read_sample({"json": data + text}, key="k").messages[0]["content"][0]["text"] == (
            "a\r\nb"
        )
    utf16 = '{"question": "é", "answer": "1"}'.encode("utf-16")
    assert read_sample({"json": utf16}, key="k").messages[0]["content"][0]["text"] == "é"
