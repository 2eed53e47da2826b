"""Talk to a vLLM server over HTTP: an answer, or an error that says what to do."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_PASSING = {429, 502, 503, 504}  # worth another attempt
_CONNECT = 10.0  # seconds
_START = "Start it with scripts/vllm_server.sh (docs/rollout.md); what it lacks is {}."
# Status of a missing or closed route -> what the server was started without.
_HINTS = {
    ("/collective_rpc", 404): "the environment variable VLLM_SERVER_DEV_MODE=1",
    ("/update_weight_version", 404): "vLLM 0.32 or later",
    ("/inference/v1/generate", 403): "--enable-scale-out",
    ("/inference/v1/generate", 404): "--enable-scale-out (vLLM 0.32 or later)",
}


class VLLMError(RuntimeError):
    """The server gave no usable answer; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class VLLMClient:
    """One server.

    Args:
        url: as in ``http://host:8000``.
        seconds: longest wait for an answer, in which a whole batch may stand in the server's queue.
        attempts: how often to ask where it fails in passing (connection, overload).
        pause: seconds before the second attempt; twice as long before each further one.
        key_variable: name of the environment variable with the server's ``--api-key``, if any.

    Raises:
        ValueError: not an http address.
    """

    url: str
    seconds: float = 3600.0
    attempts: int = 3
    pause: float = 1.0
    key_variable: str = "VLLM_API_KEY"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(
                f"model.rollout urls: {self.url!r} is not of the form http://host:8000"
            )

    def get(self, path: str) -> Any:
        """Ask for a page, in JSON.

        Raises:
            VLLMError: see ``post``.
        """
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send JSON; returns what comes back, None for an empty answer.

        Raises:
            VLLMError: not reachable, no such route, refused, too late, or no JSON.
        """
        return self._ask("POST", path, body or {})

    def call_workers(self, method: str, *args: str) -> Any:
        """Result of a method of the worker extension, from the first worker.

        Raises:
            VLLMError: see ``post``; the method is missing or failed.
        """
        try:
            answer = self.post("/collective_rpc", {"method": method, "args": list(args)})
        except VLLMError as error:
            if f"has no attribute '{method}'" in str(error):
                raise VLLMError(
                    f"{self.url}: its workers have no method {method}. "
                    + _START.format("--worker-extension-cls sapo_vl_worker.PolicyWorker")
                ) from None
            raise
        return answer["results"][0]

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        why = ""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                status, answer = self._once(method, path, data)
            except TimeoutError:
                raise VLLMError(
                    f"{self.url}{path}: no answer within {self.seconds:g} s. If the server is "
                    "alive (its log says how many requests run and wait), raise "
                    "model.rollout.init_args.seconds, or send it less: fewer prompts, more servers."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}"
                continue
            if status == 200:
                return self._parsed(path, answer)
            if status not in _PASSING:
                raise VLLMError(self._refused(path, status, answer))
            why = f"status {status}: {_message(answer)}"
        raise VLLMError(
            f"{self.url}{path} failed {self.attempts} times, last by {why}. Is the server running, "
            "and reachable from this host? If it ended, its log says why; start it again with "
            "scripts/vllm_server.sh and let the run go on from its last checkpoint."
        )

    def _once(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.key_variable):
            headers["Authorization"] = f"Bearer {key}"
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_CONNECT)
        try:
            try:
                connection.connect()
            except TimeoutError as error:  # not that of a slow answer
                raise ConnectionError(f"no connection within {_CONNECT:g} s") from error
            connection.sock.settimeout(self.seconds)
            connection.request(method, parts.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _parsed(self, path: str, answer: bytes) -> Any:
        if not answer:
            return None
        try:
            return json.loads(answer)
        except ValueError:
            raise VLLMError(
                f"{self.url}{path} answered with something else than JSON: {answer[:80]!r}. "
                "Is this vLLM's server?"
            ) from None

    def _refused(self, path: str, status: int, answer: bytes) -> str:
        message = f"{self.url}{path} answered with status {status}: {_message(answer)}"
        hint = _HINTS.get((path, status))
        if hint is not None:
            return f"{message} {_START.format(hint)}"
        # After a dead engine's first error vLLM's server ends by itself.
        return f"{message} Has its engine died? Its log says why." if status == 500 else message


def _message(answer: bytes) -> str:
    """What vLLM says of an error; a piece of whatever came, if it is in another form."""
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return answer[:500].decode(errors="replace")
