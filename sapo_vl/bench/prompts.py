"""Questions of an exact length about pictures of an exact size, for both sides the same.

Responses of random weights mean nothing, so the reward is a checksum: it differs within every
group, which keeps all groups in training on both sides (a group of equal rewards is skipped by us,
not by TRL, and would flatter us).
"""

from __future__ import annotations

import zlib
from io import BytesIO

import numpy as np
from PIL import Image

from sapo_vl.bench.cases import Case
from sapo_vl.bench.models import TOKEN_PIXELS
from sapo_vl.types import Prompt, Verdict

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def checksum_reward(response: str) -> float:
    """A number in [0, 1) that any two texts hardly ever share."""
    return zlib.crc32(response.encode()) / 2**32


class ChecksumVerifier:
    """``checksum_reward`` as a verifier."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` by its checksum."""
        return Verdict(score=checksum_reward(response), reason="checksum of the text")


def make_prompts(case: Case, count: int, seed: int = 0) -> list[Prompt]:
    """``count`` different prompts of ``case.prompt`` tokens with a picture of noise each."""
    return [_prompt(case, index, np.random.default_rng([seed, index])) for index in range(count)]


def _prompt(case: Case, index: int, draw: np.random.Generator) -> Prompt:
    side = case.picture_side * TOKEN_PIXELS
    pixels = draw.integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    question = "".join(draw.choice(list(LETTERS), case.question))
    content = [{"type": "image"}, {"type": "text", "text": question}]
    return Prompt(
        key=f"bench#{index}",
        index=index,
        task="bench",
        messages=({"role": "user", "content": content},),
        images=(file.getvalue(),),
        reference="-",
        verifier=ChecksumVerifier(),
    )
