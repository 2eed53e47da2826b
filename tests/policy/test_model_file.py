"""Model folders from a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from models import TEXTS, architecture

from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.model_file import build_from_file

CONFIGS = Path(__file__).parents[2] / "configs"


def model_file(folder: Path, **changes: Any) -> Path:
    content = {
        "architecture": architecture("qwen3_vl"),
        "tokenizer": {"vocab_size": 300},
        "min_pixels": 256,
        "max_pixels": 4096,
    }
    content |= changes
    path = folder / "model.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
    return path


def test_builds_what_the_file_says(tmp_path: Path) -> None:
    count = build_from_file(model_file(tmp_path), TEXTS, tmp_path / "model")
    policy = Policy(PolicyConfig(path=str(tmp_path / "model")))
    assert count == sum(p.numel() for p in policy.parameters())
    assert len(policy.tokenizer) == 300
    size = policy.processor.image_processor.size
    assert (size["shortest_edge"], size["longest_edge"]) == (256, 4096)


def test_the_seed_of_the_call_stands_in_for_that_of_the_file(tmp_path: Path) -> None:
    weights = {}
    for name, of_file, of_call in (("a", 1, None), ("b", 5, 1), ("c", 5, None)):
        folder = tmp_path / name
        folder.mkdir()
        build_from_file(model_file(folder, seed=of_file), TEXTS, folder / "model", seed=of_call)
        weights[name] = (folder / "model" / "model.safetensors").read_bytes()
    assert weights["a"] == weights["b"] != weights["c"]


def test_the_words_of_every_chat_become_tokens(tmp_path: Path) -> None:
    build_from_file(model_file(tmp_path), ["x"], tmp_path / "model")
    tokenizer = Policy(PolicyConfig(path=str(tmp_path / "model"))).tokenizer
    assert len(tokenizer("user")["input_ids"]) == len(tokenizer("assistant")["input_ids"]) == 1


@pytest.mark.parametrize(
    ("file", "millions"),
    [
        ("quickstart/model.yaml", 1.4),
        ("size_study/1m.yaml", 1.2),
        ("size_study/3m.yaml", 3.1),
        ("size_study/10m.yaml", 11.6),
    ],
)
def test_models_of_the_repository_build(tmp_path: Path, file: str, millions: float) -> None:
    count = build_from_file(CONFIGS / file, TEXTS, tmp_path)
    assert count / 1e6 == pytest.approx(millions, rel=0.1)
    assert Policy(PolicyConfig(path=str(tmp_path))).share_prefix


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": 1}, r"unknown \['optimizer'\]; a model file has \['architecture', 'max_pix"),
        ({"architecture": None}, "architecture is missing"),
        ({"tokenizer": None}, "tokenizer is missing"),
        ({"tokenizer": {}}, r"tokenizer\.vocab_size is missing"),
        ({"architecture": {"model_type": "qwen3_vl"}}, r"architecture\.text_config is missing"),
        ({"architecture": {"text_config": {}}}, r"architecture\.model_type is missing"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = model_file(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        build_from_file(path, TEXTS, tmp_path / "model")
    assert str(path) in str(caught.value)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", ["", "- a list", "text"])
def test_a_file_that_holds_no_fields(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"model\.yaml: not a mapping; a model file has"):
        build_from_file(path, TEXTS, tmp_path / "model")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        build_from_file(tmp_path / "absent.yaml", TEXTS, tmp_path / "model")
