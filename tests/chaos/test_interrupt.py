"""Ctrl-C stops everything that the demonstration started, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.local.processes import ProcessIdentity, is_alive
from deploy.local.system import LocalSystem
from tests.chaos.conftest import DIRECTORY, ROOT

pytestmark = pytest.mark.chaos


def processes_of(directory: Path) -> list[str]:
    """Command lines of whatever runs in or for this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(directory).encode() in text and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("when", "number", "code"),
    [
        pytest.param("at work", signal.SIGINT, 130, marks=pytest.mark.drawn(0, 2)),
        pytest.param("starting rabbitmq", signal.SIGINT, 130, marks=pytest.mark.drawn(1, 2)),
    ],
)
def test_an_interrupted_demonstration_leaves_nothing_running_and_touches_nothing_else(
    system: LocalSystem, when: str, number: signal.Signals, code: int
) -> None:
    directory = DIRECTORY / "interrupted"
    others = [ProcessIdentity.from_dict(entry["process"]) for entry in system.record["processes"]]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
    command = [sys.executable, "-m", "services.cli", "demo", "--profile", "small", "--plain"]
    command += ["--directory", str(directory), "--volatile"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if when in line:
                break
        demo.send_signal(number)
        demo.stdout.read()
        assert demo.wait(60) == code
    record = json.loads((directory / "run.json").read_text())
    assert record["state"] in ("stopped", "failed")
    deadline = time.monotonic() + 10
    while (left := processes_of(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert all(is_alive(identity) for identity in others), "the other system goes on"
