"""Rules that look beyond the job's own row, on the virtual clock just before and just after each limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests import rows
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import HOUR, seasoned

DAY = 24 * HOUR
SECOND = timedelta(seconds=1)


async def ended(stage: Stage) -> dict[int, str]:
    """The jobs that the next looks end, and the state they go to."""
    async with stage.database.read() as connection:
        await rows.ask_again(connection)
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    return {job_id: event.moves[0].to_status for event in events for job_id in event.job_ids}


async def queue(connection: asyncpg.Connection, name: str, **record: Any) -> None:
    data = {"atlas_site": "S", "status": "online", "type": "unified", **record}
    values = {"queue": name, "site": "S", "status": data["status"], "type": "unified", "data": data}
    await rows.insert(connection, "queues", values)


async def before_and_after(connection: asyncpg.Connection, task: int, limit: timedelta, **values: Any) -> list[int]:
    """Two jobs: one that has reached the limit, and one that has passed it."""
    times = [START - limit, START - limit - SECOND]
    return [
        await rows.job(connection, task, **{"state_change_time": at, "creation_time": at, "heartbeat_at": at, **values})
        for at in times
    ]


@pytest.mark.parametrize(("label", "limit"), [("managed", 21 * DAY), ("user", 7 * DAY)])
async def test_a_job_that_waits_for_a_merge_ends_after_its_limit(
    stage: Stage, connection: asyncpg.Connection, label: str, limit: timedelta
) -> None:
    task = await rows.task(connection)
    values = {"status": "merging", "prod_source_label": label, "heartbeat_at": None}
    _, late = await before_and_after(connection, task, limit, **values)
    assert await ended(stage) == {late: "failed"}


async def test_an_active_job_ends_21_days_after_its_creation_whatever_it_did_since(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    lately = {"state_change_time": START - HOUR, "heartbeat_at": START}
    for status in ("running", "starting", "holding", "transferring"):
        _, late = await before_and_after(connection, task, 21 * DAY, status=status, **lately)
        assert await ended(stage) == {late: "failed"}
        await connection.execute("DELETE FROM watch_runs")


@pytest.mark.parametrize("status", ["offline", "test"])
async def test_urgent_jobs_at_a_queue_that_is_closed_go_elsewhere_after_4_hours(
    stage: Stage, connection: asyncpg.Connection, status: str
) -> None:
    task = await rows.task(connection)
    await queue(connection, "CLOSED", status=status)
    await rows.insert(connection, "queue_activity", {"queue": "CLOSED", "last_job_start_at": START})
    _, late = await before_and_after(connection, task, 4 * HOUR, queue="CLOSED", current_priority=800)
    await before_and_after(connection, task, 4 * HOUR, queue="CLOSED", current_priority=799)
    assert await ended(stage) == {late: "closed"}


async def test_a_job_with_its_own_stage_out_is_lost_with_the_heartbeats_of_its_workflow(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    await queue(connection, "PUSH", workflow="push")
    await stage.set("HEARTBEAT_TIMEOUT_push", 6.0, component="watcher", app="pandaserver")
    own = await before_and_after(connection, task, 6 * HOUR, queue="PUSH", status="transferring")
    others = await before_and_after(connection, task, 6 * HOUR, status="transferring")
    without = await before_and_after(connection, task, 6 * HOUR, queue="PUSH", status="transferring")
    for job_id in [*own, *others, *without]:
        said = {} if job_id in without else {"job_sub_status": "stage_out"}
        report = {"job_id": job_id, "attempt_number": 1, "state": "finished", "report": said}
        await rows.insert(connection, "job_reports", report)
    assert await ended(stage) == {own[1]: "failed"}


async def merging(connection: asyncpg.Connection, task: int, since: timedelta, **producer: Any) -> int:
    """A merge job that waits for a pilot, and the job whose output it merges."""
    of = await rows.job(connection, task, **producer)
    data = await rows.dataset(connection, task, type="trn_output")
    file = await rows.file(connection, task, data, type="trn_output", out_job_id=of)
    times = {"state_change_time": START - since, "creation_time": START - since}
    merge = await rows.job(connection, task, job_type="merge", **times)
    await rows.job_file(connection, merge, file)
    return merge


async def test_a_merge_job_that_nobody_waits_for_goes_after_30_minutes(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task, half = await rows.task(connection), timedelta(minutes=30)
    killed = {"status": "cancelled", "state_change_time": START - 2 * HOUR}
    late = await merging(connection, task, half + SECOND, **killed)
    await merging(connection, task, half, **killed)
    await merging(connection, task, HOUR, status="merging", state_change_time=START - 2 * HOUR)
    await merging(connection, task, HOUR, **{**killed, "state_change_time": START - half + SECOND})
    archived = await merging(connection, task, HOUR, **killed)
    await connection.execute(
        "DELETE FROM jobs USING task_files f, job_files o"
        " WHERE o.job_id = $1 AND f.file_id = o.file_id AND jobs.job_id = f.out_job_id",
        archived,
    )
    await rows.job(connection, task, job_type="merge", state_change_time=START - HOUR)
    assert await ended(stage) == {late: "closed", archived: "closed"}


@pytest.mark.parametrize("waits", ["request", "deferred", "parked"])
async def test_a_holding_job_does_not_end_while_its_report_waits_for_us(
    stage: Stage, connection: asyncpg.Connection, waits: str
) -> None:
    task, free = await rows.task(connection), await rows.task(connection)
    values = {"status": "holding", "current_priority": 800}
    _, held = await before_and_after(connection, task, 3 * HOUR, **values)
    _, late = await before_and_after(connection, free, 3 * HOUR, **values)
    message = {"event_id": 1, "consumer": "task-definition.outputs-produced", "routing_key": "outputs.produced.v1",
               "body": "{}", "reason": "away", "task_ids": [task]}  # fmt: skip
    row: tuple[str, dict[str, Any]] = {
        "request": ("catalogue_requests", {"vo": "demo", "task_id": task, "kind": "add_files", "subject": "1 jobs",
                                           "details": {"job_ids": [held]}}),
        "deferred": ("deferred_messages", {**message, "retry_at": START}),
        "parked": ("parked_messages", message),
    }[waits]  # fmt: skip
    await rows.insert(connection, *row)
    assert await ended(stage) == {late: "failed"}
    await connection.execute(f"DELETE FROM {row[0]}")
    await connection.execute("DELETE FROM watch_runs")
    assert await ended(stage) == {held: "failed"}


@pytest.mark.parametrize(("priority", "limit"), [(800, 3 * HOUR), (799, 48 * HOUR)])
async def test_a_holding_job_whose_final_report_is_stored_does_not_end_however_long_its_message_is_on_its_way(
    stage: Stage, connection: asyncpg.Connection, priority: int, limit: timedelta
) -> None:
    task = await rows.task(connection)
    values = {"status": "holding", "current_priority": priority}
    _, held = await before_and_after(connection, task, limit, **values)
    _, failed = await before_and_after(connection, task, limit, **values)
    _, late = await before_and_after(connection, task, limit, **values)
    for job_id, state in ((held, "finished"), (failed, "failed"), (late, "late")):
        await rows.insert(
            connection, "job_reports", {"job_id": job_id, "attempt_number": 1, "state": state, "report": {}}
        )
    assert await ended(stage) == {late: "failed"}
    await connection.execute("DELETE FROM job_reports WHERE job_id = $1", held)
    await connection.execute("DELETE FROM watch_runs")
    assert await ended(stage) == {held: "failed"}


@pytest.mark.parametrize("record", [{"status": "paused"}, {"catchall": "disableReassign"}])
async def test_a_queue_that_left_the_grid_keeps_its_exemption_for_a_week(
    stage: Stage, connection: asyncpg.Connection, record: dict[str, str]
) -> None:
    task = await rows.task(connection)
    data = {"atlas_site": "S", "status": "online", "type": "unified", **record}
    for name, since in (("LATELY", START - 7 * DAY + SECOND), ("GONE", START - 7 * DAY - SECOND)):
        await rows.insert(connection, "absent_queues", {"queue": name, "data": data, "absent_since": since})
    values = {"status": "sent", "state_change_time": START - HOUR}
    await rows.job(connection, task, queue="LATELY", **values)
    late = await rows.job(connection, task, queue="GONE", **values)
    assert await ended(stage) == {late: "failed"}


async def test_a_queue_that_left_keeps_the_heartbeat_limit_of_its_workflow(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    data = {"atlas_site": "S", "status": "online", "type": "unified", "workflow": "push"}
    await rows.insert(connection, "absent_queues", {"queue": "LEFT", "data": data, "absent_since": START - HOUR})
    await stage.set("HEARTBEAT_TIMEOUT_push", 6.0, component="watcher", app="pandaserver")
    _, late = await before_and_after(connection, task, 6 * HOUR, queue="LEFT", status="running")
    assert await ended(stage) == {late: "failed"}
