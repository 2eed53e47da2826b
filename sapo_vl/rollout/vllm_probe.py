"""A fixed question about a fixed picture, by which a server shows that it has the policy's weights.

Its response is drawn by the server and scored by the policy: weights that did not arrive, an old
head, a picture that was lost or other positions all show as a gap between the two.
"""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from sapo_vl.policy import Policy
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Rollout, Sampling

SAMPLING = Sampling(group_size=1, temperature=1.0, max_new_tokens=8)
SIDE = 4  # of the picture, in vision tokens; a processor may enlarge it


def probe_batch(policy: Policy) -> PromptBatch:
    """The question, on the policy's device."""
    processor = policy.processor
    side = SIDE * processor.image_processor.patch_size * processor.image_processor.merge_size
    ramp = np.linspace(0, 255, side, dtype=np.uint8)
    picture = np.stack(np.broadcast_arrays(ramp[None], ramp[:, None], ramp[None, ::-1]), axis=-1)
    content = [{"type": "image"}, {"type": "text", "text": "What is in the picture?"}]
    chat = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    output = processor(text=[chat], images=[Image.fromarray(picture)], return_tensors="pt")
    inputs = PromptInputs(
        input_ids_S=output["input_ids"][0],
        mm_token_type_ids_S=output["mm_token_type_ids"][0],
        media={key: output[key] for key in ("pixel_values", "image_grid_thw")},
    )
    prompt = Prompt(reference="", key="probe")
    return PromptBatch([prompt], [inputs.to(policy.device)], [])


@torch.no_grad()
def largest_gap(policy: Policy, batch: PromptBatch, drawn: Rollout) -> float:
    """Largest |difference of log-probs| between the server and the policy."""
    row = torch.zeros(1, dtype=torch.long, device=policy.device)
    own = policy.score(
        batch.inputs, row, drawn.response_ids_BT, drawn.mask_BT, SAMPLING.temperature
    )
    return float((own.logp_BT - drawn.logp_BT).abs().max())
