"""A load generator that costs little itself: kept-alive connections, requests as ready bytes, replies barely parsed.

Run as a process of its own: `python -m tests.performance.http_load HOST PORT SECONDS FILE`, where FILE holds one JSON
list of [path, headers, body] per connection; prints one JSON line with counts and latencies.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvloop


class Connection(asyncio.Protocol):
    """One request after the other until the end."""

    def __init__(self, request: bytes, wanted: bytes, load: Load) -> None:
        self._request = request
        self._wanted = wanted
        self._load = load
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is not a subclass
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_at = time.perf_counter()
        if self._sent_at >= self._load.ends_at:
            self._transport.close()
            return
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length_at = self._received.lower().find(b"content-length:", 0, head)
        length = int(self._received[length_at + 15 : self._received.find(b"\r\n", length_at)])
        if len(self._received) < head + 4 + length:
            return
        self._load.latencies.append(time.perf_counter() - self._sent_at)
        self._load.n_wanted += self._wanted in self._received
        self._received = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.n_open -= 1
        if self._load.n_open == 0:
            self._load.done.set()


class Load:
    """What all connections share."""

    def __init__(self, seconds: float, n_connections: int) -> None:
        self.latencies: list[float] = []
        self.n_wanted = 0
        self.n_open = n_connections
        self.ends_at = time.perf_counter() + seconds
        self.done = asyncio.Event()


def request_bytes(host: str, path: str, headers: dict[str, str], body: str) -> bytes:
    """One HTTP/1.1 request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body.encode())}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


async def run(host: str, port: int, seconds: float, requests: list[Any]) -> dict[str, Any]:
    """Requests per second, the part of them whose reply held the text `wanted`, and latencies in seconds."""
    load = Load(seconds, len(requests))
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    for path, headers, body, wanted in requests:
        content = request_bytes(host, path, headers, body)
        await loop.create_connection(lambda c=content, w=wanted: Connection(c, w.encode(), load), host, port)
    await asyncio.wait_for(load.done.wait(), seconds + 60)
    elapsed = time.perf_counter() - started
    ordered = sorted(load.latencies)
    return {
        "per_s": len(ordered) / elapsed,
        "wanted": load.n_wanted,
        "requests": len(ordered),
        "p50_s": ordered[len(ordered) // 2],
        "p99_s": ordered[int(len(ordered) * 0.99)],
    }


if __name__ == "__main__":
    _host, _port, _seconds, _file = sys.argv[1:5]
    _requests = json.loads(Path(_file).read_text(encoding="utf-8"))
    print(json.dumps(uvloop.run(run(_host, int(_port), float(_seconds), _requests))))
