"""Jobs whose time is over end, once, with an event; the others are left alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from shared.events import JobMove, JobsExpired
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

HOUR = timedelta(hours=1)


async def seasoned(stage: Stage) -> None:
    """The watchdog has been running for longer than its grace."""
    await rows.insert_watch_runs(stage.database, stage.clock.now - timedelta(seconds=60))


async def test_a_job_without_heartbeat_fails_and_its_neighbours_live(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    old = {"state_change_time": START - 5 * HOUR, "creation_time": START - 6 * HOUR, "status": "running"}
    silent = await rows.job(connection, task, heartbeat_at=START - 3 * HOUR, core_count=8, **old)
    never = await rows.job(connection, task, **old)
    spoke = await rows.job(connection, task, heartbeat_at=START - HOUR, **old)
    await seasoned(stage)

    (event,) = await stage.run(stage.expiring.watch_jobs)

    assert isinstance(event, JobsExpired) and event.job_ids == (silent, never)
    assert event.moves == (
        JobMove(
            task_id=task,
            queue="Q1",
            resource_type="SCORE",
            gshare="MC",
            user_name="alice",
            from_status="running",
            to_status="failed",
            n_jobs=2,
            n_cores=9,
        ),
    )
    found = await connection.fetchrow("SELECT * FROM jobs WHERE job_id = $1", silent)
    assert (found["status"], found["error_source"], found["end_time"]) == ("failed", "watchdog", START)
    assert "lost heartbeat" in found["error_dialog"]
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", spoke) == "running"
    logged = await connection.fetchrow(
        "SELECT * FROM transition_log WHERE coalesce(entity_ids, ARRAY[entity_id]) @> ARRAY[$1::bigint]", silent
    )
    assert (logged["actor"], logged["to_status"]) == ("watchdog", "failed") and "heartbeat" in logged["reason"]


async def test_a_lost_job_of_the_event_service_with_processed_ranges_waits_for_their_merge(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, event_service=1)
    old = {"state_change_time": START - 5 * HOUR, "heartbeat_at": START - 3 * HOUR, "status": "running"}
    with_ranges, without = await rows.job(connection, task, **old), await rows.job(connection, task, **old)
    for job_id, status in ((with_ranges, 3), (without, 2)):
        found = {
            "task_id": task,
            "dataset_id": 1,
            "file_id": job_id,
            "def_min_event_id": 1,
            "job_id": job_id,
            "status": status,
            "job_set_id": 1,
        }
        await rows.insert(connection, "event_ranges", found)
    await seasoned(stage)

    (event,) = await stage.run(stage.expiring.watch_jobs)

    assert sorted((move.to_status, move.n_jobs) for move in event.moves) == [("failed", 1), ("merging", 1)]
    states = await connection.fetch("SELECT status, end_time, error_source FROM jobs ORDER BY job_id")
    assert [tuple(row) for row in states] == [("merging", START, "watchdog"), ("failed", START, "watchdog")]


async def test_es_toolong_jobs_of_job_sets_end_after_24_hours_where_they_merge_or_have_high_priority(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, event_service=1)
    job_set = {"task_id": task, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1, "n_ranges": 1,
               "n_consumers": 1, "serials": {}, "queues": [], "created_at": START - 48 * HOUR}  # fmt: skip
    set_id = await rows.insert(connection, "job_sets", job_set, "job_set_id")
    found = []
    for role, priority, hours in (("merge", 100, 25), ("consumer", 900, 25), ("consumer", 899, 25), ("merge", 100, 23)):
        at = {"state_change_time": START - hours * HOUR, "start_time": START - hours * HOUR, "heartbeat_at": START}
        found.append(await rows.job(connection, task, status="running", current_priority=priority, **at))
        member = {"job_id": found[-1], "job_set_id": set_id, "task_id": task, "role": role, "attempt": 1}
        await rows.insert(connection, "job_set_jobs", member)
    await seasoned(stage)
    (event,) = await stage.run(stage.expiring.watch_jobs)
    assert sorted(event.job_ids) == found[:2] and event.moves[0].to_status == "closed"


async def test_running_it_again_changes_nothing(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await seasoned(stage)
    assert len(await stage.run(stage.expiring.watch_jobs)) == 1
    stage.clock.forward(seconds=61)
    assert await stage.run(stage.expiring.watch_jobs) == []


async def test_queued_jobs_are_closed_and_go_elsewhere(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    lost = await rows.job(connection, task, status="defined", state_change_time=START - 5 * HOUR)
    await rows.job(connection, task, status="activated", state_change_time=START - 5 * HOUR)
    urgent = await rows.job(
        connection, task, status="activated", state_change_time=START - 5 * HOUR, current_priority=900
    )
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    assert sorted(number for event in events for number in event.job_ids) == [lost, urgent]
    assert {event.moves[0].to_status for event in events} == {"closed"}


async def test_a_job_that_waits_for_jumbo_jobs_without_a_queue_does_not_expire(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task_id = await rows.task(connection)
    times = {"creation_time": START - 30 * 24 * HOUR, "state_change_time": START - 30 * 24 * HOUR}
    await rows.job(connection, task_id, status="waiting", queue=None, **times)
    with_queue = await rows.job(connection, task_id, status="waiting", **times)
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    assert [number for event in events for number in event.job_ids] == [with_queue]


async def test_a_job_whose_outputs_are_never_registered_ended_when_its_pilot_said_so(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    reported_at = START - 50 * HOUR
    job_id = await rows.job(connection, task, status="holding", state_change_time=reported_at, end_time=reported_at)
    await seasoned(stage)
    await stage.run(stage.expiring.watch_jobs)
    found = await connection.fetchrow("SELECT status, end_time FROM jobs WHERE job_id = $1", job_id)
    assert tuple(found) == ("failed", reported_at)


async def test_nothing_expires_at_a_paused_queue(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    record = {"atlas_site": "S", "status": "paused", "type": "unified"}
    await rows.insert(
        connection, "queues", {"queue": "Q1", "site": "S", "status": "paused", "type": "unified", "data": record}
    )
    second = {**record, "status": "online", "catchall": "disableReassign"}
    await rows.insert(
        connection, "queues", {"queue": "Q2", "site": "S", "status": "online", "type": "unified", "data": second}
    )
    for queue in ("Q1", "Q2"):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR, queue=queue)
    await seasoned(stage)
    assert await stage.run(stage.expiring.watch_jobs) == []


async def test_jobs_of_a_task_that_disables_reassignment_wait_where_they_are(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    stays = await rows.task(connection, split_rule={"disableReassign": True})
    goes = await rows.task(connection)
    old = START - 60 * HOUR
    waiting = [await rows.job(connection, task, status="activated", state_change_time=old) for task in (stays, goes)]
    silent = await rows.job(connection, stays, status="running", state_change_time=old, heartbeat_at=old)
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    assert sorted(number for event in events for number in event.job_ids) == [waiting[1], silent]


async def test_a_heartbeat_that_arrives_while_the_watchdog_judges_saves_the_job(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    number = await rows.job(
        connection, task, status="running", state_change_time=START - 5 * HOUR, heartbeat_at=START - 3 * HOUR
    )
    await seasoned(stage)
    async with stage.database.begin(reason="heartbeat") as pilot:
        await pilot.connection.execute("UPDATE jobs SET heartbeat_at = orrery_now() WHERE job_id = $1", number)
        # the row is locked by the heartbeat: the watchdog skips it instead of waiting
        events = await asyncio.wait_for(stage.run(stage.expiring.watch_jobs), 60)
    assert events == []
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", number) == "running"


async def test_after_our_own_outage_pilots_have_an_interval_and_the_time_to_try_again_to_come_back(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    for _ in range(3):
        await rows.job(
            connection, task, status="running", state_change_time=START - 9 * HOUR, heartbeat_at=START - 4 * HOUR
        )
    await rows.insert_watch_runs(stage.database, START - 4 * HOUR)

    assert await stage.run(stage.expiring.watch_jobs) == []
    grace = await connection.fetchrow("SELECT * FROM watch_runs WHERE watch = 'jobs'")
    assert grace["grace_until"] == START + timedelta(minutes=40) and "14400 s ago" in grace["grace_reason"]

    await rows.change(
        connection,
        "UPDATE jobs SET heartbeat_at = $1 WHERE job_id = (SELECT min(job_id) FROM jobs)",
        START + timedelta(minutes=10),
    )
    for _ in range(39):
        stage.clock.forward(seconds=61)
        assert await stage.run(stage.expiring.watch_jobs) == []
    stage.clock.forward(seconds=61)
    (event,) = await stage.run(stage.expiring.watch_jobs)
    assert len(event.job_ids) == 2


async def test_while_no_dispatcher_lives_nobody_loses_a_heartbeat(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    await rows.job(connection, task, status="running", state_change_time=START - 9 * HOUR)
    await rows.insert(connection, "dispatch_replicas", {"replica": "a", "seen_at": START - HOUR})
    await seasoned(stage)
    assert await stage.run(stage.expiring.watch_jobs) == []


async def test_an_event_and_a_slice_name_at_most_500_jobs(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    for _ in range(520):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    assert [len(event.job_ids) for event in events] == [500] == [event.moves[0].n_jobs for event in events]
    (rest,) = await stage.run(stage.expiring.watch_jobs)
    assert len(rest.job_ids) == 20


async def test_a_limit_and_a_period_are_runtime_parameters(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    await rows.job(connection, task, status="sent", state_change_time=START - timedelta(seconds=10))
    await stage.set("TIMEOUT_sent", 0.001, component="job_timeout", app="pandaserver")
    await stage.set("JOBS_PERIOD_S", 2)
    await rows.insert_watch_runs(stage.database, START - timedelta(seconds=3))
    assert len(await stage.run(stage.expiring.watch_jobs)) == 1
    assert await stage.run(stage.expiring.watch_jobs) == []


async def test_two_watchdogs_at_once_end_a_job_once(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    for _ in range(50):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await seasoned(stage)
    await asyncio.gather(*(stage.run(stage.expiring.watch_jobs) for _ in range(4)))
    logged = await stage.value(
        "SELECT sum(coalesce(cardinality(entity_ids), 1)) FROM transition_log"
        " WHERE entity = 'job' AND to_status = 'failed'"
    )
    assert logged == 50


async def test_a_timeout_of_0_ends_nothing(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    number = await rows.job(connection, task, status="sent", state_change_time=START - 99 * HOUR)
    await stage.set("TIMEOUT_sent", 0.0, component="job_timeout", app="pandaserver")
    await seasoned(stage)
    assert await stage.run(stage.expiring.watch_jobs) == []
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", number) == "sent"


async def test_a_job_that_changed_state_lately_is_closed_seven_days_after_its_creation(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    lately = {"status": "activated", "state_change_time": START - timedelta(minutes=5)}
    old = await rows.job(connection, task, creation_time=START - 169 * HOUR, **lately)
    await rows.job(connection, task, creation_time=START - 167 * HOUR, **lately)
    await seasoned(stage)
    (event,) = await stage.run(stage.expiring.watch_jobs)
    assert event.job_ids == (old,) and "168 h after its creation" in event.reason


async def test_all_due_jobs_end_in_one_turn_in_slices_of_their_own_transactions(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    for _ in range(250):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await stage.set("MAX_JOBS_PER_RUN", 100)
    await seasoned(stage)
    more, sizes = True, []
    while more:
        async with stage.database.begin(reason="periodic") as work:
            more = await stage.expiring.watch_jobs(work)
        sizes.append(sum(len(event.job_ids) for event in await stage.announced()))
    assert sizes == [100, 100, 50]
    assert await stage.run(stage.expiring.watch_jobs) == [], "the turn is over"


async def test_a_limit_that_is_switched_off_while_jobs_end_holds_for_those_that_are_left(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    for _ in range(3):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await stage.set("MAX_JOBS_PER_RUN", 1)
    await seasoned(stage)
    assert [len(event.job_ids) for event in await stage.run(stage.expiring.watch_jobs)] == [1]
    await stage.set("TIMEOUT_sent", 0.0, component="job_timeout", app="pandaserver")
    assert await stage.run(stage.expiring.watch_jobs) == []
    assert await stage.value("SELECT count(*) FROM jobs WHERE status = 'sent'") == 2


async def test_jobs_that_may_go_on_hide_none_that_may_not(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    record = {"atlas_site": "S", "status": "paused", "type": "unified"}
    await rows.insert(
        connection, "queues", {"queue": "PAUSED", "site": "S", "status": "paused", "type": "unified", "data": record}
    )
    for _ in range(30):
        await rows.job(connection, task, status="sent", queue="PAUSED", state_change_time=START - 9 * HOUR)
    due = await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await stage.set("MAX_JOBS_PER_RUN", 10)
    await seasoned(stage)
    found = [await stage.run(stage.expiring.watch_jobs) for _ in range(5)]
    assert [event.job_ids for events in found for event in events] == [(due,)]


async def test_a_slice_that_is_rolled_back_ends_in_the_same_turn(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    for _ in range(3):
        await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    await stage.set("MAX_JOBS_PER_RUN", 1)
    await seasoned(stage)
    assert [len(event.job_ids) for event in await stage.run(stage.expiring.watch_jobs)] == [1]
    with pytest.raises(ConnectionError):
        async with stage.database.begin(reason="periodic") as work:
            await stage.expiring.watch_jobs(work)
            raise ConnectionError("the lease was lost")
    more = True
    while more:
        async with stage.database.begin(reason="periodic") as work:
            more = await stage.expiring.watch_jobs(work)
    assert await stage.value("SELECT count(*) FROM jobs WHERE status = 'sent'") == 0
