"""`make status` and `make up` of a recorded system: servers and process ids, and a reader that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import __main__ as program
from deploy.local import processes
from deploy.local.__main__ import main
from deploy.local.records import write_record
from deploy.local.servers import RECORD as SERVERS
from deploy.local.services import RECORD as RUN
from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem

PROJECT = Path(__file__).parents[3]
GONE = {"pid": 2**22 - 1, "started_ticks": 1, "boot_id": "another"}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A system whose supervisor and PostgreSQL are this process; its RabbitMQ has ended, its Redis was named."""
    alive = processes.identify(os.getpid())
    assert alive is not None
    urls = {
        "ORRERY_DATABASE_URL": "postgresql://orrery:secret@127.0.0.1:5432/orrery",
        "ORRERY_RABBITMQ_URL": "amqp://127.0.0.1:5672/",
        "ORRERY_REDIS_URL": "redis://elsewhere:6379/0",
    }
    write_record(tmp_path / RUN, tmp_path, {"state": "ready", "supervisor": alive.as_dict(), "servers": urls})
    record = {"postgresql": {"process": alive.as_dict()}, "rabbitmq": {"process": GONE},
              "named": {"ORRERY_REDIS_URL": "redis://elsewhere:6379/0"}}  # fmt: skip
    write_record(tmp_path / SERVERS, tmp_path, record)
    return tmp_path


def test_status_shows_each_server_with_its_process_id(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--directory", str(recorded)]) == 0
    shown = {line.split()[0]: line.split()[1:4] for line in capsys.readouterr().out.splitlines()[1:]}
    me = str(os.getpid())
    assert shown == {
        "supervisor": ["running", "pid", me], "postgresql": ["running", "pid", me], "rabbitmq": ["down", "pid", "-"],
        "redis": ["named", "pid", "-"],
    }  # fmt: skip
    assert main(["status", "--json", "--directory", str(recorded)]) == 0
    assert json.loads(capsys.readouterr().out)["server_pids"] == {"postgresql": os.getpid()}


def test_a_password_is_not_shown(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "--directory", str(recorded)])
    assert "postgresql://orrery@127.0.0.1:5432" in (shown := capsys.readouterr().out) and "secret" not in shown


@pytest.mark.parametrize("verb", ["status", "up"])
def test_a_reader_that_goes_away_ends_nothing_and_nothing_is_said(recorded: Path, verb: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "deploy.local", verb, "--directory", str(recorded)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=PROJECT, check=False, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_verb_whose_reader_has_gone_says_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "services.cli", "states"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=PROJECT, check=False, timeout=60)
    os.close(write)
    assert ended.stderr == b""


def test_up_of_a_running_system_says_what_it_did_for_the_wanted_copies(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, int]] = []

    def scaled(system: LocalSystem, copies: dict[str, int]) -> list[str]:
        asked.append(copies)
        return [f"{service}: 1 -> {n} copies" for service, n in copies.items()]

    monkeypatch.setattr(program, "scale", scaled)
    assert main(["up", "--replicas", "3", "--directory", str(recorded)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("already up; `down` stops it\n") and "job-dispatch: 1 -> 3 copies\n" in said
    assert asked == [dict.fromkeys(SERVICES, 3)]
    assert main(["up", "--directory", str(recorded)]) == 0
    assert len(asked) == 1 and "copies" not in capsys.readouterr().out, "without a number all stay as they are"


def test_up_of_a_new_system_says_how_many_copies_it_has(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def start(directory: Path, *, replicas: int, **_: object) -> LocalSystem:
        started.append(replicas)
        return LocalSystem(directory)

    monkeypatch.setattr(LocalSystem, "is_running", lambda self: False)
    monkeypatch.setattr(program, "start_system", start)
    assert main(["up", "--replicas", "3", "--directory", str(recorded)]) == 0
    assert started == [3]
    assert f"up: 3 of each of {len(SERVICES)} services, and a gateway\n" in capsys.readouterr().out
