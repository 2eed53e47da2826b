"""An HTTP server that speaks as vLLM 0.32 does, over a policy of its own in place of vLLM's model.

It reads prompts and pixels out of the requests and draws with the in-process sampler, so that what
comes back is only right if what was sent was right; it loads weights from the folder it is told.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgpack
import torch

from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.loading import load_base
from sapo_vl.rollout import Sampler
from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Sampling

# As POST /collective_rpc brought it from a real server, but for the model's numbers.
DESCRIBED = {
    "version": "0.32.0",
    "dtype": "float32",
    "logprobs_mode": "processed_logprobs",
    "device_normalize": False,
    "max_model_len": 512,
    "max_num_seqs": 16,
}
DISABLED = (
    "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
)


_LOADING = threading.Lock()  # transformers cannot load in two threads at a time


@dataclass
class Stub:
    """What the server holds, was asked, and gets wrong on purpose."""

    policy: Policy
    url: str = ""
    described: dict[str, Any] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)  # of /inference/v1/generate
    calls: list[str] = field(default_factory=list)  # every path, workers' methods by name
    folders: list[str] = field(default_factory=list)  # that were loaded
    refusals: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)  # by path, one a call
    change: dict[str, Any] = field(default_factory=dict)  # fields of the answers to overwrite
    weights: str = "default"
    deaf: bool = False  # acknowledges weights without loading them
    delay: float = 0.0  # seconds before an answer
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self) -> None:
        """Forget everything but the weights."""
        fresh = Stub(self.policy, described=DESCRIBED | shape_of(self.policy))
        for name in ("described", "bodies", "calls", "folders", "refusals", "change", "weights"):
            setattr(self, name, getattr(fresh, name))
        self.deaf, self.delay = False, 0.0

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and JSON."""
        with self.lock:
            self.calls.append(body.get("method", path))
            if self.refusals.get(path):
                return self.refusals[path].pop(0)
            if path == "/collective_rpc":
                return self._call_workers(body["method"], body["args"])
            if path == "/inference/v1/generate":
                self.bodies.append(body)
                if not body["sampling_params"]["temperature"] and body["sampling_params"]["n"] > 1:
                    return 400, {"error": {"message": "n must be 1 when using greedy sampling"}}
                return 200, self._generate(body) | self.change
            if path == "/update_weight_version":
                self.weights = body["new_version"]
                return 200, {"success": True}
            if path == "/reset_prefix_cache":
                return 200, {"success": True}
            return (200, None) if path.startswith("/reset_") else (404, {"detail": "Not Found"})

    def _call_workers(self, method: str, args: list[str]) -> tuple[int, Any]:
        if method == "describe_policy":
            return 200, {"results": [self.described]}
        if not self.deaf:
            with _LOADING:
                loaded = load_base(PolicyConfig(path=args[0]))
            self.policy.model.load_state_dict(loaded.state_dict())
        self.folders.append(args[0])
        return 200, {"results": [None]}

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = body["sampling_params"]
        self.policy.eos_ids = tuple(asked["stop_token_ids"])
        sampling = Sampling(
            group_size=asked["n"],
            temperature=asked["temperature"],
            max_new_tokens=asked["max_tokens"],
        )
        batch = PromptBatch([Prompt(reference="")], [read_inputs(self.policy, body)], [])
        drawn = Sampler()(self.policy, batch, sampling, (asked["seed"],))
        choices = []
        for i, mask in enumerate(drawn.mask_BT):
            ids, logp = drawn.response_ids_BT[i, mask].tolist(), drawn.logp_BT[i, mask].tolist()
            content = [
                {"token_id": t, "logprob": x, "rank": 1, "top_logprobs": []}
                for t, x in zip(ids, logp, strict=True)
            ]
            reason = "stop" if drawn.finished_B[i] else "length"
            choices.append(
                {"index": i, "logprobs": {"content": content}, "finish_reason": reason}
                | {"token_ids": ids, "weight_versions": [{"version": self.weights}]}
            )
        choices.reverse()  # the index says which is which
        return {"request_id": "0", "choices": choices, "prompt_token_ids": body["token_ids"]}


def read_inputs(policy: Policy, body: dict[str, Any]) -> PromptInputs:
    """A request's prompt, as the trainer has it: the way back from what vLLM is sent."""
    ids = torch.tensor(body["token_ids"])
    kinds = torch.zeros_like(ids)
    config = policy.model.config
    media: dict[str, list[torch.Tensor]] = {}
    features = body.get("features") or {"kwargs_data": {}}
    for modality, token in (("image", config.image_token_id), ("video", config.video_token_id)):
        for place, data in zip(
            features.get("mm_placeholders", {}).get(modality, []),
            features["kwargs_data"].get(modality, []),
            strict=True,
        ):
            part = slice(place["offset"], place["offset"] + place["length"])
            assert (ids[part] == token).all()
            kinds[part] = 1 if modality == "image" else 2
            for name, value in msgpack.unpackb(base64.b64decode(data)).items():
                dtype, shape, raw = value["data"]
                flat = torch.frombuffer(bytearray(raw.data), dtype=getattr(torch, dtype))
                media.setdefault(name, []).append(flat.view(shape))
    joined = {
        name: torch.cat(parts) if name.startswith("pixel_values") else torch.stack(parts)
        for name, parts in media.items()
    }
    return PromptInputs(input_ids_S=ids, mm_token_type_ids_S=kinds, media=joined)


def shape_of(policy: Policy) -> dict[str, Any]:
    """What the worker extension says of a model."""
    text = policy.model.config.text_config
    shape = {k: getattr(text, k) for k in ("hidden_size", "num_hidden_layers", "vocab_size")}
    return shape | {"model_type": policy.model.config.model_type}


@contextmanager
def serving_stub(folder: Path) -> Iterator[Stub]:
    """A server over the model of ``folder``."""
    policy = Policy(PolicyConfig(path=str(folder)))
    stub = Stub(policy, described=DESCRIBED | shape_of(policy))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = stub.answer(self.path, body)
            time.sleep(stub.delay)
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(BrokenPipeError):  # it waited long enough
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
