"""Videos: what is taken of them, what it costs, and that the models read it like their own."""

from __future__ import annotations

import json
import pickle
from multiprocessing.reduction import ForkingPickler

import av
import numpy as np
import pytest
import torch
from clips import clip, sound
from models import MEDIA
from pictures import encode as encode_image
from pictures import noise, png
from qwen_vl_utils import vision_process
from shard_files import pack

from datamodules import ReasoningDataModule, TaskConfig
from datamodules.encode import Encoder
from datamodules.fields import SampleError
from datamodules.samples import read_sample
from datamodules.video import VideoLimits, load_clip, plan_clip
from sapo_vl.rollout import Sampler
from sapo_vl.types import Sampling
from sapo_vl.verifiers import NumberVerifier

SMALL = VideoLimits(min_pixels=256, max_pixels=4096, total_pixels=65536)


def prompt(*videos, images=(), question="What moves?", **fields):
    data = {"question": question, "answer": "1", **fields}
    files = {f"{i}.mp4": video for i, video in enumerate(videos)}
    files |= {f"{i}.png": image for i, image in enumerate(images)}
    return read_sample({"json": json.dumps(data).encode(), **files}, key="k")


@pytest.fixture(params=["qwen2_5_vl", "qwen3_vl"])
def named(request):
    """The two families, which write videos in different ways."""
    return request.param


@pytest.fixture
def video_encoder(model_folder, named):
    return Encoder(str(model_folder(named)), 4096, 256, 16384, video=SMALL)


def read_with_av(element):
    """A reader as qwen-vl-utils has them, for what is not installed here."""
    with av.open(element["video"]) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        fps = float(stream.average_rate)
    count = vision_process.smart_nframes(element, len(frames), fps)
    index = torch.linspace(0, len(frames) - 1, count).round().long()
    video = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)[index]
    metadata = {"fps": fps, "frames_indices": index, "total_num_frames": len(frames)}
    return video, metadata, count / len(frames) * fps


@pytest.mark.parametrize(
    ("made", "own"),
    [
        ({}, {}),
        ({"frames": 31, "fps": 5, "size": (100, 70)}, {}),
        ({"frames": 40, "fps": 20, "size": (48, 160)}, {"fps": 10, "max_frames": 8}),
        ({"frames": 9}, {"nframes": 6, "max_pixels": 1024}),
        ({"frames": 60, "size": (160, 120)}, {"fps": 6, "total_pixels": 40000}),
        ({"size": (32, 32)}, {"min_pixels": 9000, "max_pixels": 20000}),
    ],
)
def test_frames_and_pixels_are_those_of_qwen_vl_utils(tmp_path, monkeypatch, made, own):
    data = clip(**made)
    (tmp_path / "a.mp4").write_bytes(data)
    monkeypatch.setattr(vision_process, "get_video_reader_backend", lambda: "own")
    monkeypatch.setitem(vision_process.VIDEO_READER_BACKENDS, "own", read_with_av)
    limits = {**SMALL.__dict__, **own}
    if "nframes" in own:
        del limits["fps"]
    video, metadata = vision_process.fetch_video(
        {"video": str(tmp_path / "a.mp4"), **limits}, image_patch_size=8, return_video_metadata=True
    )
    planned = plan_clip(data, SMALL, own, factor=16)
    assert list(planned.indices) == metadata["frames_indices"].tolist()
    assert (planned.frames, planned.fps) == (metadata["total_num_frames"], metadata["fps"])
    assert torch.equal(load_clip(planned), video)


@pytest.mark.parametrize("fields", [{}, {"fps": 6}, {"nframes": 2}, {"max_pixels": 1200}])
def test_tokens_counted_from_the_header_are_those_the_processor_makes(video_encoder, fields):
    sample = prompt(clip(), clip(20, size=(32, 96)), images=[png()], **fields)
    inputs = video_encoder(sample)
    grids = inputs.media["video_grid_thw"]
    of_video = int((inputs.mm_token_type_ids_S == 2).sum())
    assert of_video == int(grids.prod(-1).sum()) // 4 > 0
    of_image = int((inputs.mm_token_type_ids_S == 1).sum())
    assert of_image == int(inputs.media["image_grid_thw"].prod()) // 4 > 0
    assert len(inputs.media["pixel_values_videos"]) == int(grids.prod(-1).sum())
    video_encoder.max_prompt_tokens = len(inputs.input_ids_S)
    video_encoder(sample)
    video_encoder.max_prompt_tokens -= 1
    with pytest.raises(SampleError, match=f"too_long: .*has {len(inputs.input_ids_S)} tokens"):
        video_encoder(sample)


