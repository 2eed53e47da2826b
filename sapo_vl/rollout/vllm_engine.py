"""The vLLM engine: responses are drawn by servers that hold the weights on GPUs of their own.

Reading order: vllm_client.py, vllm_request.py, vllm_answer.py, vllm_served.py, vllm_weights.py,
vllm_sync.py, vllm_probe.py, this; what runs inside the server is server/sapo_vl_worker.py.

Shape letters: P prompts, G group size, B = P * G rows, T response tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info

from sapo_vl.policy import Policy
from sapo_vl.rollout.build import to_rollout
from sapo_vl.rollout.draws import Seed
from sapo_vl.rollout.engine import TOLERANCE, compute_dtype
from sapo_vl.rollout.vllm_answer import Drawn, read_answer
from sapo_vl.rollout.vllm_client import VLLMClient, VLLMError
from sapo_vl.rollout.vllm_probe import PROBE, largest_gaps, probe_batch
from sapo_vl.rollout.vllm_request import generate_body, prompt_seed
from sapo_vl.rollout.vllm_served import Served, ask_served
from sapo_vl.rollout.vllm_sync import hand_over, largest_of_ranks
from sapo_vl.rollout.vllm_weights import fingerprint
from sapo_vl.strategies import together
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Rollout, Sampling


class VLLMEngine:
    """Sample with vLLM servers, which get the policy's weights whenever these have changed.

    Each rank sends its own prompts to one server; rank 0 hands the weights over. What is drawn
    depends on the run's seed, the iteration and the prompt, not on ranks or servers. ``Rollout``
    holds the server's own log-probs. Where ``top_p``, ``top_k`` or a presence penalty is set (in
    evaluation), they are those of the distribution that is left. vLLM returns no entropies:
    ``entropy_BT`` is minus the log-prob of the token drawn, whose mean is the entropy's.

    Args:
        urls: of the servers, started by ``scripts/vllm_server.sh``; rank r asks number r modulo
            their count.
        folder: where weights are handed over: seen under this path by rank 0 and by every server,
            with room for two copies of the model, and used by one run alone.
        concurrency: prompts that each rank sends at a time.
        seconds: longest wait for one answer.
        verify_every: compare the server's log-probs with the policy's after every so many
            hand-overs; 0: after the first alone.
        tolerance: largest |difference of log-probs| in that and in the parity check; by default
            that of the coarser dtype.

    Raises:
        ValueError: no url or not an http address, or a number out of range.
    """

    def __init__(
        self,
        urls: list[str],
        folder: str,
        concurrency: int = 64,
        seconds: float = 3600.0,
        verify_every: int = 0,
        tolerance: float | None = None,
    ) -> None:
        if not urls:
            raise ValueError("model.rollout.init_args.urls is empty; name one server at least")
        for name, value, least in (("concurrency", concurrency, 1), ("seconds", seconds, 1)):
            if value < least:
                raise ValueError(
                    f"model.rollout.init_args.{name} is {value}; it must be at least {least}"
                )
        self.clients = [VLLMClient(url=url.rstrip("/"), seconds=seconds) for url in urls]
        self.folder = Path(folder)
        self.concurrency = concurrency
        self.verify_every = verify_every
        self.tolerance = tolerance
        self.handed_over = 0  # how often weights were
        self._client = self.clients[0]
        self.served: Served | None = None  # by this rank's server
        self._weights = "default"  # servers' name for what they hold; this one: as started
        self._known: tuple[int, ...] | None = None  # fingerprint of the weights in the servers

    def connect(self, policy: Policy, strategy: Any) -> None:
        """Ask this rank's server what it serves, once; every rank has to call this.

        Raises:
            VLLMError: it is not there or not fit for this policy.
            RuntimeError: another rank's is not.
        """
        if self.served is None:
            self._client = self.clients[strategy.global_rank % len(self.clients)]
            with together(strategy):
                self.served = ask_served(self._client, policy)

    def ready(self, policy: Policy, strategy: Any) -> AbstractContextManager[None]:
        """Hand the weights over if they have changed; every rank has to call this.

        Raises:
            VLLMError: a server is not there or not fit, or its log-probs are not the policy's.
            RuntimeError: the weights could not be handed over.
        """
        self.connect(policy, strategy)
        assert self.served is not None
        own = fingerprint(policy)
        if largest_of_ranks(strategy, policy.device, own != self._known):
            self._known = None  # until it has gone well
            dtype = getattr(torch, self.served.dtype)
            number = self.handed_over + 1
            self._weights = hand_over(policy, strategy, self.clients, self.folder, number, dtype)
            self._known, self.handed_over = own, number
            if self._has_to_verify():
                self._verify(policy, strategy)
        return together(strategy)

    def __call__(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        """Draw ``sampling.group_size`` responses to every prompt of ``batch``.

        Raises:
            VLLMError: the server failed, or answered another prompt than it was asked.
            RuntimeError: called outside ``ready``.
        """
        if self.served is None:
            raise RuntimeError("VLLMEngine was called outside its ready(policy, strategy)")
        banned = policy.banned_V.nonzero().squeeze(-1).tolist()

        def draw(prompt: Prompt, inputs: PromptInputs) -> list[Drawn]:
            own_seed = prompt_seed(seed, prompt.index)
            return self._draw(policy, inputs, sampling, own_seed, banned, _name(prompt))

        pool = ThreadPoolExecutor(self.concurrency)
        try:
            groups = list(pool.map(draw, batch.prompts, batch.inputs))
        finally:
            pool.shutdown(cancel_futures=True)
        return _to_rollout(policy, sampling, [row for group in groups for row in group])

    def _draw(
        self,
        policy: Policy,
        inputs: PromptInputs,
        sampling: Sampling,
        seed: int,
        banned: Sequence[int],
        key: str,
    ) -> list[Drawn]:
        """The group of one prompt."""
        assert self.served is not None
        longest = len(inputs.input_ids_S) + sampling.max_new_tokens
        if longest > self.served.max_model_len:
            raise VLLMError(
                f"prompt {key} and {sampling.max_new_tokens} new tokens make {longest} tokens; the "
                f"server takes {self.served.max_model_len}. Start it with --max-model-len "
                f"{longest}, or lower data.max_prompt_tokens or sampling.max_new_tokens."
            )
        try:
            body = generate_body(
                inputs,
                sampling,
                seed,
                banned=banned,
                eos=policy.eos_ids,
                merge=policy.model.config.vision_config.spatial_merge_size,
                dtype=getattr(torch, self.served.dtype),
            )
            answer = self._client.post("/inference/v1/generate", body)
            drawn = read_answer(answer, body, self._weights)
            return drawn * (sampling.group_size // len(drawn))
        except (VLLMError, ValueError) as error:
            raise VLLMError(f"prompt {key}: {error}") from error

    def rounding(self, policy: Policy) -> float:
        """Largest difference of log-probs that the dtypes of server and policy explain."""
        assert self.served is not None
        return self.tolerance or max(TOLERANCE[compute_dtype(policy)], TOLERANCE[self.served.dtype])

    def _has_to_verify(self) -> bool:
        every = self.verify_every
        return self.handed_over == 1 or bool(every and self.handed_over % every == 0)

    def _verify(self, policy: Policy, strategy: Any) -> None:
        """Each rank compares its server with the policy on a fixed prompt."""
        assert self.served is not None
        with strategy.precision_plugin.forward_context():  # compute as an iteration does
            batch = probe_batch(policy)
            with together(strategy):
                drawn = self(policy, batch, PROBE, (0, 0))
            found = max(largest_gaps(policy, batch, drawn, PROBE.temperature))
            tolerance = self.rounding(policy)
        gap = largest_of_ranks(strategy, policy.device, found)
        if not gap <= tolerance:  # also catches NaN
            raise VLLMError(
                f"{self._client.url}: log-probs of a fixed prompt differ from the policy's by "
                f"{gap:.2e} (tolerance {tolerance:.0e}) after hand-over {self.handed_over}: the "
                "server does not compute with the policy's weights. Is it the vLLM version of "
                "docs/rollout.md, started by scripts/vllm_server.sh, for this run alone? In half "
                "precision both sides round: see model.rollout.init_args.tolerance."
            )
        rank_zero_info(
            f"vLLM {self.served.version} has the policy's weights: log-probs of a fixed prompt "
            f"differ by {gap:.1e} (tolerance {tolerance:.0e})"
        )


def _name(prompt: Prompt) -> str:
    """What messages call a prompt."""
    return prompt.key or f"number {prompt.index}"


def _to_rollout(policy: Policy, sampling: Sampling, rows: Sequence[Drawn]) -> Rollout:
    """Responses of all prompts, padded; the entropy is estimated from the log-probs."""
    shape, device = (len(rows), sampling.max_new_tokens), policy.device
    ids_BT = torch.full(shape, policy.pad_id)
    mask_BT = torch.zeros(shape, dtype=torch.bool)
    logp_BT = torch.zeros(shape, dtype=torch.float32)
    for b, row in enumerate(rows):
        length = len(row.ids)
        ids_BT[b, :length] = torch.tensor(row.ids)
        mask_BT[b, :length] = True
        logp_BT[b, :length] = torch.tensor(row.logp, dtype=torch.float32)
    found = (ids_BT.to(device), mask_BT.to(device), logp_BT.to(device))
    return to_rollout(policy, sampling.group_size, *found, -found[2])
