"""When time-out rules are asked about a job: written with each change of state, moved when it is asked about."""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg
import pytest

from services.job_dispatch.store.jobs import SQL as OF_DISPATCH
from shared.states.job import LIVE
from shared.timeouts.judging import first_asked
from shared.timeouts.limits import TimeLimits
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import HOUR, seasoned
from tests.handlers.watchdog.test_missing_rules import queue

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


async def look(stage: Stage, after: timedelta = timedelta()) -> list[int]:
    """The jobs that a whole look ends, so long after START."""
    stage.clock.now = START + after
    await stage.value("DELETE FROM watch_runs")
    await rows.insert_watch_runs(stage.database, stage.clock.now - timedelta(seconds=60))
    events, more = [], True
    while more:
        async with stage.database.begin(reason="periodic") as work:
            more = await stage.expiring.watch_jobs(work)
        events += await stage.announced()
    return sorted(job_id for event in events for job_id in event.job_ids)


async def deadline(stage: Stage, job_id: int) -> datetime | None:
    found: datetime | None = await stage.value("SELECT deadline_at FROM jobs WHERE job_id = $1", job_id)
    return found


async def asked_later(connection: asyncpg.Connection, task: int, **values: object) -> int:
    """A job that is not due, and was asked about lately."""
    return await rows.job(connection, task, **{"deadline_at": START + DAY, **values})


async def test_a_change_of_state_writes_what_the_rules_name(stage: Stage, connection: asyncpg.Connection) -> None:
    await look(stage)
    limits = first_asked(TimeLimits(), [])
    task = await rows.task(connection)
    steps = [("activated", "sent"), ("sent", "running"), ("running", "holding"), ("holding", "transferring")]
    for was, status in steps:
        job_id = await rows.job(connection, task, status=was, creation_time=START - HOUR)
        await OF_DISPATCH.rows(connection, "move_jobs", job_ids=[job_id], status=status, allowed=[was])
        after_change, after_creation = limits[status]
        wanted = [START + after_change, *([] if after_creation is None else [START - HOUR + after_creation])]
        assert await deadline(stage, job_id) == min(wanted), status
    job_id = await rows.job(connection, task, status="running")
    ends = {"sources": [None], "codes": [None], "dialogs": [None], "allowed": ["running"]}
    await OF_DISPATCH.rows(connection, "end_jobs", job_ids=[job_id], status="failed", **ends)
    assert await deadline(stage, job_id) is None


async def test_every_live_state_has_a_deadline_in_a_new_database(connection: asyncpg.Connection) -> None:
    found = await connection.fetch("SELECT status FROM job_deadlines WHERE after_change = '1 minute'")
    assert {row["status"] for row in found} == set(LIVE)


