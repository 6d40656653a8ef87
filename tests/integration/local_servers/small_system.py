"""Tiny services in place of the eight and of the gateway, run by the real supervisor: a program for the tests beside.

Arguments are those of `python -m deploy.local supervise`. `steady` answers `/readyz`; `reluctant` exits at its first
two starts.
"""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from deploy.local import services
from deploy.local.__main__ import main


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def _serve(name: str) -> None:
    starts = Path(os.environ["ORRERY_TOKEN_KEY_FILE"]).with_name(f"{name}.starts")
    count = int(starts.read_text()) + 1 if starts.exists() else 1
    starts.write_text(str(count))
    if name == "reluctant" and count < 3:
        sys.exit(3)
    HTTPServer(("127.0.0.1", int(os.environ["ORRERY_HTTP_PORT"])), _Ready).serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2])
    else:
        services.SERVICES = ("steady", "reluctant")  # type: ignore[assignment]
        services.Copy.command = lambda copy: [sys.executable, __file__, "serve", copy.service]  # type: ignore[method-assign]
        sys.exit(main(sys.argv[1:]))
