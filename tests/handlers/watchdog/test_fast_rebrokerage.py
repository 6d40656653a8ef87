"""Fast rebrokerage on a real database: from an overloaded queue to work that is made again elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry, Counter

from services.job_brokerage.app import build as build_job_brokerage
from services.task_definition.tasks.explaining import Explanation
from services.watchdog.expiring import ExpiringJobs
from shared.auth import Caller
from shared.brokerage.explained import explain_row
from shared.cache import NullCache
from shared.events import ChunkBrokered, ChunkOffered, Event, JobsExpired, JobsGenerated
from shared.runtime.service import Context
from shared.snapshot import KnownGrid
from tests import rows
from tests.databases import Databases
from tests.handlers.events import deliver, started
from tests.handlers.job_generation.story import Story, generated_in
from tests.handlers.watchdog.conftest import START, Stage

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LIMIT = "FAST_REBRO_THRESHOLD_NQUEUE_MC"


async def allow(stage: Stage, n_queued: float, key: str = LIMIT) -> None:
    await stage.set(key, n_queued, component="rebroker", app="pandaserver")


async def waiting(connection: asyncpg.Connection, task_id: int, count: int, **values: Any) -> list[int]:
    """So many waiting jobs at Q1, each created a minute after the one before, the first an hour ago."""
    begin = values.pop("creation_time", START - HOUR)
    return [
        await rows.job(connection, task_id, creation_time=begin + number * MINUTE, **values) for number in range(count)
    ]


@pytest.fixture
async def overloaded(stage: Stage, connection: asyncpg.Connection) -> list[int]:
    """Ten jobs of share MC wait at Q1, of which four may; oldest first."""
    await rows.insert(connection, "shares", {"gshare": "MC", "value": 100})
    await rows.insert(connection, "shares", {"gshare": "Express", "value": 10})
    await allow(stage, 4.0)
    return await waiting(connection, await rows.task(connection), 10)


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    """Job generation on the same database."""
    return await Story.begin(context, databases)


def closed_in(events: Sequence[Event]) -> list[int]:
    return sorted(number for event in events if isinstance(event, JobsExpired) for number in event.job_ids)


async def counted(stage: Stage) -> None:
    """The statistics are those of the jobs."""
    await stage.value("DELETE FROM queue_statistics")
    await stage.value(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
        " SELECT queue, resource_type, gshare, user_name, status, count(*), sum(core_count) FROM jobs"
        " WHERE deadline_at IS NOT NULL AND queue IS NOT NULL GROUP BY 1, 2, 3, 4, 5"
    )


async def run(stage: Stage) -> list[Event]:
    """One run, and what it announced."""
    await counted(stage)
    return await stage.run(stage.expiring.watch_overloaded_queues)


async def look(stage: Stage) -> list[int]:
    """One run; the jobs that it closed."""
    return closed_in(await run(stage))


async def test_the_oldest_waiting_jobs_are_closed_as_rebrokered_and_say_by_which_numbers(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    (event,) = await run(stage)
    assert isinstance(event, JobsExpired) and event.job_ids == tuple(overloaded[:6])
    (move,) = event.moves
    assert (move.queue, move.from_status, move.to_status, move.n_jobs) == ("Q1", "activated", "closed", 6)
    found = await connection.fetchrow("SELECT * FROM jobs WHERE job_id = $1", overloaded[0])
    assert (found["status"], found["error_source"], found["error_code"]) == ("closed", "watchdog", 130)
    reason = (
        "fast rebrokerage: 10 jobs of share MC waited at Q1, more than 3 x 0 running there, 0.3 x 10 waiting in the "
        "whole share, and the 4 that its queues may have"
    )
    logged = await connection.fetchrow("SELECT * FROM transition_log WHERE to_status = 'closed'")
    assert event.reason == found["error_dialog"] == logged["reason"] == reason
    assert stage.metrics.get_sample_value("expired_total", {"rule": "fast_rebrokerage"}) == 6


async def test_each_kind_of_waiting_job_counts_and_goes_and_no_other(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    task = await rows.task(connection)
    older = {"creation_time": START - 3 * HOUR}
    goes = [
        await rows.job(connection, task, status=status, **older)
        for status in ("defined", "assigned", "activated", "starting")
    ]
    for status in ("sent", "running", "holding", "transferring", "merging", "throttled", "pending", "waiting"):
        await rows.job(connection, task, status=status, **older)
    assert await look(stage) == sorted([*goes, *overloaded[:6]])
    left = await connection.fetch("SELECT status, count(*) AS n FROM jobs WHERE queue = 'Q1' GROUP BY status")
    assert {row["status"]: row["n"] for row in left} == {
        "closed": 10, "activated": 4, "sent": 1, "running": 1, "holding": 1, "transferring": 1, "merging": 1,
        "throttled": 1, "pending": 1, "waiting": 1,
    }  # fmt: skip


async def test_running_jobs_of_the_share_at_the_queue_are_what_the_ratio_compares_with(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    task = await rows.task(connection)
    for values in ({"queue": "Q2"}, {"gshare": "Express"}, {}, {}, {}):
        await rows.job(connection, task, status="running", **values)
    assert await look(stage) == overloaded[:1], "3 x 3 running may wait"


async def test_a_queue_with_its_part_of_what_waits_in_the_share_keeps_it(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    task = await rows.task(connection)
    await waiting(connection, task, 24, queue="Q2")
    await rows.job(connection, task, status="running", queue="Q2")
    await allow(stage, 0.8, "FAST_REBRO_THRESHOLD_NQUEUE_FRAC")
    assert await look(stage) == [], "24 of 34 are not 0.8 of them"


async def test_unless_the_share_defines_its_threshold_nothing_is_closed(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    await waiting(connection, await rows.task(connection), 20, gshare="Express")
    await connection.execute("DELETE FROM parameters WHERE key = $1", LIMIT)
    await stage.parameters.refresh(connection, force=True)
    assert await look(stage) == []


@pytest.mark.parametrize("slots", [{"n_slots": 0}, {"n_slots": 100, "resource_type": "MCORE"}])
async def test_a_queue_whose_slots_are_defined_is_left_alone_and_not_in_the_total(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int], slots: dict[str, Any]
) -> None:
    await waiting(connection, await rows.task(connection), 90, queue="Q_SLOTS")
    await rows.insert(connection, "queue_slots", {"queue": "Q_SLOTS", **slots, "valid_until": START + HOUR})
    assert await look(stage) == overloaded[:6]


async def test_a_queue_whose_slots_are_no_longer_valid_is_one_like_any_other(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    await rows.insert(connection, "queue_slots", {"queue": "Q1", "n_slots": 9, "valid_until": START - MINUTE})
    assert await look(stage) == overloaded[:6]


async def test_work_of_a_resource_queue_is_left_alone_and_not_counted(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    values = {"queue_id": 5, "queue_name": "hpc", "queue_type": "managed", "vo": "demo", "queue_function": "Resource"}
    await rows.insert(connection, "work_queues", values)
    await waiting(connection, await rows.task(connection, work_queue_id=5), 50, creation_time=START - 2 * HOUR)
    assert await look(stage) == overloaded[:6]


@pytest.mark.parametrize("changes", [{"status": "paused"}, {"catchall": "disableReassign"}])
async def test_no_job_goes_from_a_paused_queue_or_one_that_disables_reassignment(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int], changes: dict[str, str]
) -> None:
    record = {"atlas_site": "S", "type": "unified", "status": "online", **changes}
    values = {"queue": "Q1", "site": "S", "status": record["status"], "type": "unified", "data": record}
    await rows.insert(connection, "queues", values)
    assert await look(stage) == []


async def test_jobs_that_would_only_come_back_stay(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    older = {"creation_time": START - 3 * HOUR}
    await waiting(connection, await rows.task(connection, site="Q1"), 3, **older)
    await waiting(connection, await rows.task(connection), 3, job_type="merge", **older)
    several = await waiting(connection, await rows.task(connection, site="Q1,Q2"), 3, **older)
    assert await look(stage) == sorted([*overloaded, *several]), "12 too many, and no others may go"


async def test_work_that_came_back_to_the_queue_it_was_taken_from_stays_for_six_hours(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    task = await rows.task(connection)
    taken = {"status": "closed", "error_source": "watchdog", "end_time": START - HOUR}
    archived = await rows.archived_job(connection, task, error_code=130, **taken)
    live = await rows.job(connection, task, error_code=130, **taken)
    elsewhere = await rows.archived_job(connection, task, error_code=130, queue="Q2", **taken)
    timed_out = await rows.archived_job(connection, task, error_code=105, **taken)
    new = await waiting(connection, task, 4, creation_time=START - 3 * HOUR)
    for old_id, new_id in zip((archived, live, elsewhere, timed_out), new, strict=True):
        history = {"task_id": task, "old_job_id": old_id, "new_job_id": new_id}
        await rows.insert(connection, "job_retry_history", history)
    assert await look(stage) == sorted([*new[2:], *overloaded[:8]])
    await waiting(connection, task, 5)
    stage.clock.forward(hours=5, seconds=1)
    assert set(new[:2]) <= set(await look(stage))


async def test_a_job_that_a_pilot_takes_while_the_watchdog_judges_is_the_pilots(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    async with stage.database.begin(reason="acquire") as pilot:
        await pilot.connection.execute("UPDATE jobs SET status = 'sent' WHERE job_id = $1", overloaded[2])
        events = await asyncio.wait_for(run(stage), 60)
    assert closed_in(events) == [*overloaded[:2], *overloaded[3:6]]
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", overloaded[2]) == "sent"


async def test_the_next_look_is_forty_minutes_later_and_finds_nothing_left_to_do(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    assert len(await look(stage)) == 6
    await waiting(connection, await rows.task(connection), 3)
    stage.clock.forward(minutes=39)
    assert await look(stage) == []
    stage.clock.forward(minutes=1)
    assert len(await look(stage)) == 3
    stage.clock.forward(minutes=40)
    assert await look(stage) == []


async def test_a_run_closes_no_more_than_it_may_and_the_next_one_goes_on(stage: Stage, overloaded: list[int]) -> None:
    await stage.set("MAX_JOBS_PER_RUN", 4)
    assert await look(stage) == overloaded[:4]
    stage.clock.forward(minutes=40)
    assert await look(stage) == overloaded[4:6]


async def test_what_is_too_many_goes_in_slices_by_what_was_judged_at_the_turn(
    stage: Stage, overloaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 4)
    assert [await look(stage) for _ in range(3)] == [overloaded[:4], overloaded[4:6], []]


async def test_what_was_left_of_a_judgement_that_is_old_is_judged_anew(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had judged was killed: the rest does not wait for the next turn."""
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 4)
    await waiting(connection, await rows.task(connection), 2, queue="Q2")
    assert await look(stage) == overloaded[:4]
    await rows.change(connection, "UPDATE jobs SET status = 'sent' WHERE job_id = $1", overloaded[4])
    stage.clock.forward(seconds=61)
    assert await look(stage) == overloaded[5:6], "one went to a pilot, so that one is too many"
    assert await stage.value("SELECT count(*) FROM overloads") == 0
    stage.clock.forward(minutes=39)
    assert await look(stage) == []


