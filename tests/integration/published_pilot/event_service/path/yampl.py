"""Stands for yampl, in whose messages the pilot and AthenaMP speak of ranges of events: what both use of it.

A message is a packet of a Unix socket with an abstract name, which nothing has to remove; HOME is part of the name,
because pilots have PID namespaces of their own, and the pilot names its channel by its process.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress

LARGEST_BYTES = 100_000
WAIT_S = 20.0


def _address(name: str) -> str:
    return "\0" + hashlib.sha256(f"{os.environ['HOME']}:{name}".encode()).hexdigest()


class ServerSocket:
    """The pilot's end; one payload speaks to it."""

    def __init__(self, name: str, context: str) -> None:
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.bind(_address(name))
        self._server.listen(1)
        self._server.setblocking(False)
        self._payload: socket.socket | None = None

    def send_raw(self, message: bytes) -> None:
        """Send a message; nobody hears it before the payload came and after it left."""
        if self._payload is not None:
            with suppress(OSError):
                self._payload.send(message)

    def try_recv_raw(self) -> tuple[int, bytes]:
        """Read a message and its size; -1 where there is none."""
        with suppress(BlockingIOError, ConnectionError):
            if self._payload is None:
                self._payload = self._server.accept()[0]
                self._payload.setblocking(False)
            message = self._payload.recv(LARGEST_BYTES)
            if message:
                return len(message), message
        return -1, b""


class ClientSocket:
    """The payload's end."""

    def __init__(self, name: str, context: str) -> None:
        self._pilot = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pilot.settimeout(WAIT_S)
        self._pilot.connect(_address(name))

    def send_raw(self, message: bytes) -> None:
        self._pilot.send(message)

    def recv_raw(self) -> tuple[int, bytes]:
        """Wait for a message."""
        message = self._pilot.recv(LARGEST_BYTES)
        return len(message), message
