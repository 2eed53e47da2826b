"""The shapes that the GPU tests draw weights for, checked without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gpu_shapes import PARAMETERS, SHAPES, shape_folder
from models import encode, picture
from transformers import AutoConfig, AutoModelForImageTextToText

from sapo_vl.processor import load_processor


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_parameters_are_as_many_as_published(tmp_path: Path, name: str) -> None:
    folder = shape_folder(name, tmp_path / name)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(folder))
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_square_picture_makes_the_prompt_that_is_measured(tmp_path: Path, name: str) -> None:
    folder = shape_folder(name, tmp_path / name)
    inputs = encode(load_processor(str(folder)), "What is left?", [picture(1008, 1008)])
    assert 900 < len(inputs.input_ids_S) < 1400
