"""A benchmark keeps libraries quiet for its whole process; tests after it want to read them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _loud_again() -> Iterator[None]:
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    yield
    logger.setLevel(before)
