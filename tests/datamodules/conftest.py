"""A small processor, tasks in shards, local or behind a web server: what prompts are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopback import serving
from pictures import png
from transformers.utils import logging

from datamodules import TaskConfig
from datamodules.encode import Encoder
from datamodules.remote import ShardCache
from datamodules.shards import write_shards
from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.verifiers import NumberVerifier

ARCHITECTURE = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "text_config": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]},
    },
    "vision_config": {
        "depth": 1,
        "hidden_size": 16,
        "num_heads": 2,
        "intermediate_size": 16,
        "patch_size": 8,  # an image token stands for 16 x 16 pixels
        "deepstack_visual_indexes": [0],
        "out_hidden_size": 16,
        "num_position_embeddings": 16,
    },
}
SIZES = {"few": 5, "many": 33}  # samples of the two tasks


@pytest.fixture(scope="session")
def processor(tmp_path_factory):
    logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("processor")
    tokenizer = train_tokenizer(["How many shapes are there? user assistant"], 300)
    build_model(ARCHITECTURE, tokenizer, folder, min_pixels=256, max_pixels=65536)
    return str(folder)


@pytest.fixture
def encoder(processor):
    return Encoder(processor, max_prompt_tokens=4096, min_pixels=256, max_pixels=65536)


@pytest.fixture(scope="session")
def shards(tmp_path_factory) -> Path:
    """Folder with the shards of the tasks "few" and "many", several shards each."""
    folder = tmp_path_factory.mktemp("shards")
    for name, size in SIZES.items():
        samples = [
            {
                "key": f"{i:03d}",
                "images": [png((16 + 16 * (i % 3), 32), colour=(i, 7 * i % 256, 9))],
                "question": f"How many {name} {i}?",
                "answer": str(i),
            }
            for i in range(size)
        ]
        write_shards(samples, folder, name, max_samples=10)
    return folder


@pytest.fixture
def tasks(shards):
    """Make the configs of the two tasks; ``shares`` are theirs in this order."""

    def make(shares=(0.5, 0.5), **changes):
        return [
            TaskConfig(
                name=name,
                shards=str(shards / f"{name}-*.tar"),
                verifier=NumberVerifier(),
                share=share,
                **changes,
            )
            for name, share in zip(SIZES, shares, strict=True)
        ]

    return make


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine for the files in its ``folder``."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(tmp_path / "served") as running:
        yield running


@pytest.fixture
def short_pauses(monkeypatch):
    """A fetch that failed is tried again at once."""
    monkeypatch.setattr("datamodules.download._PAUSE", 0.01)


@pytest.fixture
def cache(tmp_path):
    """Where fetched shards are kept."""
    return ShardCache(folder=str(tmp_path / "cache"), stall_seconds=20)