def test_too_long_is_said_before_frames_are_decoded(video_encoder, monkeypatch):
    monkeypatch.setattr("datamodules.encode.load_clip", None)
    video_encoder.max_prompt_tokens = 20
    with pytest.raises(SampleError, match="too_long"):
        video_encoder(prompt(clip()))
    for fields in ({"min_pixels": 10**15, "max_pixels": 10**15}, {"fps": 10**300}):
        with pytest.raises(SampleError, match=r"^(too_long|undecodable_media): "):
            video_encoder(prompt(clip(), **fields))


def test_the_times_of_frames_reach_the_model(video_encoder, named):
    inputs = video_encoder(prompt(clip(frames=12, fps=6), fps=3))
    text = video_encoder.processor.tokenizer.decode(inputs.input_ids_S)
    if named == "qwen3_vl":  # 6 of 12 frames: 0, 2, 4, 7, 9, 11; the middles of pairs
        times = ["<0.2 seconds>", "<0.9 seconds>", "<1.7 seconds>"]
        assert [time for time in times if time in text] == times
        assert "second_per_grid_ts" not in inputs.media
    else:
        assert inputs.media["second_per_grid_ts"].tolist() == pytest.approx([2 / 3])


@pytest.mark.parametrize("rotation", [90, -90, 180])
def test_a_video_is_turned_as_a_player_shows_it(rotation):
    still, turned = (
        load_clip(plan_clip(clip(rotation=angle), SMALL, {}, 16)) for angle in (None, rotation)
    )
    assert turned.shape[-2:] == (still.shape[-2:] if rotation == 180 else still.shape[:1:-1])
    torch.testing.assert_close(
        turned, torch.rot90(still, rotation // 90, dims=(2, 3)), atol=6, rtol=0
    )


FAST = clip(movflags="faststart")
PIECES = clip(movflags="frag_keyframe+empty_moov")
BROKEN = {
    "empty": b"",
    "garbage": b"no video at all" * 50,
    "name alone": clip()[:20],
    "cut": clip()[:-300],
    "cut, header first": FAST[: len(FAST) * 2 // 3],
    "cut, in pieces": PIECES[: len(PIECES) * 2 // 3],
    "playlist": b"#EXTM3U\n#EXTINF:1\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
    "sound alone": sound(),
    "one frame": clip(frames=1),
    "too wide": clip(size=(2010, 10)),
    "picture": png(),
    "endless box": b"\0\0\0\x01ftyp" + b"\xff" * 8,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_videos_are_reported_as_such(model_folder, name):
    encoder = Encoder(str(model_folder("qwen3_vl")), 10**6, 256, 16384, video=SMALL)
    with pytest.raises(SampleError, match=r"^undecodable_media: "):
        encoder(prompt(BROKEN[name]))


def test_a_video_in_pieces_is_read_like_a_whole_one():
    whole, pieces = (load_clip(plan_clip(data, SMALL, {}, 16)) for data in (FAST, PIECES))
    assert torch.equal(whole, pieces)


@pytest.mark.parametrize("token", ["<|image_pad|>", "<|video_pad|>"])
def test_placeholder_written_in_a_question(video_encoder, token):
    with pytest.raises(SampleError, match="image_count"):
        video_encoder(prompt(clip(), question=f"What does {token} mean?"))


class TestSamples:
    def test_markers_place_videos_and_images(self):
        sample = prompt(b"v0", b"v1", images=[b"i0"], question="<video2> then <image> or <video1>?")
        kinds = [part["type"] for part in sample.messages[0]["content"]]
        assert kinds == ["video", "text", "image", "text", "video", "text"]
        assert (sample.videos, sample.images) == ((b"v1", b"v0"), (b"i0",))

    def test_without_markers_media_come_first(self):
        sample = prompt(b"v", images=[b"i"], question="<image> is what?")
        assert [p["type"] for p in sample.messages[0]["content"]] == ["video", "image", "text"]
        sample = prompt(b"v", images=[b"i"])
        assert [p["type"] for p in sample.messages[0]["content"]] == ["image", "video", "text"]

    def test_the_tag_of_html_is_text_where_no_video_is(self):
        (part,) = prompt(question="What does <video> do?").messages[0]["content"]
        assert part["text"] == "What does <video> do?"

    def test_limits_go_into_the_part_and_are_meta_without_a_video(self):
        limits = {"fps": 0.5, "max_frames": 8, "max_pixels": 4096}
        sample = prompt(b"v", **limits)
        assert sample.messages[0]["content"][0] == {"type": "video", **limits}
        assert sample.meta == {}
        assert prompt(**limits).meta == {"fps": 0.5, "max_frames": 8}

    def test_messages(self):
        part = {"type": "video", "video": "http://elsewhere/x.mp4", "nframes": 4}
        messages = [{"role": "user", "content": [part, {"type": "text", "text": "Q?"}]}]
        sample = prompt(b"v", question=None, messages=messages)
        assert sample.messages[0]["content"][0] == {"type": "video", "nframes": 4}

    @pytest.mark.parametrize(
        ("why", "names", "fields"),
        [
            ("image_count", ["mp4", "0.mp4"], {}),
            ("image_count", ["1.mp4"], {}),
            ("image_count", ["mp4"], {"question": "<video1> <video2>"}),
            ("image_count", ["mp4"], {"messages": [{"role": "user", "content": "Q?"}]}),
            ("bad_json", ["mp4"], {"fps": float("nan")}),
            ("bad_json", ["mp4"], {"fps": "2"}),
            ("bad_json", ["mp4"], {"max_frames": 2.5}),
            ("unknown_media", ["mov"], {}),
        ],
    )
    def test_faults_have_a_fixed_name(self, why, names, fields):
        data = {"question": "Q?", "answer": "1", **fields}
        files = {"json": json.dumps(data).encode(), **dict.fromkeys(names, b"v")}
        with pytest.raises(SampleError) as caught:
            read_sample(files, key="k")
        assert caught.value.why == why


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fps", 0),
        ("max_frames", 1),
        ("min_frames", 65),
        ("min_pixels", 10**6),
        ("total_pixels", -1),
    ],
)
def test_limits_out_of_range(field, value):
    with pytest.raises(ValueError, match=rf"data\.video\.{field}"):
        VideoLimits(**{field: value, **({"min_frames": 1} if field == "max_frames" else {})})


def test_text_image_and_video_are_one_batch_that_models_score_and_continue(
    load_policy, model_folder, named, tmp_path
):
    shard = pack(
        tmp_path / "t.tar",
        [
            ("a.json", b'{"question": "How many?", "answer": "1"}'),
            ("b.json", b'{"question": "How many?", "answer": "2"}'),
            ("b.png", encode_image(noise((48, 32)))),
            ("c.json", b'{"question": "How many?", "answer": "3", "fps": 3}'),
            ("c.mp4", clip()),
        ],
    )
    source = ReasoningDataModule(
        str(model_folder(named)),
        tasks=[TaskConfig(name="t", shards=shard, verifier=NumberVerifier())],
        prompts_per_iteration=3,
        num_workers=1,
        min_pixels=256,
        max_pixels=16384,
        video=SMALL,
    )
    source.setup("fit")
    batch = next(iter(source.train_dataloader()))
    assert sorted(prompt.reference for prompt in batch.prompts) == ["1", "2", "3"]
    copy = pickle.loads(ForkingPickler.dumps(batch))
    for one, other in zip(batch.inputs, copy.inputs, strict=True):
        assert all(torch.equal(value, other.media[name]) for name, value in one.media.items())

    policy = load_policy(named)
    rollout = Sampler()(policy, batch, Sampling(group_size=2, max_new_tokens=6), (0, 0))
    of_row = torch.arange(3).repeat_interleave(2)
    with torch.no_grad():
        scores = policy.score(batch.inputs, of_row, rollout.response_ids_BT, rollout.mask_BT)
    torch.testing.assert_close(scores.logp_BT, rollout.logp_BT, rtol=0, atol=1e-5)
    for row, index in enumerate(of_row):
        length = int(rollout.mask_BT[row].sum())
        expected = transformers_own(
            policy, batch.inputs[index], rollout.response_ids_BT[row, :length]
        )
        torch.testing.assert_close(scores.logp_BT[row, :length], expected, rtol=0, atol=1e-5)


def transformers_own(policy, inputs, response):
    """Log-probs of one response by ``model(**inputs).logits``."""
    ids = torch.cat([inputs.input_ids_S, response])[None]
    types = torch.cat([inputs.mm_token_type_ids_S, torch.zeros_like(response)])[None]
    media = {key: inputs.media[key] for key in MEDIA if key in inputs.media}
    with torch.no_grad():
        logits = policy.model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=types,
            **media,
        ).logits[0, len(inputs.input_ids_S) - 1 : -1]
    logits[:, policy.banned_V] = -torch.inf
    return logits.log_softmax(-1).gather(-1, response[:, None])[:, 0]
