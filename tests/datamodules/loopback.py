"""A web server on this machine for the tests of remote shards."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Server(http.server.BaseHTTPRequestHandler):
    """Files of one folder; a few names misbehave."""

    folder: Path
    asked: list[str]

    def do_GET(self):
        with self.server.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        try:
            self.answer()
        finally:
            with self.server.lock:
                self.server.now -= 1

    def answer(self):
        self.asked.append(self.path)
        name = self.path.lstrip("/").partition("?")[0]
        file = self.folder / name
        if not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        if self.headers.get("Authorization"):
            assert self.headers["Authorization"].startswith("Basic ")
        self.send_response(200)
        if "silent" not in name and "unsized" not in name:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if "silent" in name:
            self.wfile.flush()
            threading.Event().wait(3)
        if "slow" in name:
            threading.Event().wait(0.2)
        flaky = re.match(r"flaky-(\d+)", name)  # breaks so many times
        cut = "cut" in name or (flaky and self.asked.count(self.path) <= int(flaky[1]))
        self.wfile.write(body[: len(body) // 2] if cut else body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """A running server: its url, its folder and the paths it was asked for."""
    folder.mkdir()
    handler = type("Own", (Server,), {"folder": folder, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        server.folder, server.asked = folder, handler.asked
        server.now, server.most, server.lock = 0, 0, threading.Lock()  # requests at a time
        yield server
        server.shutdown()
