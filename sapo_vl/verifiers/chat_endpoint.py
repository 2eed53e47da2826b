"""A client for an OpenAI-compatible chat endpoint: one question, one text, or one clear error."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

MAX_BYTES = 1 << 20  # of an answer
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504}  # worth another attempt


class EndpointError(RuntimeError):
    """The endpoint gave no usable text; the message holds no key and nothing that it sent."""


@dataclass(frozen=True, kw_only=True)
class ChatEndpoint:
    """Where a judge lives and how long to wait for it.

    Args:
        model: name of the model as the endpoint knows it.
        base_url: up to ``/v1``; None: the environment's OPENAI_BASE_URL.
        key_variable: name of the environment variable that holds the key; unset: no key is sent.
        seconds: wall-clock limit of one attempt.
        attempts: how often to ask where the endpoint fails in passing (overload, time-out).
        pause: seconds before the second attempt; twice as long before each further one.
        max_tokens: of the answer.

    Raises:
        ValueError: a number out of range, or an address that is no http(s).
    """

    model: str
    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    seconds: float = 60.0
    attempts: int = 3
    pause: float = 1.0
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"base_url is {self.base_url!r}; it must begin with http:// or https://"
            )
        least = (("seconds", 0.001), ("attempts", 1), ("pause", 0), ("max_tokens", 1))
        for name, smallest in least:
            if not getattr(self, name) >= smallest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be {smallest} or more")

    def ask(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Send a conversation, at temperature 0, and return the text of the answer.

        Raises:
            EndpointError: no text came, after all attempts.
        """
        body = {
            "model": self.model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": self.max_tokens,
        }
        request = self._request(json.dumps(body).encode())
        why = ""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                with _OPENER.open(request, timeout=self.seconds) as answer:
                    return _text(answer.read(MAX_BYTES + 1))
            except urllib.error.HTTPError as error:
                # Its body may quote the key, so it is not shown.
                why = f"status {error.code}"
                error.close()
                if error.code not in _PASSING:
                    break
            except (OSError, http.client.HTTPException) as error:
                why = type(getattr(error, "reason", None) or error).__name__
        raise EndpointError(f"the endpoint of {self.model} failed: {why} (attempts: {attempt + 1})")

    def _request(self, body: bytes) -> urllib.request.Request:
        base = self.base_url or os.environ.get("OPENAI_BASE_URL", "")
        if not base.startswith(("http://", "https://")):
            raise EndpointError("no address: set base_url, or OPENAI_BASE_URL in the environment")
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return urllib.request.Request(f"{base.rstrip('/')}/chat/completions", body, headers)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    @override
    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise EndpointError(f"the endpoint's answer is longer than {MAX_BYTES} bytes")
    try:
        message = json.loads(data)["choices"][0]["message"]
        refusal, text = message.get("refusal"), message.get("content")
    # RecursionError: thousands of nested brackets.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise EndpointError("the endpoint's answer is no chat completion") from None
    if refusal or not isinstance(text, str) or not text.strip():
        raise EndpointError("the model behind the endpoint refused, or said nothing")
    return text
