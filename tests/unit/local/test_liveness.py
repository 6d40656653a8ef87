"""A process is silent if it answered before and does not any more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local import guard
from deploy.local.liveness import SILENT_AFTER_S, Liveness
from deploy.local.ports import free_port

SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
class Live(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        Path(sys.argv[2]).write_text(str(os.getpid()))
HTTPServer(("127.0.0.1", int(sys.argv[1])), Live).serve_forever()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Accepts calls, answers nothing by itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def answer(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        assert connection.recv(100).startswith(b"GET /livez ")
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nok\n")


def look_until(liveness: Liveness, now: float, condition: Callable[[], bool]) -> None:
    """The kernel may take a moment to carry a few bytes."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        liveness.look(now)


def test_who_answered_once_and_never_again_is_silent_after_a_while(listener: socket.socket) -> None:
    liveness = Liveness(listener.getsockname()[1])
    liveness.look(100.0)
    answer(listener)
    look_until(liveness, 100.5, lambda: liveness.silent_s(101.0) == 0.5)
    now = 101.5
    while now < 100.5 + SILENT_AFTER_S:
        liveness.look(now)
        assert not liveness.is_silent(now)
        now += 1.0
    liveness.look(109.0)
    assert liveness.is_silent(109.0)
    answer(listener)  # a late answer to the question that is still open
    look_until(liveness, 109.2, lambda: not liveness.is_silent(109.2))


def test_who_is_still_starting_is_not_silent() -> None:
    liveness = Liveness(free_port())
    for now in range(100, 200):
        liveness.look(float(now))
        assert not liveness.is_silent(float(now))


def test_the_time_in_which_nobody_looked_is_nobodys_silence(listener: socket.socket) -> None:
    liveness = Liveness(listener.getsockname()[1])
    liveness.look(100.0)
    answer(listener)
    look_until(liveness, 100.2, lambda: liveness.silent_s(100.2) == 0.0)
    liveness.look(4000.0)
    assert not liveness.is_silent(4000.0), "the machine slept"


def test_a_guarded_service_that_was_stopped_is_ended(tmp_path: Path) -> None:
    port, program, answered = free_port(), tmp_path / "server.py", tmp_path / "answered"
    program.write_text(SERVER)
    environment = os.environ | {"ORRERY_HTTP_PORT": str(port)}
    command = [sys.executable, "-m", "deploy.local.guard", str(program), str(port), str(answered)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as guarding:
        _wait(lambda: answered.exists() and answered.read_text() != "")
        pid = int(answered.read_text())
        os.kill(pid, signal.SIGSTOP)
        _, said = guarding.communicate(timeout=60)
    assert guarding.returncode == guard.EXIT_SILENT
    assert "no answer on /livez" in said
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("program", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_a_guarded_service_that_ends_by_itself_keeps_its_exit_code(program: str, code: int) -> None:
    command = [sys.executable, "-m", "deploy.local.guard", "-c", program]
    assert subprocess.run(command, check=False).returncode == code


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
