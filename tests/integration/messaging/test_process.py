"""A service as an operator meets it: a process with exit codes, signals and health pages."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import httpx
import pytest

from deploy.local.ports import free_port
from shared.auth import Authority
from shared.db import Database
from shared.events import TaskProgressed
from shared.messaging.topology import Topology
from tests.integration.messaging.bus import Effects, emit_defined, eventually, outbox_is_empty, rows
from tests.integration.messaging.sample_service import POINTS
from tests.servers import ROOT


@pytest.fixture
async def environment(
    tmp_path: Path, database_url: str, rabbitmq_url: str, bus_namespace: str
) -> AsyncIterator[dict[str, str]]:
    key = tmp_path / "token_key.pem"
    Authority.create_file(key)
    yield {
        "PATH": os.environ["PATH"],
        "ORRERY_DATABASE_URL": database_url,
        "ORRERY_RABBITMQ_URL": rabbitmq_url,
        "ORRERY_BUS_NAMESPACE": bus_namespace,
        "ORRERY_TOKEN_KEY_FILE": str(key),
        "ORRERY_HTTP_PORT": str(free_port()),  # which no outgoing connection of another test can take meanwhile
    }
    connection = await aio_pika.connect(rabbitmq_url)
    async with connection:
        await Topology(bus_namespace).remove(await connection.channel())


@asynccontextmanager
async def process(environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.messaging.sample_service",
        env=environment,
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def ended(child: asyncio.subprocess.Process, *, patience_s: float = 60.0) -> tuple[int, str]:
    """Exit code and standard error."""
    _, errors = await asyncio.wait_for(child.communicate(), patience_s)
    assert child.returncode is not None
    return child.returncode, errors.decode()


async def get(environment: dict[str, str], path: str) -> httpx.Response | None:
    async with httpx.AsyncClient() as client:
        try:
            return await client.get(f"http://127.0.0.1:{environment['ORRERY_HTTP_PORT']}{path}")
        except httpx.TransportError:
            return None


async def ready(environment: dict[str, str]) -> bool:
    answer = await get(environment, "/readyz")
    return answer is not None and answer.status_code == 200


async def test_a_service_started_while_rabbitmq_is_down_exits_with_code_3(environment: dict[str, str]) -> None:
    async with process(environment | {"ORRERY_RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:1/"}) as child:
        code, errors = await ended(child)
    assert code == 3
    assert "RabbitMQ cannot be used" in errors


async def test_a_service_started_while_postgresql_is_down_exits_with_code_3(environment: dict[str, str]) -> None:
    async with process(environment | {"ORRERY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}) as child:
        code, errors = await ended(child)
    assert code == 3
    assert "PostgreSQL cannot be used" in errors


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ORRERY_DATABASE_URL", ""),
        ("ORRERY_DATABASE_URL", "mysql://x"),
        ("ORRERY_HTTP_PORT", "99999"),
        ("ORRERY_RABBITMQ_URL", "http://x"),
        ("ORRERY_RABBITMQ_URL", ""),
        ("ORRERY_PREFETCH_COUNT", "many"),
        ("ORRERY_TOKEN_KEY_FILE", "/nonexistent/key.pem"),
        ("ORRERY_TOKEN_KEY", "not a key"),
    ],
)
async def test_a_wrong_setting_exits_with_code_2_and_names_its_variable(
    environment: dict[str, str], variable: str, value: str
) -> None:
    async with process(environment | {variable: value}) as child:
        code, errors = await ended(child)
    assert code == 2, errors
    assert variable in errors
    assert "Traceback" not in errors


async def test_a_taken_port_exits_with_code_3_and_names_the_variable(environment: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(environment["ORRERY_HTTP_PORT"])))
        taken.listen()
        async with process(environment) as child:
            code, errors = await ended(child)
    assert code == 3, errors
    assert "ORRERY_HTTP_PORT" in errors


async def test_a_service_is_ready_serves_metrics_and_does_its_periodic_work(
    environment: dict[str, str], database: Database, effects: Effects
) -> None:
    async with process(environment) as child:
        await eventually(lambda: ready(environment))
        await emit_defined(database, [1, 2, 3])
        assert await effects.reach(4) == [-1, 1, 2, 3]
        alive = await get(environment, "/livez")
        assert alive is not None and alive.status_code == 200
        metrics = await get(environment, "/metrics")
        assert metrics is not None
        assert 'orrery_messages_total{consumer="task-brokerage.task-defined",outcome="handled"} 3.0' in metrics.text
        assert 'orrery_lease_held{lease="task-brokerage.tick"} 1.0' in metrics.text
        child.send_signal(signal.SIGTERM)
        code, _ = await ended(child)
    assert code == 0
    expired = await rows(database, "SELECT expires_at <= orrery_now() AS over FROM leases WHERE name LIKE '%tick'")
    assert [row["over"] for row in expired] == [True], "a clean stop gives the lease back"


async def test_sigterm_lets_the_running_handler_finish_and_leaves_the_rest_in_the_queue(
    environment: dict[str, str], database: Database, effects: Effects, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    slow = environment | {"SAMPLE_WORK_S": "1.0", "SAMPLE_BEGUN": str(begun), "ORRERY_PREFETCH_COUNT": "4"}

    async def has_begun() -> bool:
        return begun.exists()

    async with process(slow) as child:
        await eventually(lambda: ready(environment))
        await emit_defined(database, range(1, 41))
        await eventually(has_begun)
        child.send_signal(signal.SIGTERM)
        code, errors = await ended(child)
    assert code == 0, errors
    first_round = [task_id for task_id in await effects.task_ids() if task_id > 0]
    assert 1 <= len(first_round) <= 8, "what had begun was finished, nothing else was"

    async def all_were_handled() -> bool:
        return len([task_id for task_id in await effects.task_ids() if task_id > 0]) >= 40

    async with process(environment) as child:
        await eventually(all_were_handled)
        await eventually(lambda: outbox_is_empty(database))
        child.send_signal(signal.SIGTERM)
        code, _ = await ended(child)
    assert code == 0
    assert sorted(t for t in await effects.task_ids() if t > 0) == list(range(1, 41))


async def test_a_killed_service_repeats_no_effect_when_it_comes_back(
    environment: dict[str, str], database: Database, effects: Effects
) -> None:
    async with process(environment | {"SAMPLE_WORK_S": "0.01"}) as child:
        await eventually(lambda: ready(environment))
        await emit_defined(database, range(1, 301))
        await effects.reach(50)
        child.kill()
        await child.wait()
    async with process(environment) as child:
        await effects.reach(301)
        await eventually(lambda: outbox_is_empty(database))
        child.send_signal(signal.SIGTERM)
        await ended(child)
    assert sorted(t for t in await effects.task_ids() if t > 0) == list(range(1, 301))


async def test_a_service_killed_in_the_middle_of_a_batch_has_done_all_of_it_or_none(
    environment: dict[str, str], database: Database, effects: Effects, tmp_path: Path
) -> None:
    together, total = tmp_path / "together", 60
    async with database.begin(reason="test") as work:
        for task_id in range(total):
            numbers = {"files_finished": 1, "files_failed": 0, "files_total": 2, "live_jobs": 1}
            work.emit(TaskProgressed(task_id=task_id, status="running", **numbers))
    async with process(environment | {"SAMPLE_WORK_S": "0.1", "SAMPLE_TOGETHER": str(together)}) as child:

        async def in_the_middle() -> bool:
            return together.exists()

        await eventually(in_the_middle)
        child.kill()
        await child.wait()

    async def of_tasks() -> list[int]:
        return sorted(task_id for task_id in await effects.task_ids() if task_id >= 0)  # -1: its periodic work

    async def all_done() -> bool:
        return len(await of_tasks()) >= total

    done = await of_tasks()
    inbox = await rows(database, "SELECT count(*) AS n FROM inbox")
    assert len(done) == len(set(done)) == inbox[0]["n"] < total
    async with process(environment):
        await eventually(all_done)
    assert await of_tasks() == list(range(total))


@pytest.mark.parametrize("point", POINTS)
async def test_a_service_killed_at_a_point_of_its_messages_has_each_effect_once(
    point: str, environment: dict[str, str], database: Database, effects: Effects
) -> None:
    await emit_defined(database, range(1, 31))
    async with process(environment | {"SAMPLE_KILLED_AT": point}) as child:
        code, errors = await ended(child)
    assert code == -signal.SIGKILL, errors

    async def all_have_their_effect() -> bool:
        return len([task_id for task_id in await effects.task_ids() if task_id > 0]) >= 30

    async with process(environment) as child:
        await eventually(all_have_their_effect)
        await eventually(lambda: outbox_is_empty(database))
        child.send_signal(signal.SIGTERM)
        await ended(child)
    assert sorted(task_id for task_id in await effects.task_ids() if task_id > 0) == list(range(1, 31))
    told = await rows(database, "SELECT count(*) AS n, count(DISTINCT event_id) AS n_events FROM inbox")
    assert dict(told[0]) == {"n": 30, "n_events": 30}


@pytest.mark.night
@pytest.mark.timeout(240)
async def test_a_service_that_wakes_after_a_minute_repeats_nothing_that_another_did_meanwhile(
    environment: dict[str, str], database: Database, effects: Effects
) -> None:
    """RabbitMQ has given it up and its messages to the other; its transactions were rolled back, its lease taken."""
    frozen_s, other_port = 60.0, {"ORRERY_HTTP_PORT": str(free_port())}
    async with process(environment | {"SAMPLE_WORK_S": "0.1"}) as child:
        await eventually(lambda: ready(environment))
        await emit_defined(database, range(1, 301))
        await effects.reach(30)
        child.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        async with process(environment | other_port):
            await effects.reach(301)
            await asyncio.sleep(frozen_s - (time.monotonic() - stopped_at))  # the length of the fault
            child.send_signal(signal.SIGCONT)
            await emit_defined(database, range(301, 331))
            await effects.reach(331)
            await eventually(lambda: outbox_is_empty(database))
            await eventually(lambda: ready(environment))
        child.send_signal(signal.SIGTERM)
        code, errors = await ended(child)
    assert code == 0, errors
    assert sorted(task_id for task_id in await effects.task_ids() if task_id > 0) == list(range(1, 331))
