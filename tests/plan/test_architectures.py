from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from models import build_folder

from sapo_vl.plan.architecture import (
    load_architecture,
    meta_model,
    published_names,
    published_parameters,
)
from sapo_vl.policy.parts import part_sizes

# Totals from hub metadata, safetensors indexes or users' records of the checkpoints; the last is
# published rounded. Qwen3.5 checkpoints hold a multi-token-prediction layer besides.
PUBLISHED = {
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-32B-Instruct": 33_452_718_336,
    "Qwen/Qwen3-VL-2B-Instruct": 2_127_532_032,
    "Qwen/Qwen3-VL-4B-Instruct": 4_437_815_808,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen/Qwen3-VL-32B-Instruct": 33_357_390_064,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
    "Qwen/Qwen3-VL-235B-A22B-Instruct": 235_670_022_896,
    "Qwen/Qwen3.5-0.8B": 873_438_784 - 20_452_864,
    "Qwen/Qwen3.5-2B": 2_274_069_824 - 60_828_160,
    "Qwen/Qwen3.5-4B": 4_659_865_088 - 120_599_552,
    "Qwen/Qwen3.5-9B": 9_653_104_368 - 243_290_624,
    "Qwen/Qwen3.5-27B": 27_781_427_952 - 424_699_392,
    "Qwen/Qwen3.5-35B-A3B": 35_951_822_704 - 844_640_768,
    "Qwen/Qwen3.5-122B-A10B": 125_086_497_008 - 2_523_679_232,
    "Qwen/Qwen3.5-397B-A17B": 403_397_928_944 - 6_595_568_128,
}
ROUNDED = {"Qwen/Qwen2.5-VL-72B-Instruct": 73.4}
FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "model_sizes.md"


@pytest.mark.parametrize("name", published_names())
def test_transformers_builds_the_published_count(name: str) -> None:
    model = meta_model(load_architecture(name))
    assert all(p.device.type == "meta" for p in model.parameters())
    counted = sum(p.numel() for p in model.parameters())
    assert counted == published_parameters(name)
    assert sum(size.total for size in part_sizes(model)) == counted
    if name in ROUNDED:
        assert round(counted / 1e9, 1) == ROUNDED[name]
    else:
        assert counted == PUBLISHED[name]


# Kept by transformers in another field, or under another name; a tied embedding shows in the count.
RENAMED = {"rope_theta", "rope_scaling", "rope_parameters", "model_type", "tie_word_embeddings"}
TURNED_INTO_LAYER_TYPES = {"full_attention_interval"}


def test_every_published_size_is_there() -> None:
    assert set(published_names()) == {*PUBLISHED, *ROUNDED}


def test_the_parts_of_an_8b_are_the_published_ones() -> None:
    sizes = {s.part: s.total for s in part_sizes(meta_model(load_architecture(NAME)))}
    assert sizes == {
        "vision": 576_388_336 - 160_496_896,
        "merger": 160_496_896,
        "language": 8_190_735_360,
    }


NAME = "Qwen/Qwen3-VL-8B-Instruct"


def test_the_values_are_those_of_the_record() -> None:
    if not FACTS.is_file():
        pytest.skip(f"{FACTS} is not here")
    blocks = re.findall(r"^### (\S+)\n\n```json\n(.*?)\n```", FACTS.read_text(), re.M | re.S)
    assert len(blocks) == len(published_names())
    for name, block in blocks:
        config, ours = json.loads(block), load_architecture(f"Qwen/{name}")
        for part in ("text_config", "vision_config"):
            for key, value in config[part].items():
                if key not in RENAMED | TURNED_INTO_LAYER_TYPES:
                    assert getattr(getattr(ours, part), key) == value, (name, key)


def test_a_folder_is_read_from_its_own_config(tmp_path: Path) -> None:
    build_folder("qwen3_vl", tmp_path, hidden_size=32)
    assert load_architecture(str(tmp_path)).text_config.hidden_size == 32


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.policy\.path.*Qwen/Qwen3-VL-8B-Instruct"):
        load_architecture("Qwen/Qwen9-VL")
