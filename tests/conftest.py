"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from models import FAMILIES, build_folder
from project import Project, make_project

from sapo_vl.policy import Policy, PolicyConfig

# The models are too small to split: threads that wait for each other cost more than they bring
# (on busy cores 74 s instead of 2 s were seen).
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a small model by family name, built when first asked for; do not write to it."""
    built: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in built:
            built[family] = build_folder(family, tmp_path_factory.mktemp(family))
        return built[family]

    return folder


@pytest.fixture
def load_policy(model_folder: Callable[[str], Path]) -> Callable[..., Policy]:
    """Load a fresh policy, to change as a test likes: ``load_policy("qwen3_vl", freeze=[...])``."""

    def load(family: str, **config: object) -> Policy:
        return Policy(PolicyConfig(path=str(model_folder(family)), **config))

    return load


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Each supported family in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Shards and a model that belong together; do not write to them."""
    return make_project(tmp_path_factory.mktemp("project"))