async def test_judged_anew_no_more_are_closed_than_a_run_may(
    stage: Stage, overloaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 2)
    await stage.set("MAX_JOBS_PER_RUN", 4)
    closed = []
    for _ in range(4):
        closed.append(await look(stage))
        stage.clock.forward(seconds=61)
    assert closed == [overloaded[:2], overloaded[2:4], [], []], "6 are too many, and a run may close 4"


async def test_another_leader_goes_on_with_what_was_judged_and_judges_nothing_twice(
    stage: Stage, overloaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 2)
    await allow(stage, 0.6, "FAST_REBRO_THRESHOLD_NQUEUE_FRAC")
    assert await look(stage) == overloaded[:2]
    registry = CollectorRegistry()
    expired, skipped = (
        Counter(name, "", [label], registry=registry) for name, label in (("expired", "rule"), ("skipped", "vo"))
    )
    stage.expiring = ExpiringJobs(stage.parameters, KnownGrid(NullCache()), expired, skipped)
    assert await look(stage) == overloaded[2:4], "4 of 10 were too many; of the 8 that were left again 4 would be"
    assert await look(stage) == []


async def test_while_the_statistics_say_that_nobody_has_too_many_no_jobs_are_counted(
    stage: Stage, overloaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.run(stage.expiring.watch_overloaded_queues)
    assert await stage.value("SELECT count(*) FROM jobs WHERE status = 'closed'") == 0
    stage.clock.forward(minutes=40)
    await counted(stage)
    await stage.value("UPDATE queue_statistics SET n_jobs = 100")
    await stage.run(stage.expiring.watch_overloaded_queues)
    closed = await stage.value("SELECT array_agg(job_id ORDER BY job_id) FROM jobs WHERE status = 'closed'")
    assert closed == overloaded[:6], "by the jobs themselves, whatever the statistics say"


async def test_two_watchdogs_at_once_close_what_is_too_many_once(
    stage: Stage, connection: asyncpg.Connection, overloaded: list[int]
) -> None:
    await stage.set("FAST_REBRO_PERIOD_S", 0)
    await counted(stage)
    await asyncio.gather(*(stage.run(stage.expiring.watch_overloaded_queues) for _ in range(4)))
    assert await stage.value("SELECT count(*) FROM jobs WHERE status = 'closed'") == 6


async def attempts(story: Story, task_id: int) -> list[tuple[int, int, int]]:
    """The different (attempts, failed attempts, most attempts) of the task's input."""
    found = await story.fetch(
        "SELECT DISTINCT attempt_nr, failed_attempt, max_attempt FROM task_files WHERE task_id = $1 AND type = 'input'"
        " ORDER BY attempt_nr",
        task_id,
    )
    return [(row["attempt_nr"], row["failed_attempt"], row["max_attempt"]) for row in found]


async def brokered(story: Story, context: Context, happened: Sequence[Event], chunk: ChunkOffered) -> ChunkBrokered:
    """The job brokerage hears what happened to jobs and then decides on the chunk."""
    brokerage = build_job_brokerage(context)
    for event in happened:
        await deliver(story.database, brokerage, event)
    (said,) = await deliver(story.database, await started(brokerage), chunk)
    assert isinstance(said, ChunkBrokered)
    return said


async def test_closed_work_is_made_again_elsewhere_and_costs_its_owner_nothing(
    story: Story, context: Context, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Generation, job brokerage and watchdog on one database: 60 jobs at one queue of which 30 may wait there."""
    stage.clock.now = await story.value("SELECT orrery_now()")
    task_id = await story.task(n_files=60, nucleus="ALPHA")
    old = await story.jobs_of(task_id, "Q_ALPHA")
    await stage.announced()
    async with story.database.read() as connection:
        await rows.insert(connection, "shares", {"gshare": "MC", "value": 100})
    await allow(stage, 30.0)
    caplog.set_level("INFO")

    (expired,) = await run(stage)
    assert closed_in([expired]) == old[:30]
    await stage.value("DELETE FROM queue_statistics")  # brokerage hears of the same jobs below
    assert "30 closed of 30 too many" in caplog.text
    (chunk,) = [event for event in await story.hear(expired) if isinstance(event, ChunkOffered)]

    happened = [event for event in story.said if isinstance(event, JobsGenerated)]
    decided = await brokered(story, context, [*happened, expired], chunk)
    row = await story.fetch("SELECT * FROM brokerage_decisions WHERE decision_id = $1", decided.decision_id)
    checks = {entry["name"]: entry["check"] for entry in explain_row(row[0])}
    assert checks["Q_ALPHA/SCORE"] == "queued", "what is left there is more than brokerage lets wait"
    new = generated_in(await story.hear(decided))

    assert len(new) == 30 and await story.files(task_id) == ["running"] * 60
    assert await story.value("SELECT count(*) FROM jobs WHERE queue = 'Q_ALPHA' AND status = 'defined'") == 30
    history = "SELECT count(*) FROM job_retry_history WHERE old_job_id = ANY($1::bigint[]) AND new_job_id = ANY($2)"
    assert await story.value(history, old[:30], new) == 30
    assert await attempts(story, task_id) == [(0, 0, 3), (1, 0, 4)]
    avoided = "SELECT array_agg(DISTINCT avoided_site) FROM task_files WHERE task_id = $1 AND attempt_nr = 1"
    assert await story.value(avoided, task_id) == ["ALPHA"], "it is tried there only where there is no other site"
    async with story.database.read() as connection:
        explained = await Explanation(KnownGrid(NullCache())).job(connection, old[0], OPERATOR)
    assert explained is not None and "watchdog 130: fast rebrokerage: 60 jobs of share MC" in explained["text"]

    await story.end([*old[30:], *new], "finished")
    assert await story.files(task_id) == ["finished"] * 60
    assert await story.status(task_id) == "prepared"


async def test_work_that_is_sent_straight_back_is_taken_away_once_and_then_left_to_run(
    story: Story, stage: Stage
) -> None:
    stage.clock.now = await story.value("SELECT orrery_now()")
    task_id = await story.task(n_files=12)
    await story.jobs_of(task_id, "Q_ALPHA")
    await stage.announced()
    async with story.database.read() as connection:
        await rows.insert(connection, "shares", {"gshare": "MC", "value": 100})
    await allow(stage, 6.0)
    n_closed = []
    for _ in range(3):
        expired = await run(stage)
        n_closed.append(len(closed_in(expired)))
        for event in expired:
            for chunk in [said for said in await story.hear(event) if isinstance(said, ChunkOffered)]:
                await story.broker(task_id, chunk.chunk_id, "Q_ALPHA")
        await stage.announced()
        stage.clock.forward(minutes=40)
    assert n_closed == [6, 6, 0]
    assert await attempts(story, task_id) == [(1, 0, 4)]
    assert await story.files(task_id) == ["running"] * 12
