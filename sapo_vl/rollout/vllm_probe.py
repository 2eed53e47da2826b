"""Fixed questions about fixed pictures, by which a server shows that it has the policy's weights.

Their responses are drawn by the server and scored by the policy: weights that did not arrive, an
old head, a picture that was lost or other positions all show as a gap between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from sapo_vl.policy import Policy
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Rollout, Sampling

PROBE = Sampling(group_size=1, temperature=1.0, max_new_tokens=8)
SIDE = 4  # of the first picture, in vision tokens; a processor may enlarge it


def probe_batch(policy: Policy, pictures: Sequence[int] = (1,)) -> PromptBatch:
    """One question for each number in ``pictures``, about so many, on the policy's device."""
    inputs = [_question(policy, count).to(policy.device) for count in pictures]
    prompts = [
        Prompt(reference="", key=f"probe with {count} pictures", index=i)
        for i, count in enumerate(pictures)
    ]
    return PromptBatch(prompts, inputs, [])


def _question(policy: Policy, pictures: int) -> PromptInputs:
    processor = policy.processor
    content: list[dict[str, str]] = [{"type": "image"}] * pictures
    content.append({"type": "text", "text": "What is to be seen?"})
    chat = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    images = [_picture(processor.image_processor, number) for number in range(pictures)]
    output = processor(text=[chat], images=images or None, return_tensors="pt")
    media = ("pixel_values", "image_grid_thw") if pictures else ()
    return PromptInputs(
        input_ids_S=output["input_ids"][0],
        mm_token_type_ids_S=output["mm_token_type_ids"][0],
        media={key: output[key] for key in media},
    )


def _picture(image_processor: object, number: int) -> Image.Image:
    """A ramp of colours, wider with each number."""
    token = image_processor.patch_size * image_processor.merge_size  # type: ignore[attr-defined]
    x = np.linspace(0, 255, (SIDE + number) * token, dtype=np.uint8)[None]
    y = np.linspace(0, 255, SIDE * token, dtype=np.uint8)[:, None]
    return Image.fromarray(np.stack(np.broadcast_arrays(x, y, x[:, ::-1]), axis=-1))


@torch.no_grad()
def largest_gaps(
    policy: Policy, batch: PromptBatch, drawn: Rollout, temperature: float
) -> list[float]:
    """Largest |difference of log-probs| between the server and the policy, of each prompt."""
    rows = torch.arange(len(batch), device=policy.device).repeat_interleave(drawn.group_size)
    own = policy.score(batch.inputs, rows, drawn.response_ids_BT, drawn.mask_BT, temperature)
    gap_BT = (own.logp_BT - drawn.logp_BT).abs()
    return [float(gap) for gap in gap_BT.view(len(batch), -1).amax(1)]
