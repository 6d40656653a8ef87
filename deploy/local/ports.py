"""Free loopback ports for private servers and services.

They are taken below the range that the kernel hands to outgoing connections: a server that is restarted must find its
own port free again, and not given away to some client in between. Standard ports lie outside the range and are never
used.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from deploy.local.errors import LocalError

LOOPBACK = "127.0.0.1"
FIRST_PORT = 20_000
LAST_PORT = 32_000
RESERVED_PORTS = frozenset({25_672})  # RabbitMQ's standard distribution port is the one that lies inside the range


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(*, preferred: int | None = None, taken: set[int] | None = None) -> int:
    """A free port: the preferred one, else a random one, so that two clones rarely try the same."""
    taken = set() if taken is None else taken
    if preferred and preferred not in taken and is_free(preferred):
        taken.add(preferred)
        return preferred
    last = min(LAST_PORT, _first_outgoing_port() - 1)
    candidates = [port for port in range(FIRST_PORT, max(last, FIRST_PORT + 2_000)) if port not in RESERVED_PORTS]
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        if port not in taken and is_free(port):
            taken.add(port)
            return port
    raise LocalError(f"no free port between {FIRST_PORT} and {last} on {LOOPBACK}")


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return LAST_PORT + 1
