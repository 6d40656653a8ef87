"""Every verb against a service that hangs up: one line that says which service broke off, and exit code 3."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from services.cli.addresses import SERVICES, variable_of
from services.cli.failures import Unreachable

VERBS = (
    ("tasks",), ("task", "1"), ("jobs",), ("kill", "1"), ("finish", "1"), ("retry", "1"), ("pause", "1"),
    ("resume", "1"), ("kill-job", "1"), ("explain", "task", "1"), ("explain", "job", "1"), ("config", "list"),
    ("config", "get", "a.B"), ("config", "set", "a.B", "1"), ("config", "unset", "a.B"), ("check",), ("queues",),
    ("shares",), ("bus", "parked"), ("catalogue", "show", "d"), ("snapshot", "save", "world.json"),
)  # fmt: skip


@pytest.fixture
def hangs_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Services that close each connection as soon as something was sent."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    for service in SERVICES:
        monkeypatch.setenv(variable_of(service), f"http://127.0.0.1:{listening.getsockname()[1]}")
    monkeypatch.setenv("ORRERY_TOKEN", "a-token")
    yield
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_service_that_hangs_up_is_named_in_one_line(hangs_up, orrery, monkeypatch, tmp_path, verb) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = orrery(*verb)
    assert outcome.code == Unreachable.exit_code
    assert "broke off" in outcome.err and "Traceback" not in outcome.err and len(outcome.err.splitlines()) == 1