async def test_a_heartbeat_does_not_move_the_deadline_and_the_rule_is_asked_with_it(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    since = {"status": "running", "state_change_time": START - 2 * HOUR, "deadline_at": START}
    heard = await rows.job(connection, task, heartbeat_at=START - HOUR, **since)
    silent = await rows.job(connection, task, heartbeat_at=START - 2 * HOUR, **since)
    assert await look(stage) == [], "the limit is reached, and not passed"
    assert await look(stage, SECOND) == [silent]
    assert await deadline(stage, heard) == START + HOUR
    await OF_DISPATCH.run(connection, "heartbeats", job_ids=[heard], allowed=["running"])
    assert await deadline(stage, heard) == START + HOUR
    assert await look(stage, HOUR) == []
    assert await look(stage, HOUR + 2 * SECOND) == [] and await deadline(stage, heard) == START + 2 * HOUR
    assert await look(stage, 2 * HOUR + SECOND) == [heard]


async def test_jobs_that_are_not_due_are_not_touched(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    job_id = await asked_later(connection, task, status="sent", state_change_time=START - HOUR)
    before = await stage.value("SELECT xmin::text FROM jobs WHERE job_id = $1", job_id)
    assert await look(stage) == []
    assert await stage.value("SELECT xmin::text FROM jobs WHERE job_id = $1", job_id) == before


async def test_a_shorter_limit_is_asked_about_the_jobs_of_its_state_alone(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    await look(stage)
    old = {"state_change_time": START - 3 * HOUR, "creation_time": START - 3 * HOUR}
    assigned = [await asked_later(connection, task, status="assigned", **old) for _ in range(3)]
    other = await asked_later(connection, task, status="sent", **old)
    assert await look(stage) == []
    await stage.set("TIMEOUT_assigned", 2.0, component="job_timeout", app="pandaserver")
    assert await look(stage) == assigned
    assert await deadline(stage, other) == START + DAY
    assert await stage.value("SELECT after_change FROM job_deadlines WHERE status = 'assigned'") == HOUR / 2
    assert await stage.value("SELECT moved_to IS NULL AND moved_states = '{}' FROM deadline_basis")


async def test_a_state_without_a_row_gets_its_deadline(stage: Stage, connection: asyncpg.Connection) -> None:
    await connection.execute("DELETE FROM job_deadlines WHERE status = 'merging'")
    await look(stage)
    assert await stage.value("SELECT count(*) FROM job_deadlines") == len(LIVE)


async def test_a_queue_that_changes_has_rules_asked_about_its_jobs(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    for name in ("Q1", "Q2"):
        await queue(connection, name, status="paused")
    await look(stage)
    old = {"status": "sent", "state_change_time": START - HOUR}
    at_first, at_other = [await asked_later(connection, task, queue=name, **old) for name in ("Q1", "Q2")]
    await connection.execute(
        "UPDATE queues SET status = 'online', data = data || '{\"status\": \"online\"}' WHERE queue = 'Q1'"
    )
    await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'grid'")
    assert await look(stage) == [at_first]
    assert await deadline(stage, at_other) == START + DAY


async def slices(stage: Stage) -> list[int]:
    """How many jobs each slice of a look ends."""
    sizes, more = [], True
    while more:
        async with stage.database.begin(reason="periodic") as work:
            more = await stage.expiring.watch_jobs(work)
        sizes.append(sum(len(event.job_ids) for event in await stage.announced()))
    return sizes


async def test_a_slice_asks_about_no_more_jobs_than_hold_up_others(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 3)
    task = await rows.task(connection)
    await look(stage)
    old = {"status": "assigned", "state_change_time": START - 3 * HOUR, "creation_time": START - 3 * HOUR}
    for at in (START + DAY, START - HOUR):
        for _ in range(4):
            await rows.job(connection, task, deadline_at=at, **old)
    await stage.set("TIMEOUT_assigned", 2.0, component="job_timeout", app="pandaserver")
    await stage.value("DELETE FROM watch_runs")
    await seasoned(stage)
    sizes = await slices(stage)
    assert sum(sizes) == 8 and max(sizes) == 3


async def test_a_turn_of_many_slices_is_no_absence_and_sees_what_comes_due_meanwhile(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 1)
    task = await rows.task(connection)
    for nr in range(6):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR, deadline_at=START - nr * SECOND)
    urgent = await asked_later(connection, task, status="sent", state_change_time=START - HOUR)
    await rows.change(connection, "UPDATE jobs SET deadline_at = $1 WHERE job_id = $2", START + 9 * SECOND, urgent)
    await seasoned(stage)
    ended = []
    for _ in range(8):
        ended += [job_id for event in await stage.run(stage.expiring.watch_jobs) for job_id in event.job_ids]
        stage.clock.forward(minutes=4)
    assert len(ended) == 7 and urgent in ended
    assert await stage.value("SELECT grace_until FROM watch_runs WHERE watch = 'jobs'") is None


async def test_a_turn_that_was_left_in_the_middle_is_an_absence(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 1)
    task = await rows.task(connection)
    for _ in range(3):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await seasoned(stage)
    assert len(await stage.run(stage.expiring.watch_jobs)) == 1
    stage.clock.forward(minutes=16)
    assert await stage.run(stage.expiring.watch_jobs) == []
    reason = await stage.value("SELECT grace_reason FROM watch_runs WHERE watch = 'jobs'")
    assert reason == "the previous run was 960 s ago"


async def test_jobs_whom_a_change_concerns_are_looked_for_in_slices(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.LOOKED_AT", 2)
    task = await rows.task(connection)
    await look(stage)
    old = {"status": "assigned", "state_change_time": START - 3 * HOUR, "creation_time": START - 3 * HOUR}
    jobs = [await asked_later(connection, task, **old) for _ in range(7)]
    await stage.set("TIMEOUT_assigned", 2.0, component="job_timeout", app="pandaserver")
    await stage.value("DELETE FROM watch_runs")
    await seasoned(stage)
    assert await slices(stage) == [0, 2, 2, 2, 1, 0] and len(jobs) == 7
