"""The console as a process of its own: without database and bus it is ready, shows pages and stops in good order."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = "http://127.0.0.1:9"


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ORRERY_")}
    return inherited | {"PYTHONPATH": str(ROOT), "ORRERY_API_URL": NOWHERE, "ORRERY_HTTP_PORT": "0", **variables}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "services.console"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"listens on (http://\S+)", line):
            return found[1]
    raise AssertionError("it ended")


def test_it_is_ready_without_any_server_and_says_who_is_away(process: subprocess.Popen[str]) -> None:
    with httpx.Client(base_url=address_of(process), trust_env=False, timeout=30) as client:
        assert client.get("/livez").text == "ok\n"
        assert client.get("/readyz").json() == {"ready": True, "problems": []}
        assert "process_cpu_seconds_total" in client.get("/metrics").text
        page = client.get("/console/sign-in")
        (word,) = re.findall(r'name="form" value="([^"]*)"', page.text)
        answer = client.post("/console/sign-in", data={"form": word, "token": "a.b.c"})
        assert answer.status_code == 403 and "/system/get_attributes cannot be asked: ConnectError" in answer.text
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("variables", "code", "told"),
    [
        ({"ORRERY_API_URL": "gateway:8080"}, 2, "ORRERY_API_URL='gateway:8080': Value error, must start with http"),
        ({"ORRERY_CONSOLE_KEY_FILE": "/nowhere/keys"}, 2, "ORRERY_CONSOLE_KEY_FILE=/nowhere/keys: No such file"),
        ({"ORRERY_HTTP_PORT": "taken"}, 3, "cannot listen on 127.0.0.1"),
    ],
)
def test_a_wrong_setting_and_a_port_that_is_taken_end_it_with_the_codes_of_every_service(
    variables: dict[str, str], code: int, told: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        given = {name: port if value == "taken" else value for name, value in variables.items()}
        command = [sys.executable, "-m", "services.console"]
        ended = subprocess.run(
            command, env=environment(**given), capture_output=True, text=True, check=False, timeout=60
        )
    assert ended.returncode == code and told in ended.stderr, ended.stderr
