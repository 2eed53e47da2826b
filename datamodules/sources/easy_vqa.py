r"""easy-VQA: 5,000 drawn 64 x 64 images with 48,248 questions and 13 answers, from PyPI (MIT).

Its train part is our train; its test part is divided into val (even image numbers) and test (odd
ones), so no image is in two splits. The commonest answer (yes or no) has a share of 0.37 to 0.38.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from datamodules.sources.scene import SPLITS


def samples(split: str) -> Iterator[dict[str, Any]]:
    r"""Make the samples of a split: 38,575 train, 4,847 val, 4,826 test, in the package's order.

    Yields:
        ``key, images`` (one PNG), ``question, answer, response`` (the boxed answer) and ``image``
        (the package's name of the image).

    Raises:
        ValueError: an unknown split.
        ModuleNotFoundError: the package isn't installed.
    """
    if split not in SPLITS:
        raise ValueError(f"no split is called {split!r}; there are {', '.join(SPLITS)}")
    package = _package()
    if split == "train":
        part, questions, paths = (
            "train",
            package.get_train_questions(),
            package.get_train_image_paths(),
        )
    else:
        part, questions, paths = (
            "test",
            package.get_test_questions(),
            package.get_test_image_paths(),
        )
    number = 0
    for question, answer, image in zip(*questions, strict=True):
        if part == "test" and image % 2 != (split == "test"):
            continue
        yield {
            "key": f"{number:06d}",
            "images": [_read(paths[image])],
            "question": question,
            "answer": answer,
            "response": rf"\boxed{{{answer}}}",
            "image": f"{part}/{image}.png",
        }
        number += 1


def _package() -> ModuleType:
    try:
        return importlib.import_module("easy_vqa")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "the source easy_vqa needs the package easy-vqa; install it: pip install easy-vqa"
        ) from None


@lru_cache(maxsize=64)  # the questions of an image stand side by side
def _read(path: str) -> bytes:
    return Path(path).read_bytes()
