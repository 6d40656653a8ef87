"""A small HTTP server that answers as the services would, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

API = "/api/v1/"


@dataclass
class FakeServices:
    """`answers`: path without the API's prefix -> (HTTP status, body), or a function of the request's arguments."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def says(self, path: str, data: Any = None, *, message: str = "", success: bool = True, status: int = 200) -> None:
        """An envelope for this path."""
        self.answers[path] = (status, {"success": success, "message": message, "data": data})

    def asked(self, path: str) -> list[dict[str, Any]]:
        """The arguments of every request for this path."""
        return [arguments for _, found, arguments in self.requests if found == path]


@contextmanager
def fake_services() -> Iterator[FakeServices]:
    fake = FakeServices()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            path = parts.path.removeprefix(API)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_form = "form" in (self.headers.get("Content-Type") or "")
            sent = dict(parse_qsl(body.decode())) if is_form else json.loads(body) if body else {}
            arguments: dict[str, Any] = dict(parse_qsl(parts.query)) | sent
            fake.requests.append((self.command, path, arguments))
            fake.headers.append(dict(self.headers))
            found = fake.answers.get(path, (404, {"success": False, "message": f"no such path {path}", "data": None}))
            status, content = found(arguments) if callable(found) else found
            text = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
