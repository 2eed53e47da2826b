"""Read what vLLM's token-in, token-out route answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sapo_vl.rollout.vllm_client import VLLMError

NO_LOGP = -9999.0  # what vLLM sends for NaN, and where it has no log-prob


@dataclass(frozen=True, slots=True)
class Drawn:
    """One response: ``Drawn(ids=[51, 7, 2], logp=[-0.2, -1.1, -0.7])``."""

    ids: list[int]
    logp: list[float]


def read_answer(answer: Any, body: Mapping[str, Any], weights: str) -> list[Drawn]:
    """The responses of one prompt, in order.

    Args:
        answer: the JSON that came.
        body: the request it answers.
        weights: name of those that were handed over last.

    Raises:
        VLLMError: it answers another prompt, from other weights, with other tokens than may be
            drawn, without log-probs, or not to the end.
    """
    try:
        _require_same_prompt(answer["prompt_token_ids"], body["token_ids"])
        choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        drawn = [_response(choice) for choice in choices]
        used = {span["version"] for choice in choices for span in choice["weight_versions"]}
    except (LookupError, TypeError, AttributeError) as error:
        raise VLLMError(
            f"the server's answer has another form than vLLM 0.32's ({type(error).__name__}: "
            f"{error}). Take that version, or look whether the route changed."
        ) from None
    if not used <= {weights}:
        raise VLLMError(
            f"a response was drawn with the weights {sorted(used)}, not with {weights!r}, which "
            "were handed over last. Was the server started again, or does another run use it?"
        )
    parameters = body["sampling_params"]
    if len(drawn) != parameters["n"]:
        raise VLLMError(f"{len(drawn)} responses came; {parameters['n']} were asked for")
    banned = {int(token) for token in parameters["logit_bias"]}
    found = sorted(banned.intersection(token for row in drawn for token in row.ids))
    if found:
        raise VLLMError(
            f"a response holds token {found[0]}, which is never to be drawn (a vision placeholder, "
            "or beyond the tokenizer's last): the server ignored logit_bias"
        )
    return drawn


def _require_same_prompt(theirs: list[int], own: list[int]) -> None:
    if theirs == own:
        return
    place = next((i for i, (a, b) in enumerate(zip(theirs, own, strict=False)) if a != b), None)
    where = "the shorter one's end" if place is None else f"token {place}"
    raise VLLMError(
        f"the server answered a prompt of {len(theirs)} tokens, {len(own)} were sent; they differ "
        f"from {where} on. The server processed it again: start it with scripts/vllm_server.sh, "
        "from the model folder of data.processor (same chat template and pixel budget)."
    )


def _response(choice: Mapping[str, Any]) -> Drawn:
    if choice["finish_reason"] not in ("stop", "length"):
        raise VLLMError(
            f"a response ended by {choice['finish_reason']!r}: the server gave it up; see its log"
        )
    content = choice["logprobs"]["content"]
    ids, logp = list(choice["token_ids"]), [float(token["logprob"]) for token in content]
    if not ids or [token["token_id"] for token in content] != ids or min(logp) <= NO_LOGP:
        raise VLLMError(
            "a response came without a log-prob for each of its tokens; were they NaN? Then the "
            "server's weights are broken: start it again"
        )
    return Drawn(ids, logp)
