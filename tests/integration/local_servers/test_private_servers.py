"""Private servers, really started: they answer, are closed to others, survive a kill, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import aio_pika
import asyncpg
import pytest
import redis.asyncio
import redis.exceptions

from deploy.local import processes
from deploy.local.account import unprivileged_account
from deploy.local.rabbitmq import control
from deploy.local.servers import RECORD, Servers, attach, running_servers, stop_servers
from tests.integration.local_servers.conftest import needs_programs

pytestmark = [needs_programs, pytest.mark.timeout(180)]
STANDARD_PORTS = {4369, 5432, 5672, 6379, 15672, 25672}
LOOPBACK_4, LOOPBACK_6 = "0100007F", "00000000000000000000000001000000"  # as the kernel prints them
PROJECT = Path(__file__).resolve().parents[3]


async def test_each_server_answers_its_own_protocol(private_servers: Servers) -> None:
    addresses = private_servers.addresses
    connection = await asyncpg.connect(addresses.database_url)
    assert await connection.fetchval("SELECT current_database()") == "orrery"
    assert int(await connection.fetchval("SHOW server_version_num")) >= 150000
    methods = await connection.fetchval("SELECT enumvals FROM pg_settings WHERE name = 'wal_compression'")
    assert await connection.fetchval("SHOW wal_compression") == ("lz4" if "lz4" in methods else "off")
    await connection.close()
    async with await aio_pika.connect(addresses.rabbitmq_url) as broker:
        channel = await broker.channel()
        queue = await channel.declare_queue("answers", durable=True, arguments={"x-queue-type": "quorum"})
        await channel.default_exchange.publish(aio_pika.Message(b"one"), routing_key="answers")
        message = await queue.get(timeout=60)
        assert message is not None and message.body == b"one"
        await message.ack()
    async with redis.asyncio.Redis.from_url(addresses.redis_url) as cache:
        assert await cache.set("key", "value") and await cache.get("key") == b"value"


async def test_nobody_gets_in_without_the_password(private_servers: Servers) -> None:
    assert private_servers.postgresql and private_servers.redis and private_servers.rabbitmq
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(private_servers.postgresql.url.replace(private_servers.postgresql.password, "wrong"))
    with pytest.raises(aio_pika.exceptions.AMQPConnectionError):
        await aio_pika.connect(private_servers.rabbitmq.url.replace(private_servers.rabbitmq.password, "wrong"))
    with pytest.raises(redis.exceptions.AuthenticationError):
        async with redis.asyncio.Redis(host="127.0.0.1", port=private_servers.redis.port) as cache:
            await cache.get("key")


def test_only_loopback_and_no_standard_port_is_used(private_servers: Servers) -> None:
    record = private_servers.rabbitmq.record()
    ports = {server.port for server in private_servers.private} | {record["distribution_port"], record["mapper_port"]}
    assert len(ports) == 5 and not ports & STANDARD_PORTS
    addresses = _listening_addresses(ports)
    assert addresses and addresses <= {LOOPBACK_4, LOOPBACK_6}


def test_the_record_can_be_read_by_its_owner_only(private_servers: Servers) -> None:
    assert (private_servers.directory / RECORD).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands PostgreSQL to another user")
def test_root_hands_postgresql_to_another_user_who_can_reach_its_data(private_servers: Servers) -> None:
    assert private_servers.postgresql and private_servers.postgresql.identity
    account = unprivileged_account()
    status = Path(f"/proc/{private_servers.postgresql.identity.pid}").stat()
    assert account is not None and status.st_uid == account.user_id
    assert private_servers.postgresql.place.stat().st_uid == account.user_id


async def test_what_was_committed_and_confirmed_survives_a_kill_on_the_same_address(private_servers: Servers) -> None:
    addresses = private_servers.addresses
    connection = await asyncpg.connect(addresses.database_url)
    await connection.execute("CREATE TABLE kept (value int)")
    await connection.execute("INSERT INTO kept VALUES (7)")
    await connection.close()
    async with await aio_pika.connect(addresses.rabbitmq_url) as broker:
        channel = await broker.channel()
        await channel.declare_queue("kept", durable=True, arguments={"x-queue-type": "quorum"})
    # RabbitMQ 3.10 forgets which server belongs to a quorum queue when it is killed within a second or two of its
    # declaration; a restart in good order writes that down.
    assert private_servers.rabbitmq
    private_servers.rabbitmq.restart()
    async with await aio_pika.connect(addresses.rabbitmq_url) as broker:
        channel = await broker.channel(publisher_confirms=True)
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key="kept")
    for server in private_servers.private:
        server.kill9()
        assert not server.is_running() and not server.answers()
        server.start()
    private_servers.save()
    assert private_servers.addresses == addresses
    connection = await asyncpg.connect(addresses.database_url)
    assert await connection.fetchval("SELECT value FROM kept") == 7
    await connection.close()
    async with await aio_pika.connect(addresses.rabbitmq_url) as broker:
        channel = await broker.channel()
        queue = await channel.get_queue("kept")
        received = await queue.get(timeout=60)
        assert received is not None and received.body == b"kept"


def test_another_process_finds_the_servers_by_their_record(private_servers: Servers) -> None:
    found = attach(private_servers.directory)
    assert found.addresses == private_servers.addresses
    assert [server.identity for server in found.private] == [server.identity for server in private_servers.private]
    assert found.rabbitmq and found.rabbitmq.identity
    assert f"OS PID: {found.rabbitmq.identity.pid}" in control(found.rabbitmq, "status")


def test_stopping_leaves_no_process_and_a_second_start_finds_its_data(tmp_path: Path) -> None:
    directory = tmp_path / "a clone with spaces" / ".local"
    with running_servers(directory, durable=False, named={}) as servers:
        first = servers.addresses
        identities = [server.identity for server in servers.private]
        assert servers.rabbitmq
        identities.append(servers.rabbitmq.mapper)
        assert all(processes.is_alive(identity) for identity in identities)
    try:
        assert not any(processes.is_alive(identity) for identity in identities)
        assert _processes_that_name(directory) == []
        again = Servers(directory, durable=False, named={}).start()
        assert again.addresses == first
        assert set(stop_servers(directory)) == {"postgresql", "rabbitmq", "redis"}
        assert _processes_that_name(directory) == []
        assert stop_servers(directory) == []
    finally:
        servers.remove()


def test_a_copied_clone_does_not_use_the_servers_of_the_original(private_servers: Servers, tmp_path: Path) -> None:
    shutil.copy(private_servers.directory / RECORD, tmp_path / RECORD)
    with running_servers(tmp_path, durable=False, named=_all_but_redis(private_servers)) as copied:
        assert copied.redis and private_servers.redis
        assert copied.redis.port != private_servers.redis.port
        assert copied.redis.password != private_servers.redis.password
    assert private_servers.redis.is_running()


def test_each_server_named_by_the_environment_replaces_only_the_private_one(
    private_servers: Servers, tmp_path: Path
) -> None:
    named = _all_but_redis(private_servers)
    with running_servers(tmp_path, durable=False, named=named) as servers:
        assert [server.name for server in servers.private] == ["redis"]
        assert servers.addresses.database_url == named["ORRERY_DATABASE_URL"]
        assert servers.addresses.rabbitmq_url == named["ORRERY_RABBITMQ_URL"]
        assert servers.redis and servers.redis.answers()
    assert private_servers.postgresql and private_servers.postgresql.answers()
    assert private_servers.rabbitmq and private_servers.rabbitmq.answers()


def test_a_command_gets_the_addresses_and_its_exit_code_is_ours(tmp_path: Path, private_servers: Servers) -> None:
    code = "import os, sys; sys.exit(7 if os.environ['ORRERY_REDIS_URL'].startswith('redis://') else 1)"
    command = [sys.executable, "-m", "deploy.local", "servers", "--directory", str(tmp_path), "--volatile", "--"]
    environment = dict(os.environ) | _all_but_redis(private_servers) | {"ORRERY_REDIS_URL": ""}
    result = subprocess.run([*command, sys.executable, "-c", code], env=environment, cwd=PROJECT, check=False)
    assert result.returncode == 7
    assert _processes_that_name(tmp_path) == []


def test_the_servers_of_a_command_that_is_told_to_end_are_stopped(tmp_path: Path, private_servers: Servers) -> None:
    command = [sys.executable, "-m", "deploy.local", "servers", "--directory", str(tmp_path), "--volatile", "--"]
    environment = dict(os.environ) | _all_but_redis(private_servers) | {"ORRERY_REDIS_URL": ""}
    with subprocess.Popen(
        [*command, "sh", "-c", "echo up; exec sleep 60"], env=environment, cwd=PROJECT, stdout=-1
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        child.terminate()
    assert child.returncode == 128 + signal.SIGTERM
    assert _processes_that_name(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python that another user can run")
def test_a_user_without_root_starts_all_three(tmp_path: Path) -> None:
    """As `nobody`, from a copy of the package in a directory of that user: it needs the standard library alone."""
    place = Path(f"/var/tmp/orrery-test-{os.getpid()}")
    shutil.copytree(
        PROJECT / "deploy" / "local", place / "deploy" / "local", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(PROJECT / "deploy" / "__init__.py", place / "deploy")
    (place / "shared" / "model").mkdir(parents=True)
    for name in ("__init__.py", "model/__init__.py", "model/log_lines.py", "model/visible_text.py"):
        shutil.copy(PROJECT / "shared" / name, place / "shared" / name)
    for path in (place, *place.rglob("*")):
        shutil.chown(path, "nobody")
    listing = "ps -o user:20=,comm= -u nobody"
    command = ["/usr/bin/python3", "-m", "deploy.local", "servers", "--volatile", "--", "sh", "-c", listing]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place)}
    try:
        result = subprocess.run(
            command,
            user="nobody",
            group="nogroup",
            extra_groups=[],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        for program in ("postgres", "beam.smp", "redis-server", "epmd"):
            assert program in result.stdout
        assert _processes_that_name(place) == []
    finally:
        shutil.rmtree(place)


def _all_but_redis(servers: Servers) -> dict[str, str]:
    environment = servers.addresses.environment()
    del environment["ORRERY_REDIS_URL"]
    return environment


def _processes_that_name(directory: Path) -> list[str]:
    """Command lines of living processes in which this directory occurs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if int(path.parent.name) == os.getpid() or processes.identify(int(path.parent.name)) is None:
            continue
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in text:
            found.append(text)
    return found


def _listening_addresses(ports: set[int]) -> set[str]:
    """The addresses on which somebody listens on these ports."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, port = local.split(":")
            if state == "0A" and int(port, 16) in ports:
                found.add(address)
    return found
