from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml
from models import build_folder

from sapo_vl.plan.architecture import load_architecture, published_names, published_parameters
from sapo_vl.plan.sizes import MEMORY, plan_file
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.parts import part_sizes

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs" / "model").glob("*.yaml"))
# The in-process sampler needs whole weights on every GPU: these have more than 80 GB of them.
UPDATES_ALONE = {
    "qwen2_5_vl_72b",
    "qwen3_5_122b_a10b",
    "qwen3_vl_235b_a22b",
    "qwen3_5_397b_a17b",
}


@pytest.fixture(scope="session")
def processors(tmp_path_factory: pytest.TempPathFactory):
    """Folder with the processor and tokenizer of a family, whose weights are not used."""

    @cache
    def folder(family: str) -> Path:
        family = family.removesuffix("_moe")
        return build_folder(family, tmp_path_factory.mktemp(family))

    return folder


def policy_of(file: Path) -> dict[str, object]:
    content: dict[str, object] = yaml.safe_load(file.read_text())["model"]["init_args"]["policy"]
    return content


def test_every_published_size_has_a_file() -> None:
    assert {policy_of(file)["path"] for file in FILES} == set(published_names())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_policy_is_built(file: Path, processors, tmp_path: Path) -> None:
    settings = policy_of(file)
    name = str(settings["path"])
    config = load_architecture(name)
    shutil.copytree(processors(config.model_type), tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").unlink()
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == config.model_type
    settings |= {"path": str(tmp_path), "weights": "random"}
    with torch.device("meta"):
        policy = Policy(PolicyConfig(**settings))  # type: ignore[arg-type]
    sizes = {size.part: size for size in part_sizes(policy.model)}
    assert sum(size.total for size in sizes.values()) == published_parameters(name)
    assert sizes["vision"].trainable == sizes["merger"].trainable == 0
    assert sizes["language"].trainable == sizes["language"].total
    assert {p.dtype for p in policy.model.parameters()} == {torch.bfloat16}
    assert {p.device.type for p in policy.model.parameters()} == {"meta"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_fits_as_it_says(file: Path) -> None:
    plan = plan_file(file).plan
    peaks = plan.peaks
    assert max(peaks["update"], peaks["optimizer step"]) <= MEMORY
    assert plan.fits(MEMORY) == (file.stem not in UPDATES_ALONE)
    # A pass of the sampler is whole groups: more rows would be decoded than the file says.
    assert plan.run.sampler is not None
    assert plan.run.sampling.group_size <= plan.run.sampler.max_rows
    tokens = plan.run.pixels // plan.shape.vision.token_pixels
    assert tokens == 1024
