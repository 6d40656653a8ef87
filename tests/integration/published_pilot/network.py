"""What the pilot may reach: nothing but this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Outside:
    """Stands for all that is not this machine: a proxy that has some pages and refuses the rest; `asked` keeps it."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self.asked: list[str] = []
        outside = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outside.asked.append(self.path)
                body = pages.get(self.path)
                self.send_response(403 if body is None else 200)
                self.end_headers()
                self.wfile.write(body or b"")

            do_POST = do_CONNECT = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)

    @property
    def environment(self) -> dict[str, str]:
        """Sends whatever is asked of other machines here."""
        here = f"http://127.0.0.1:{self._server.server_address[1]}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return dict.fromkeys(names, here) | dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")

    @contextmanager
    def running(self) -> Iterator[Outside]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)
