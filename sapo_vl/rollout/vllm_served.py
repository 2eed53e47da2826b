"""What a vLLM server says it serves, and whether that can sample for this policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sapo_vl.policy import Policy
from sapo_vl.rollout.vllm_client import VLLMClient, VLLMError

_SHAPE = ("hidden_size", "num_hidden_layers", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Answer of the worker extension, ``server/sapo_vl_worker.py``."""

    version: str  # of vLLM
    model_type: str
    hidden_size: int
    num_hidden_layers: int
    vocab_size: int
    dtype: str  # of the weights in the server
    logprobs_mode: str
    device_normalize: bool  # the server normalizes pixels itself
    max_model_len: int  # tokens of a prompt and its response
    max_num_seqs: int  # responses decoded at a time, and the largest group


def ask_served(client: VLLMClient, policy: Policy) -> Served:
    """What the server holds.

    Raises:
        VLLMError: no answer, another model than the policy, or settings that the trainer's numbers
            would not agree with.
    """
    found = client.call_workers("describe_policy")
    try:
        served = Served(**found)
    except TypeError as error:
        raise VLLMError(
            f"{client.url}: its worker extension is of another version of sapo_vl ({error}). "
            "Start the server with the scripts/vllm_server.sh of this installation."
        ) from None
    for complaint in _complaints(served, policy):
        raise VLLMError(f"{client.url}: {complaint}")
    return served


def _complaints(served: Served, policy: Policy) -> list[str]:
    config = policy.model.config
    text = config.get_text_config()
    own = {"model_type": config.model_type} | {name: getattr(text, name) for name in _SHAPE}
    theirs: dict[str, Any] = {name: getattr(served, name) for name in own}
    found = []
    if theirs != own:
        found.append(
            f"serves another model than the policy: {theirs}, the policy is {own}. "
            "Start the server with the folder of policy.path."
        )
    if served.logprobs_mode != "processed_logprobs":
        found.append(
            f"returns {served.logprobs_mode}, which leave the temperature out. "
            "Start the server with --logprobs-mode processed_logprobs."
        )
    if served.device_normalize:
        found.append(
            "normalizes pixels, which arrive normalized. "
            "Start the server with --no-mm-device-do-normalize."
        )
    return found
