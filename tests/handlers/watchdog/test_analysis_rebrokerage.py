"""Analysis that waits is sent elsewhere with its group (JEDI: Job rebrokerage), just before and after each limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from services.task_definition.tasks.explaining import Explanation
from services.watchdog import expiring
from services.watchdog.store import due as store
from services.watchdog.store.due import FactsAsked
from shared.auth import Caller
from shared.cache import NullCache
from shared.events import JobsExpired
from shared.snapshot import KnownGrid
from shared.timeouts.rule import WatchedJob
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import seasoned

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
LIMIT = 12 * HOUR
OPERATOR = Caller("o", frozenset({"operator"}), frozenset())
WAITING = ("defined", "assigned", "activated", "starting")


async def task_of_user(connection: asyncpg.Connection, **values: Any) -> int:
    return await rows.task(connection, **{"prod_source_label": "user", "task_type": "anal", **values})


async def waiting(connection: asyncpg.Connection, task: int, age: timedelta, **values: Any) -> int:
    """A job that came into its state so long ago."""
    at = {"state_change_time": START - age, "creation_time": START - age, "heartbeat_at": START}
    return await rows.job(
        connection, task, **{"status": "activated", "prod_source_label": "user", "chunk_id": 7, **at, **values}
    )


async def queue(connection: asyncpg.Connection, name: str, **record: Any) -> None:
    data = {"atlas_site": "S", "status": "online", "type": "unified", **record}
    values = {"queue": name, "site": "S", "status": data["status"], "type": "unified", "data": data}
    await rows.insert(connection, "queues", values)


async def storage(connection: asyncpg.Connection, name: str, **record: Any) -> None:
    data = {"site_name": "S", "type": "DATADISK", **record}
    await rows.insert(connection, "storages", {"storage": name, "site": "S", "type": "DATADISK", "data": data})


async def look(stage: Stage) -> list[JobsExpired]:
    """The next look at jobs, with every deadline come."""
    async with stage.database.read() as connection:
        await rows.ask_again(connection)
    return await look_at_due(stage)


async def look_at_due(stage: Stage) -> list[JobsExpired]:
    """The next look at jobs whose deadline has come."""
    async with stage.database.read() as connection:
        await connection.execute("DELETE FROM watch_runs")
    await seasoned(stage)
    return [event for event in await stage.run(stage.expiring.watch_jobs) if isinstance(event, JobsExpired)]


async def closed(stage: Stage) -> list[int]:
    return sorted(number for event in await look(stage) for number in event.job_ids)


async def test_a_group_goes_after_12_hours_whole_and_says_by_which_rule(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await task_of_user(connection)
    group = [await waiting(connection, task, LIMIT, status="activated")]
    group += [await waiting(connection, task, 3 * HOUR + MINUTE, status=status) for status in WAITING]
    other_chunk = await waiting(connection, task, HOUR, chunk_id=8)
    elsewhere = await waiting(connection, task, HOUR, queue="Q2")
    assert await closed(stage) == []
    stage.clock.forward(seconds=1)
    (event,) = await look(stage)
    assert event.job_ids == tuple(group)
    assert event.reason == (
        "activated for more than 12 h (analysis, none of its group went on for 3 h, its work may go elsewhere)"
    )
    found = await connection.fetchrow("SELECT status, error_source, error_code FROM jobs WHERE job_id = $1", group[1])
    assert tuple(found) == ("closed", "watchdog", 105)
    left = await connection.fetch("SELECT job_id FROM jobs WHERE status = 'activated' ORDER BY job_id")
    assert [row["job_id"] for row in left] == [other_chunk, elsewhere]


@pytest.mark.parametrize("in_batch", [False, True])
async def test_a_job_that_is_starting_goes_12_hours_after_its_activation(
    stage: Stage, connection: asyncpg.Connection, in_batch: bool
) -> None:
    task = await task_of_user(connection)
    values = {"status": "starting", "creation_time": START - 20 * HOUR}
    job = await waiting(connection, task, HOUR, **values)
    other = await waiting(connection, task, HOUR, chunk_id=8, **values)
    for one, age in ((job, LIMIT), (other, LIMIT - MINUTE)):
        named = {"entity_ids": [one, 99]} if in_batch else {"entity_id": one}
        await rows.log(connection, task, "job", to_status="activated", at=START - age, **named)
        await rows.log(connection, task, "job", to_status="starting", at=START - HOUR, **named)
    assert await closed(stage) == []
    stage.clock.forward(seconds=1)
    (event,) = await look(stage)
    assert event.job_ids == (job,)
    assert event.reason == (
        "still starting more than 12 h after its activation (analysis, none of its group went on for 3 h, its work may "
        "go elsewhere)"
    )
    await connection.execute("SET orrery.now = '2026-03-01 12:00:01+00'")
    told = await Explanation(KnownGrid(NullCache()), stage.parameters).job(connection, other, OPERATOR)
    assert told is not None and told["time_out"]["at"] == START + MINUTE
    assert "starting for 12 h since its activation" in told["time_out"]["text"]


async def test_a_job_that_is_starting_stays_while_its_group_goes_on(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await task_of_user(connection)
    job = await waiting(connection, task, HOUR, status="starting", creation_time=START - 20 * HOUR)
    await rows.log(connection, task, "job", entity_id=job, to_status="activated", at=START - 13 * HOUR)
    await waiting(connection, task, 2 * HOUR, status="running")
    assert await closed(stage) == []


async def test_production_that_waits_as_long_stays(stage: Stage, connection: asyncpg.Connection) -> None:
    await waiting(connection, await rows.task(connection), LIMIT + SECOND, prod_source_label="managed")
    assert await closed(stage) == []


@pytest.mark.parametrize("oldest", [0, 4])
async def test_a_group_larger_than_a_slice_goes_whole_whichever_of_its_jobs_is_old(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, oldest: int
) -> None:
    monkeypatch.setattr(expiring, "SLICE", 2)
    task = await task_of_user(connection)
    ages = [LIMIT + SECOND if number == oldest else 4 * HOUR for number in range(5)]
    jobs = [await waiting(connection, task, age) for age in ages]
    old = jobs.pop(oldest)
    await rows.change(connection, "UPDATE jobs SET deadline_at = $1", START + 8 * HOUR)
    await rows.change(connection, "UPDATE jobs SET deadline_at = $1 WHERE job_id = $2", START - SECOND, old)
    gone = [[number for event in await look_at_due(stage) for number in event.job_ids] for _ in range(4)]
    assert gone == [jobs[:2], jobs[2:], [old], []]


async def test_all_jobs_of_a_large_group_that_are_due_go_slice_by_slice(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiring, "SLICE", 2)
    task = await task_of_user(connection)
    jobs = [await waiting(connection, task, LIMIT + SECOND) for _ in range(5)]
    gone = [await closed(stage) for _ in range(4)]
    assert gone == [[jobs[0], jobs[2]], [jobs[1], jobs[4]], [jobs[3]], []]


async def test_the_history_is_asked_of_as_many_jobs_as_a_slice_ends(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await task_of_user(connection)
    first = await waiting(connection, task, LIMIT + SECOND)
    await rows.change(
        connection,
        "INSERT INTO jobs SELECT c.* FROM jobs j CROSS JOIN generate_series(1, 2999) AS n (n) CROSS JOIN LATERAL"
        " jsonb_populate_record(j, jsonb_build_object('job_id', j.job_id + n)) c WHERE j.job_id = $1",
        first,
    )
    await connection.execute("ANALYZE jobs")
    await connection.execute("SET orrery.now = '2026-03-01 12:00:00+00'")
    facts = FactsAsked(START, {}, START, timedelta(hours=6))
    found = await store.jobs_of_groups(connection, [WatchedJob(
        first, "activated", START, START, None, 100, "user", "Q1", task_id=task, chunk_id=7)], facts, 500)  # fmt: skip
    assert [job.job_id for job in found] == [first + 1 + number for number in range(500)]
    calls = "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'orrery_taken_from'"
    async with connection.transaction():
        await connection.execute("SET LOCAL track_functions = 'all'")
        await store.jobs_of_groups(connection, [found[0]], facts, 500)
        assert await connection.fetchval(calls) == 500


@pytest.mark.parametrize(
    ("status", "archived", "counts"),
    [("running", False, True), ("finished", True, True), ("holding", False, True), ("closed", True, False),
     ("failed", True, False), ("starting", False, False)],
)  # fmt: skip
async def test_a_group_of_which_one_went_on_within_3_hours_stays_until_then(
    stage: Stage, connection: asyncpg.Connection, status: str, archived: bool, counts: bool
) -> None:
    task = await task_of_user(connection)
    old = await waiting(connection, task, 2 * LIMIT)
    values = {"status": status, "state_change_time": START - 3 * HOUR + SECOND, "prod_source_label": "user",
              "chunk_id": 7, "heartbeat_at": START}  # fmt: skip
    if archived:
        await rows.archived_job(connection, task, archived_at=START - 3 * HOUR + 2 * SECOND, **values)
    else:
        await rows.job(connection, task, **values)
    gone = await closed(stage)
    assert (old in gone) == (not counts)
    if counts:
        stage.clock.forward(seconds=2)
        assert old in await closed(stage)


async def test_a_working_group_has_a_limit_of_its_own_and_0_is_off(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await stage.set("ANALY_TIMEOUT_phys", 6.0, component="rebroker", app="pandaserver")
    await stage.set("ANALY_TIMEOUT", 0.0, component="rebroker", app="pandaserver")
    own = await waiting(connection, await task_of_user(connection, working_group="phys"), 6 * HOUR)
    await waiting(connection, await task_of_user(connection), 20 * HOUR)
    assert await closed(stage) == []
    stage.clock.forward(seconds=1)
    assert await closed(stage) == [own]


@pytest.mark.parametrize("status", ["offline", "test"])
async def test_at_a_queue_that_is_closed_to_analysis_jobs_go_at_once(
    stage: Stage, connection: asyncpg.Connection, status: str
) -> None:
    await queue(connection, "Q1", status=status)
    task = await task_of_user(connection)
    jobs = [await waiting(connection, task, SECOND, status=one) for one in WAITING]
    await waiting(connection, task, SECOND, status="running")
    await waiting(connection, await rows.task(connection), SECOND, prod_source_label="managed")
    (event,) = [one for one in await look(stage) if set(one.job_ids) & set(jobs)]
    assert event.job_ids == tuple(jobs)
    assert "queue offline or test, or its storage blacklisted" in event.reason


@pytest.mark.parametrize(
    ("record", "goes"), [({}, False), ({"blacklisted_write": "Y"}, True), ({"blacklisted_read": "Y"}, True)]
)
async def test_at_a_queue_whose_storage_is_blacklisted_jobs_go_at_once(
    stage: Stage, connection: asyncpg.Connection, record: dict[str, str], goes: bool
) -> None:
    await queue(connection, "Q1", astorages={"write_lan": ["S_DISK"], "read_lan": ["S_DISK"]})
    await storage(connection, "S_DISK", **record)
    job = await waiting(connection, await task_of_user(connection), SECOND)
    assert await closed(stage) == ([job] if goes else [])


async def test_work_that_came_back_or_has_nowhere_else_to_go_stays(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await queue(connection, "Q1", status="test")
    task = await task_of_user(connection)
    taken = {"status": "closed", "error_source": "watchdog", "error_code": 105, "end_time": START - 6 * HOUR + SECOND}
    old = await rows.archived_job(connection, task, archived_at=START - HOUR, **taken)
    new = await waiting(connection, task, MINUTE)
    history = {"task_id": task, "old_job_id": old, "new_job_id": new}
    await rows.insert(connection, "job_retry_history", history)
    await waiting(connection, await task_of_user(connection, site="Q1"), MINUTE)
    await waiting(connection, await task_of_user(connection, split_rule={"disableReassign": True}), MINUTE)
    several = await waiting(connection, await task_of_user(connection, site="Q1,Q2"), MINUTE)
    assert await closed(stage) == [several]
    assert await stage.value("SELECT deadline_at FROM jobs WHERE job_id = $1", new) == START + SECOND
    stage.clock.forward(seconds=1)
    assert await closed(stage) == [new], "six hours after it was taken it may go once more"


async def test_explain_says_when_it_goes_and_why_it_went(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await task_of_user(connection)
    job = await waiting(connection, task, LIMIT)
    await connection.execute("SET orrery.now = '2026-03-01 12:00:00+00'")
    explanation = Explanation(KnownGrid(NullCache()), stage.parameters)
    before = await explanation.job(connection, job, OPERATOR)
    assert before is not None and before["time_out"]["rule"] == "analysis_waits"
    assert before["time_out"]["at"] == START
    stage.clock.forward(seconds=1)
    assert await closed(stage) == [job]
    told = await explanation.task(connection, task, OPERATOR)
    assert told is not None
    assert (
        "1 job taken back before they ran, last at 2026-03-01 12:00:01 UTC: watchdog 105: activated for" in told["text"]
    )


@pytest.mark.parametrize(
    ("age", "sibling_moved", "taken", "goes_in"),
    [
        (10 * MINUTE, None, None, 12 * HOUR - 10 * MINUTE),
        (12 * HOUR + 30 * MINUTE, HOUR, None, 2 * HOUR),
        (12 * HOUR + 30 * MINUTE, 3 * HOUR + SECOND, None, -30 * MINUTE),
        (12 * HOUR + 30 * MINUTE, None, 2 * HOUR, 4 * HOUR),
        (11 * HOUR, None, 2 * HOUR, 4 * HOUR),
        (6 * HOUR, None, 2 * HOUR, 6 * HOUR),
    ],
)
async def test_explain_says_when_it_goes_while_its_group_or_its_work_may_not_move_yet(
    stage: Stage,
    connection: asyncpg.Connection,
    age: timedelta,
    sibling_moved: timedelta | None,
    taken: timedelta | None,
    goes_in: timedelta,
) -> None:
    task = await task_of_user(connection)
    job = await waiting(connection, task, age)
    if sibling_moved is not None:
        await waiting(connection, task, sibling_moved, status="running")
    if taken is not None:
        end = {"status": "closed", "error_source": "watchdog", "error_code": 105, "end_time": START - taken}
        old = await rows.archived_job(connection, task, archived_at=START - HOUR, **end)
        await rows.insert(connection, "job_retry_history", {"task_id": task, "old_job_id": old, "new_job_id": job})
    await connection.execute("SET orrery.now = '2026-03-01 12:00:00+00'")
    told = await Explanation(KnownGrid(NullCache()), stage.parameters).job(connection, job, OPERATOR)
    assert told is not None
    assert (told["time_out"]["rule"], told["time_out"]["at"]) == ("analysis_waits", START + goes_in)
