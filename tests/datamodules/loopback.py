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
    """Files of one folder; a few names misbehave.

    Names with "ranged" are sent in parts, if asked for, and have the next of ``versions`` as the
    header field that tells the file's version.
    """

    folder: Path
    asked: list[str]
    versions: list[tuple[str, str]]
    sent: list[tuple[int, int, int]]  # status, first byte and bytes of each answer

    def do_GET(self):
        with self.server.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        try:
            self.answer()
        finally:
            with self.server.lock:
                self.server.now -= 1

    def do_CONNECT(self):
        """A proxy's tunnel, to this server itself."""
        self.send_response(200, "Connection established")
        self.end_headers()
        self.handle_one_request()
        self.close_connection = True

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
        status, start = 200, 0
        if "ranged" in name:
            field, version = self.versions.pop(0)
            if version == self.headers.get("If-Range", ""):
                status, start = 206, int(self.headers["Range"][len("bytes=") : -1])
        if "empty" in name:
            status = 204
        self.send_response(status)
        if "ranged" in name:
            self.send_header(field, version)
        if status == 206:
            shown = 0 if "wrong" in name else start
            self.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
            body = body[start:]
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
        body = body[: len(body) // 2] if cut else body
        self.sent.append((status, start, len(body)))
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """A running server: its url, its folder and the paths it was asked for."""
    folder.mkdir()
    handler = type("Own", (Server,), {"folder": folder, "asked": [], "versions": [], "sent": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        server.folder, server.asked = folder, handler.asked
        server.versions, server.sent = handler.versions, handler.sent
        server.now, server.most, server.lock = 0, 0, threading.Lock()  # requests at a time
        yield server
        server.shutdown()
