"""The supervisor over real servers and two tiny services: what exits comes back, what is stopped stays away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from deploy.local import processes, servers, services
from deploy.local.errors import LocalError
from deploy.local.processes import ProcessIdentity
from deploy.local.running import BackOff
from deploy.local.scaling import scale
from deploy.local.servers import Servers
from deploy.local.system import LocalSystem
from tests.integration.local_servers.conftest import needs_programs
from tests.servers import with_database

pytestmark = [needs_programs, pytest.mark.timeout(180)]
PROJECT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("small_system.py")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[LocalSystem]:
    """A small system whose three servers are private; everything is gone after the test."""
    child = _supervise(tmp_path)
    system = LocalSystem(tmp_path)
    try:
        _wait(lambda: system.state == "ready" or child.poll() is not None)
        assert system.state == "ready", (tmp_path / "supervisor.log").read_text()
        yield system
    finally:
        system.stop()
        child.wait(timeout=60)
        servers.attach(tmp_path).remove()


@pytest.fixture
def light_system(tmp_path: Path, private_servers: Servers) -> Iterator[LocalSystem]:
    """The same over servers that are not its own."""
    child = _supervise(tmp_path, named=private_servers.addresses.environment())
    system = LocalSystem(tmp_path)
    try:
        _wait(lambda: system.state == "ready" or child.poll() is not None)
        assert system.state == "ready", (tmp_path / "supervisor.log").read_text()
        yield system
    finally:
        system.stop()
        child.wait(timeout=60)


def test_a_killed_service_comes_back_and_an_exiting_one_is_tried_again(light_system: LocalSystem) -> None:
    system = light_system
    assert _entry(system, "reluctant-0")["restarts"] == 2
    killed = system.kill9("steady")
    assert killed is not None
    _wait(lambda: (again := system.process("steady")) is not None and again != killed)
    _wait(lambda: _entry(system, "steady-0")["ready"])
    assert _entry(system, "steady-0")["url"] == system.urls["steady"][0]
    assert services.is_ready(system.urls["steady"][0])


def test_a_service_that_was_stopped_and_answers_no_more_is_ended_and_started_again(light_system: LocalSystem) -> None:
    system = light_system
    _wait(lambda: _entry(system, "steady-0")["ready"])
    stopped = system.process("steady")
    assert stopped is not None
    os.kill(stopped.pid, signal.SIGSTOP)
    _wait(lambda: (again := system.process("steady")) is not None and again != stopped)
    _wait(lambda: _entry(system, "steady-0")["ready"])
    assert not processes.is_alive(stopped)


def test_copies_are_added_and_taken_away_while_the_rest_runs(
    light_system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SERVICES", ("steady", "reluctant"))
    system = light_system
    first = system.process("steady")
    assert scale(system, {"steady": 3}) == ["steady: 1 -> 3 copies"]
    assert system.process("steady") == first, "the copy that ran goes on"
    assert len(system.urls["steady"]) == len(set(system.urls["steady"])) == 3
    assert all(services.is_ready(url) for url in system.urls["steady"])
    third = system.process("steady", 2)
    assert scale(system, {"steady": 3, "reluctant": 1}) == [
        "steady: 3 copies, as before",
        "reluctant: 1 copies, as before",
    ]
    # one that is killed is started again, one that was taken away is not
    system.kill9("steady", 1)
    _wait(lambda: _entry(system, "steady-1")["restarts"] == 1 and system.process("steady", 1) is not None)
    assert scale(system, {"steady": 1}) == ["steady: 3 -> 1 copies"]
    assert not processes.is_alive(third) and system.process("steady") == first
    assert len(system.urls["steady"]) == 1
    with pytest.raises(LocalError, match="'unsteady' is not a service: allowed are steady, reluctant"):
        scale(system, {"unsteady": 2})


def test_each_killed_server_comes_back_on_its_address_and_stop_leaves_nothing(system: LocalSystem) -> None:
    before = system.environment
    for name in ("redis", "postgresql", "rabbitmq"):
        killed = _server(system.servers(), name).identity
        _server(system.servers(), name).kill9()
        _wait(lambda: (now := _server(system.servers(), name)).identity != killed and now.answers())  # noqa: B023
    assert system.environment == before
    everything = _identities(system)
    assert len(everything) == 8  # supervisor, two services, gateway, three servers, RabbitMQ's port mapper
    assert system.stop() == []
    assert not any(processes.is_alive(identity) for identity in everything)
    assert system.state == "stopped" and system.urls == {}


def test_stopping_also_ends_what_a_killed_supervisor_left(system: LocalSystem) -> None:
    everything = _identities(system)
    processes.kill(system.supervisor)
    assert system.state == "dead"
    assert all(processes.is_alive(identity) for identity in everything[1:])
    assert set(system.stop()) == {"steady-0", "reluctant-0", "gateway-0", "postgresql", "rabbitmq", "redis"}
    assert not any(processes.is_alive(identity) for identity in everything)


def test_a_process_that_was_given_an_old_pid_is_not_touched() -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        own = processes.identify(bystander.pid)
        assert own is not None
        other_run = ProcessIdentity(own.pid, own.started_ticks - 1, own.boot_id)
        processes.terminate(other_run, grace_s=0.1)
        processes.kill(other_run)
        assert processes.is_alive(own)
    finally:
        bystander.kill()
        bystander.wait()


def test_the_system_ends_with_the_process_it_was_started_for(tmp_path: Path, private_servers: Servers) -> None:
    owner = subprocess.Popen(["sleep", "120"])
    child = _supervise(tmp_path, "--owner-pid", str(owner.pid), named=private_servers.addresses.environment())
    system = LocalSystem(tmp_path)
    try:
        _wait(lambda: system.state == "ready")
        everything = _identities(system)
        owner.kill()
        owner.wait()
        assert child.wait(timeout=60) == 0
        assert not any(processes.is_alive(identity) for identity in everything)
        assert all(server.is_running() for server in private_servers.private)
    finally:
        owner.kill()
        child.kill()
        system.stop()


def test_keys_are_made_at_the_first_start_only(
    light_system: LocalSystem, private_servers: Servers, tmp_path: Path
) -> None:
    files = [tmp_path / one for one in (services.TOKEN_KEY, services.SECRETS_KEYS, services.SOURCE_KEY)]
    log, keys = tmp_path / "supervisor.log", [one.read_bytes() for one in files]
    assert [one.stat().st_mode & 0o777 for one in files] == [0o600] * 3
    made = ("making the keys of tokens, secrets and the console", "making the source key")
    assert all(one in log.read_text() for one in made)
    light_system.stop()
    again = _supervise(tmp_path, named=private_servers.addresses.environment())
    try:
        _wait(lambda: light_system.state == "ready")
        said = log.read_text()
        assert "migrating the database" in said and not any(one in said for one in made)
        assert [one.read_bytes() for one in files] == keys
    finally:
        light_system.stop()
        again.wait(timeout=60)


def test_a_system_whose_database_is_of_another_commit_does_not_start_and_says_what_to_do(
    tmp_path: Path, private_servers: Servers
) -> None:
    addresses = private_servers.addresses.environment()
    named = addresses | {"ORRERY_DATABASE_URL": with_database(addresses["ORRERY_DATABASE_URL"], "other_commit")}
    asyncio.run(_make_database(addresses["ORRERY_DATABASE_URL"], "other_commit", "CREATE TABLE tasks (a int)"))
    child = _supervise(tmp_path, named=named)
    assert child.wait(timeout=60) == 1
    said = (tmp_path / "supervisor.log").read_text()
    assert "the database holds tables (public.tasks)" in said and "`make clean`, then `make up`" in said


def test_an_interrupted_supervisor_stops_in_good_order(light_system: LocalSystem, private_servers: Servers) -> None:
    everything = _identities(light_system)
    assert light_system.supervisor is not None
    os.kill(light_system.supervisor.pid, signal.SIGINT)
    _wait(lambda: light_system.state == "stopped")
    assert not any(processes.is_alive(identity) for identity in everything[1:])
    assert all(server.is_running() for server in private_servers.private)


def test_the_wait_before_a_new_start_grows_and_is_forgiven_after_a_healthy_run() -> None:
    back_off, now, waits = BackOff(), 0.0, []
    for _ in range(6):
        back_off.started(now)
        now += 1.0
        back_off.ended(now)
        waits.append(back_off.not_before - now)
        now = back_off.not_before
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    back_off.started(now)
    back_off.ended(now + 60.0)
    assert back_off.not_before == now + 60.5


def _supervise(directory: Path, *arguments: str, named: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    environment = services.with_private_servers(os.environ) | (named or {}) | {"PYTHONPATH": str(PROJECT)}
    command = [sys.executable, str(PROGRAM), "supervise", "--directory", str(directory), "--volatile", *arguments]
    with (directory / "supervisor.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def _server(found: Servers, name: str) -> Any:
    return getattr(found, name)


def _entry(system: LocalSystem, name: str) -> dict[str, Any]:
    return next(entry for entry in system.record["processes"] if entry["name"] == name)


def _identities(system: LocalSystem) -> list[ProcessIdentity]:
    found: list[ProcessIdentity | None] = [system.supervisor]
    found += [ProcessIdentity.from_dict(entry["process"]) for entry in system.record["processes"]]
    for server in system.servers().private:
        found.append(server.identity)
        found.append(ProcessIdentity.from_dict(server.record().get("mapper")))
    return [identity for identity in found if identity is not None]


async def _make_database(url: str, name: str, statement: str) -> None:
    for where, said in ((url, f'CREATE DATABASE "{name}"'), (with_database(url, name), statement)):
        connection = await asyncpg.connect(where)
        await connection.execute(said)
        await connection.close()


def _wait(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
