"""Loads an HTTP server from a process that costs little itself: written in C where there is a compiler, else in Python.

`run(port, seconds, requests)`: one kept-alive connection per request, which is sent again and again until the time is
over; with 0 seconds once. As a program: `python -m tests.performance.http_load HOST PORT SECONDS FILE`, the program in
C in Python, for the first of the two.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_suffix(".c")
HOST = "127.0.0.1"
#: what is not answered by then is lost; the program in C has the same
LONGEST_ANSWER_S = 180


@dataclass(frozen=True)
class LoadRequest:
    """What one connection sends, and a text that stands in the replies that are wanted."""

    content: bytes
    wanted: bytes


def post(path: str, headers: dict[str, str], body: str, wanted: str) -> LoadRequest:
    """A POST over HTTP/1.1."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(body.encode())}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return LoadRequest(("\r\n".join(lines) + "\r\n\r\n" + body).encode(), wanted.encode())


def run(port: int, seconds: float, requests: Sequence[LoadRequest]) -> dict[str, Any]:
    """Counts, latencies in seconds and the processor time of the generator."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests"
        with file.open("wb") as out:
            for one in requests:
                out.write(b"%d %d\n%s%s" % (len(one.wanted), len(one.content), one.wanted, one.content))
        command = [*generator(), HOST, str(port), str(seconds), str(file)]
        result = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(result.stdout))


def generator() -> list[str]:
    """The command of the generator in C, compiled once per version of its text, or of the one in Python."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return [sys.executable, "-m", "tests.performance.http_load"]
    folder = ROOT / ".local" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"http_load_{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE)], check=True)
    return [str(program)]


class Connection(asyncio.Protocol):
    """One request after the other until the end."""

    def __init__(self, request: LoadRequest, load: Load) -> None:
        self._request = request
        self._load = load
        self._received = b""
        self._sent_at = 0.0
        self._is_answered = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is not a subclass
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_at = time.perf_counter()
        self._is_answered = self._sent_at >= self._load.ends_at and self._load.seconds > 0
        if self._is_answered:
            self._transport.close()
            return
        self._transport.write(self._request.content)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length_at = self._received.lower().find(b"content-length:", 0, head)
        length = int(self._received[length_at + 15 : self._received.find(b"\r\n", length_at)])
        if len(self._received) < head + 4 + length:
            return
        self._load.answered(self._received, self._request.wanted, time.perf_counter() - self._sent_at)
        self._received = b""
        if self._load.seconds > 0:
            self._send()
            return
        assert self._transport is not None
        self._is_answered = True
        self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.ended(is_lost=not self._is_answered)


class Load:
    """What all connections share."""

    def __init__(self, seconds: float, n_connections: int) -> None:
        self.seconds = seconds
        self.latencies: list[float] = []
        self.n_wanted = self.n_lost = 0
        self.n_of_status: Counter[str] = Counter()
        self.n_open = n_connections
        self.ends_at = time.perf_counter() + seconds
        self.done = asyncio.Event()

    def answered(self, reply: bytes, wanted: bytes, latency_s: float) -> None:
        self.latencies.append(latency_s)
        self.n_wanted += wanted in reply
        self.n_of_status[reply.split(b" ", 2)[1].decode()] += 1

    def ended(self, *, is_lost: bool) -> None:
        self.n_lost += is_lost
        self.n_open -= 1
        if self.n_open == 0:
            self.done.set()


async def _run_here(host: str, port: int, seconds: float, requests: list[LoadRequest]) -> dict[str, Any]:
    load = Load(seconds, len(requests))
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    for one in requests:
        try:
            await loop.create_connection(lambda one=one: Connection(one, load), host, port)
        except OSError:
            load.ended(is_lost=True)
    await asyncio.wait_for(load.done.wait(), seconds + LONGEST_ANSWER_S)
    elapsed = time.perf_counter() - started
    ordered = sorted(load.latencies) or [0.0]
    return {
        "requests": len(load.latencies),
        "wanted": load.n_wanted,
        "ok": load.n_of_status["200"],
        "later": load.n_of_status["503"],
        "lost": load.n_lost,
        "seconds": elapsed,
        "cpu_s": time.process_time(),
        "per_s": len(load.latencies) / elapsed,
        "p50_s": ordered[len(ordered) // 2],
        "p99_s": ordered[int(len(ordered) * 0.99)],
        "longest_s": ordered[-1],
        "statuses": dict(sorted(load.n_of_status.items())),
    }


def _read(path: Path) -> list[LoadRequest]:
    found, content, at = [], path.read_bytes(), 0
    while at < len(content):
        end = content.index(b"\n", at)
        n_wanted, n_request = (int(part) for part in content[at:end].split())
        middle = end + 1 + n_wanted
        found.append(LoadRequest(content[middle : middle + n_request], content[end + 1 : middle]))
        at = middle + n_request
    return found


if __name__ == "__main__":
    _host, _port, _seconds, _file = sys.argv[1:5]
    print(json.dumps(uvloop.run(_run_here(_host, int(_port), float(_seconds), _read(Path(_file))))))
