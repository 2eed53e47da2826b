"""New model folders: what is written is what Hugging Face's own classes read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import PADDED_VOCAB_SIZE, TEXTS, architecture, build_folder, picture, small_tokenizer
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor

from sapo_vl.policy.build import SPECIAL_TOKENS, build_model, train_tokenizer

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def render(messages: list[dict[str, Any]], add_generation_prompt: bool = False) -> str:
    return small_tokenizer().apply_chat_template(
        messages, tokenize=False, add_generation_prompt=add_generation_prompt
    )


def test_special_tokens_are_single_ids_in_the_order_of_qwen() -> None:
    tokenizer = small_tokenizer()
    for number, token in enumerate(SPECIAL_TOKENS):
        assert tokenizer(token)["input_ids"] == [number]
        assert tokenizer(f"left{token}right")["input_ids"].count(number) == 1
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token == "<|endoftext|>"
    assert tokenizer.image_token == "<|image_pad|>"
    assert tokenizer.video_token == "<|video_pad|>"


@pytest.mark.parametrize(
    "text", ["How many circles are 12?", "  two\n\nlines\t", "naïve 図形 🙂", "a'll 3.14", ""]
)
def test_any_text_comes_back(text: str) -> None:
    tokenizer = small_tokenizer()
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_numbers_are_split_into_digits() -> None:
    tokenizer = train_tokenizer(["1234"] * 100, 300)
    assert len(tokenizer("1234")["input_ids"]) == 4


def test_training_is_reproducible() -> None:
    first, second = (train_tokenizer(TEXTS, 310).backend_tokenizer.to_str() for _ in range(2))
    assert first == second


def test_template_of_an_image_and_a_question() -> None:
    content = [{"type": "image"}, {"type": "text", "text": "text"}]
    assert render([{"role": "user", "content": content}], True) == (
        f"<|im_start|>user\n{IMAGE}text<|im_end|>\n<|im_start|>assistant\n"
    )


def test_template_of_a_whole_conversation() -> None:
    question = [
        {"type": "text", "text": "First \n"},
        {"type": "image"},
        {"type": "video"},
        {"type": "text", "text": " and {{ this }} <b>?"},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": [{"type": "text", "text": "\\boxed{3}"}]},
        {"role": "user", "content": "Sure?"},
    ]
    assert render(messages, True) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        f"<|im_start|>user\nFirst \n{IMAGE}{VIDEO} and {{{{ this }}}} <b>?<|im_end|>\n"
        "<|im_start|>assistant\n\\boxed{3}<|im_end|>\n"
        "<|im_start|>user\nSure?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert render(messages).endswith("<|im_start|>user\nSure?<|im_end|>\n")


def test_weights_read_back_equal(model_folder: Callable[[str], Path], family: str) -> None:
    folder = model_folder(family)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    assert model.config.model_type == family
    written = load_file(folder / "model.safetensors")
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        assert state.pop("lm_head.weight") is not None
        assert model.lm_head.weight is model.get_input_embeddings().weight
    assert all(tensor.dtype == torch.float32 for tensor in written.values())
    # An own round trip: the names in the file may differ from those in the class.
    again = AutoModelForImageTextToText.from_pretrained(folder).state_dict()
    for name, tensor in state.items():
        assert torch.equal(again[name], tensor), name
    assert sum(t.numel() for t in written.values()) == sum(p.numel() for p in model.parameters())


def test_the_folder_has_the_published_files(
    model_folder: Callable[[str], Path], family: str
) -> None:
    folder = model_folder(family)
    assert {file.name for file in folder.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "processor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == family
    assert config["text_config"]["vocab_size"] == PADDED_VOCAB_SIZE
    tokenizer = small_tokenizer()
    for key, token in (
        ("image_token_id", "<|image_pad|>"),
        ("video_token_id", "<|video_pad|>"),
        ("vision_start_token_id", "<|vision_start|>"),
        ("vision_end_token_id", "<|vision_end|>"),
    ):
        assert config[key] == tokenizer.convert_tokens_to_ids(token)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == tokenizer.eos_token_id
    assert generation["pad_token_id"] == tokenizer.pad_token_id


def test_processor_reads_back_equal(model_folder: Callable[[str], Path], family: str) -> None:
    processor = AutoProcessor.from_pretrained(model_folder(family))
    # Not compared by to_str: for Qwen3.5 transformers puts its own split rule in the file's place.
    written = small_tokenizer()
    assert processor.tokenizer.get_vocab() == written.get_vocab()
    for text in (*TEXTS[::20], f"<|im_start|>user\n{IMAGE}2 + 2 = {VIDEO}?<|im_end|>\n"):
        assert processor.tokenizer(text)["input_ids"] == written(text)["input_ids"]
    output = processor(text=[f"{IMAGE}How many?"], images=[picture(64, 32)], return_tensors="pt")
    assert output["image_grid_thw"].tolist() == [[1, 4, 8]]  # patches of 8 pixels
    assert output["mm_token_type_ids"].sum() == 8  # merged 2 by 2
    assert output["pixel_values"].shape == (32, 3 * 2 * 8 * 8)
    assert output["pixel_values"].abs().max() <= 1.0


def test_pixel_bounds_hold(model_folder: Callable[[str], Path]) -> None:
    processor = AutoProcessor.from_pretrained(model_folder("qwen3_vl"))
    large = processor.image_processor(images=[picture(500, 300)], return_tensors="pt")
    small = processor.image_processor(images=[picture(16, 16)], return_tensors="pt")
    assert len(large["pixel_values"]) * 8 * 8 <= 128 * 128
    assert len(small["pixel_values"]) * 8 * 8 == 16 * 16


def test_the_seed_decides_the_weights_and_leaves_the_global_one(tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    tokenizer = small_tokenizer()
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        count = build_model(architecture("qwen3_vl"), tokenizer, tmp_path / name, seed=seed)
        weights.append(load_file(tmp_path / name / "model.safetensors"))
        assert count == sum(tensor.numel() for tensor in weights[-1].values())
    assert torch.equal(torch.random.get_rng_state(), state)
    name = "model.language_model.embed_tokens.weight"
    assert torch.equal(weights[0][name], weights[1][name])
    assert not torch.equal(weights[0][name], weights[2][name])


def test_the_vocabulary_defaults_to_the_tokenizer(tmp_path: Path) -> None:
    content = architecture("qwen3_vl")
    del content["text_config"]["vocab_size"]
    tokenizer = small_tokenizer()
    build_model(content, tokenizer, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["text_config"]["vocab_size"] == len(tokenizer)
    assert "vocab_size" not in content["text_config"]  # the caller's mapping is left alone


def test_a_vocabulary_smaller_than_the_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocab_size is 100; the tokenizer has \d+ tokens"):
        build_folder("qwen3_vl", tmp_path, vocab_size=100)


@pytest.mark.parametrize("model_type", ["llama", ""])
def test_an_unknown_family_is_an_error(tmp_path: Path, model_type: str) -> None:
    content = architecture("qwen3_vl") | {"model_type": model_type}
    with pytest.raises(ValueError, match="is not one of qwen2_5_vl, qwen3_vl"):
        build_model(content, small_tokenizer(), tmp_path)
