"""Whoever does an action of the watchdog may be killed at any statement: the next one does it all, and nothing twice.

A new action needs a plant: work that is due for it.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.watchdog.app import build
from shared.config.parameters import Parameters
from shared.db import Database
from shared.runtime.service import Context, Periodic, Service
from tests import rows
from tests.databases import Databases
from tests.handlers.watchdog import test_auto_pause as failures
from tests.handlers.watchdog import test_fast_rebrokerage as overloads
from tests.handlers.watchdog import test_hurrying as hurrying
from tests.handlers.watchdog import test_queue_filler as filling
from tests.handlers.watchdog import test_wanted_tasks as wanted
from tests.handlers.watchdog import test_withholding as withholding
from tests.handlers.watchdog.conftest import START, Clock, Stage
from tests.handlers.watchdog.rounds import ended_job
from tests.handlers.watchdog.test_analysis_rebrokerage import queue, storage
from tests.servers import Servers

LONG = timedelta(days=400)
ENDS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
Plant = Callable[[Stage, asyncpg.Connection], Awaitable[None]]


async def overdue_jobs(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    for status in ("sent", "running", "defined", "holding", "transferring"):
        at = START - timedelta(days=20)
        await rows.job(connection, task, status=status, state_change_time=at, creation_time=at)


async def overloaded_queue(stage: Stage, connection: asyncpg.Connection) -> None:
    await rows.insert(connection, "shares", {"gshare": "MC", "value": 100})
    await overloads.allow(stage, 4.0)
    await overloads.waiting(connection, await rows.task(connection), 10)
    await overloads.counted(stage)


async def waiting_tasks(stage: Stage, connection: asyncpg.Connection) -> None:
    for old_status in ("ready", "running"):
        await rows.task(connection, status="pending", old_status=old_status, retry_at=START - timedelta(minutes=1))
    await rows.task(connection, status="assigning", retry_at=START - timedelta(minutes=1))
    await rows.task(connection, status="pending", state_change_time=START - timedelta(days=30))


async def failing_tasks(stage: Stage, connection: asyncpg.Connection) -> None:
    for _ in range(2):
        await failures.failing(connection)
        task = await rows.task(connection, status="running", max_attempt=20)
        data = await rows.dataset(connection, task)
        await rows.file(connection, task, data, attempt_nr=10, max_attempt=20)
    await rows.task(connection, status="throttled", old_status="running", retry_at=START - timedelta(minutes=1))
    await stage.set(f"{failures.RATE}_managed", 50)


async def busy_sites(stage: Stage, connection: asyncpg.Connection) -> None:
    await storage(connection, "DISK1")
    await queue(connection, "Q1", astorages={"read_lan": ["DISK1"]})
    for key, value in withholding.LIMITS.items():
        await stage.set(key, value, component="task_withholder")
    await withholding.jobs(connection, "Q1", 21, 0)
    for _ in range(3):
        await withholding.task(connection, "DISK1")


async def empty_queue(stage: Stage, connection: asyncpg.Connection) -> None:
    await storage(connection, "DISK1")
    await queue(connection, "Q1", astorages={"read_lan": ["DISK1"]}, corecount=1, releases=["ANY"])
    await rows.insert(connection, "queue_activity", {"queue": "Q1", "last_job_start_at": START})
    for priority in (900, 800):
        await filling.task(connection, current_priority=priority)
    await rows.insert(connection, "empty_queues", {"queue": "Q1", "empty_since": START - timedelta(hours=1)})


async def nearly_done(stage: Stage, connection: asyncpg.Connection) -> None:
    for gshare in (hurrying.USER, hurrying.EXPRESS):
        await rows.insert(connection, "shares", {"gshare": gshare, "value": 10})
    for _ in range(3):
        await hurrying.task(connection, 1000, 950)


async def late_tasks(stage: Stage, connection: asyncpg.Connection) -> None:
    for _ in range(3):
        await wanted.wanted(connection, START + timedelta(hours=1))


async def lost_events(stage: Stage, connection: asyncpg.Connection) -> None:
    old = START - timedelta(seconds=90)
    task = await rows.task(connection, status="registered", state_change_time=old)
    await rows.task(connection, status="prepared", state_change_time=old)
    for status in ("holding", "finished"):
        await rows.job(connection, task, status=status, state_change_time=old)


async def old_rows(stage: Stage, connection: asyncpg.Connection) -> None:
    now, stage.clock.now = stage.clock.now, START - LONG
    task = await rows.task(connection, status="done", state_change_time=stage.clock.now)
    await ended_job(stage, task)
    stage.clock.now = now


PLANTS: dict[str, Plant] = {
    "jobs": overdue_jobs, "overloaded_queues": overloaded_queue, "tasks": waiting_tasks, "attempts": failing_tasks,
    "withheld": busy_sites, "queue_filler": empty_queue, "nearly_done": nearly_done, "deadlines": late_tasks,
    "sweep": lost_events, "retention": old_rows,
}  # fmt: skip


#: what the successor of a leader that was killed between two slices of a round does in the next one, and not at once
NEXT_ROUND_S = {"sweep": 21.0, "retention": 301.0}


class Killed(Exception):
    """The leader is not there any more."""


class Mortal:
    """A connection that ends with its backend at one of its statements; `at` None: at none."""

    def __init__(self, at: int | None, killing: asyncpg.Connection) -> None:
        self.at, self.n_statements, self._killing = at, 0, killing
        self._connection: Any = None

    def holding(self, connection: Any) -> Mortal:
        self._connection = connection
        return self

    async def count(self) -> None:
        """Count a statement, or the commit."""
        self.n_statements += 1
        if self.n_statements == self.at:
            await self._killing.execute("SELECT pg_terminate_backend($1, 5000)", self._connection.get_server_pid())

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._connection, name)
        if name not in ("fetch", "fetchrow", "fetchval", "execute", "executemany", "copy_records_to_table"):
            return real

        async def counted(*arguments: Any, **named: Any) -> Any:
            await self.count()
            return await real(*arguments, **named)

        return counted


@asynccontextmanager
async def staged(databases: Databases) -> AsyncIterator[Stage]:
    """A database of its own, with the clock of the test."""
    url, clock = await databases.lend(), Clock()
    database = await Database.connect(url, actor="watchdog", now=lambda: clock.now)
    stage: Any = Stage(database, None, None, clock, CollectorRegistry(), Parameters())  # type: ignore[arg-type]
    try:
        yield stage
    finally:
        await database.close()
        await databases.take_back(url)


async def leader(stage: Stage, context: Context) -> Service:
    """A process that begins: it remembers nothing."""
    service = build(replace(context, database=stage.database, metrics=CollectorRegistry()))
    for start in service.on_start:
        await start()
    return service


async def turn(stage: Stage, service: Service, name: str, mortal: Mortal) -> None:
    """All slices of a turn; each is undone where it is killed. Raises Killed."""
    for action in service.periodic:
        if action.name == name.replace("_", "-"):
            await part_of_turn(stage, action, mortal)


async def part_of_turn(stage: Stage, action: Periodic, mortal: Mortal) -> None:
    """All slices of a partition."""
    more: bool | None = True
    while more:
        before = await contents(stage)
        try:
            async with stage.database.begin(reason="periodic") as work:
                work.connection = mortal.holding(work.connection)  # type: ignore[assignment]
                more = await action.run(work)
                await mortal.count()
        except ENDS as error:
            if mortal.at is None or mortal.n_statements < mortal.at:
                raise
            assert await contents(stage) == before, "half of a slice was done"
            raise Killed from error


async def contents(stage: Stage) -> dict[str, str]:
    """What every table holds."""
    async with stage.database.read() as connection:
        tables = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname IN ('public', 'catalogue') AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        )
        each = " UNION ALL ".join(
            f"SELECT '{row['name']}', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {row['name']} t"
            for row in tables
        )
        return dict(tuple(row) for row in await connection.fetch(each))


async def outcome(stage: Stage) -> Any:
    """What was said, of what, and where everything stands now."""
    said = Counts[str]()
    for event in await stage.announced():
        about = {"event_id", "occurred_at", "released_at", "moves", "reason", "retry_at"}
        said[f"{type(event).__name__} {event.model_dump_json(exclude=about)}"] += 1
    async with stage.database.read() as connection:
        states = [
            [tuple(row) for row in await connection.fetch(statement)]
            for statement in (
                "SELECT task_id, status, old_status, num_throttled FROM tasks ORDER BY 1",
                "SELECT job_id, status, error_code FROM jobs ORDER BY 1",
                "SELECT task_id, queue, released_at FROM preassigned_tasks ORDER BY 1",
                "SELECT kind, entity_id, times FROM sweep_marks ORDER BY 1, 2",
                "SELECT (SELECT count(*) FROM job_specs), (SELECT count(*) FROM job_reports),"
                " (SELECT count(*) FROM transfers), (SELECT count(*) FROM jobs_archive)",
            )
        ]
    return said, states


async def life(
    databases: Databases, server_url: str, context: Context, name: str, kill_at: int | None
) -> tuple[int, Any]:
    """A turn, killed at a statement or not, and those of the successor; statements, and the outcome."""
    async with staged(databases) as stage:
        async with stage.database.read() as connection:
            await PLANTS[name](stage, connection)
            await rows.insert_watch_runs(stage.database, START - timedelta(seconds=60))
            await connection.execute("DELETE FROM watch_runs WHERE watch LIKE $1 || '%' AND watch <> 'jobs'", name)
        killing = await asyncpg.connect(server_url)
        mortal = Mortal(kill_at, killing)
        try:
            service = await leader(stage, context)
            try:
                await turn(stage, service, name, mortal)
            except Killed:
                mortal.at = None
                await turn(stage, await leader(stage, context), name, mortal)
            n_statements = mortal.n_statements
            # a day of the archive goes in the round after that in which the rules that need its jobs judged them
            for _ in range(2 if name == "retention" else int(name in NEXT_ROUND_S and kill_at is not None)):
                stage.clock.forward(seconds=NEXT_ROUND_S[name])
                await turn(stage, await leader(stage, context), name, mortal)
            return n_statements, await outcome(stage)
        finally:
            await killing.close()


async def test_every_action_has_a_plant(context: Context, stage: Stage) -> None:
    service = await leader(stage, context)
    assert {one.name.replace("-", "_") for one in service.periodic} - {"parameters"} == PLANTS.keys()


@pytest.mark.parametrize("name", sorted(PLANTS))
async def test_a_leader_that_is_killed_leaves_nothing_half_done(
    databases: Databases, servers_of_tests: Servers, context: Context, name: str
) -> None:
    server_url = servers_of_tests.database_url
    n_statements, undisturbed = await life(databases, server_url, context, name, None)
    assert undisturbed[0] or name in ("retention", "withheld"), "there was something to do"
    for kill_at in sorted({2, n_statements // 2, n_statements}):  # the last is the commit
        _, found = await life(databases, server_url, context, name, kill_at)
        assert found == undisturbed, f"killed at statement {kill_at} of {n_statements}"
