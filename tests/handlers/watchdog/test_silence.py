"""Nobody is lost by our own fault: on the virtual clock, with the minutes in which pilots were heard."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from shared.timeouts.hearing import OutageTimes, hearings, look_back
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import HOUR, seasoned

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


async def heard(connection: asyncpg.Connection, vo: str, begins: int, ends: int) -> None:
    """A call was heard in each minute from so many before START to so many before it."""
    await connection.execute(
        "INSERT INTO heard_minutes SELECT $1, $2::timestamptz - make_interval(mins => k), 9"
        " FROM generate_series($4::int, $3::int) k ON CONFLICT DO NOTHING",
        vo,
        START,
        begins,
        ends,
    )


async def silent(connection: asyncpg.Connection, task: int, since: timedelta, **values: object) -> int:
    """A running job whose pilot was heard last so long before START."""
    old = {"status": "running", "state_change_time": START - 90 * HOUR, "creation_time": START - 90 * HOUR}
    return await rows.job(connection, task, heartbeat_at=START - since, **{**old, **values})


async def lost(stage: Stage) -> list[int]:
    await stage.value("DELETE FROM watch_runs")
    async with stage.database.read() as connection:
        await rows.ask_again(connection)
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    return sorted(job_id for event in events for job_id in event.job_ids)


async def test_minutes_without_a_dispatcher_do_not_count(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    await heard(connection, "", 500, 300)
    await heard(connection, "", 290, 100)
    await heard(connection, "", 98, 0)  # away for 9 minutes, and for one
    await silent(connection, task, 121 * MINUTE)
    late = await silent(connection, task, 121 * MINUTE + SECOND)
    assert await lost(stage) == [late]


async def test_after_an_outage_nobody_is_lost_before_it_could_report_and_then_they_end_over_an_interval(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    for number in range(40):
        await silent(connection, task, 419 * MINUTE, job_id=1_000_000 + 25 * number)
    await heard(connection, "", 700, 301)  # for 119 minutes of their limit of 120 they were silent
    await heard(connection, "", 0, -200)
    counts = []
    for minutes in (0, 39, 40, 55, 62.5, 70, 71):
        stage.clock.now = START + minutes * MINUTE
        counts.append(len(await lost(stage)))
    assert counts == [0, 0, 0, 20, 10, 10, 0]


async def test_a_vo_whose_road_is_broken_loses_nobody_until_that_is_given_up(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task, others = await rows.task(connection, vo="atlas"), await rows.task(connection, vo="cms")
    await heard(connection, "", 800, 0)
    await heard(connection, "cms", 800, 0)
    await heard(connection, "atlas", 800, 150)
    held, late = await silent(connection, task, 150 * MINUTE), await silent(connection, others, 150 * MINUTE)
    assert await lost(stage) == [late]
    await stage.set("UNHEARD_GIVEN_UP_S", 1800.0)
    assert await lost(stage) == [], "half an hour of 149 minutes does not count"
    await stage.set("UNHEARD_GIVEN_UP_S", 1680.0)
    assert await lost(stage) == [held]


async def test_what_is_an_outage_and_what_follows_are_parameters(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    await heard(connection, "", 500, 30)
    await heard(connection, "", 25, 0)  # 4 minutes are missing, which is more than DISPATCHER_SILENCE_S
    late = await silent(connection, task, 130 * MINUTE)
    assert await lost(stage) == []
    await stage.set("DISPATCHER_SILENCE_S", 300.0)
    assert await lost(stage) == [late]
    again = await silent(connection, task, 130 * MINUTE)
    await stage.set("DISPATCHER_SILENCE_S", 180.0)
    await stage.set("HEARTBEAT_RETRY_S", 0.0)
    await stage.set("HEARTBEAT_INTERVAL_S", 1200.0)
    await stage.set("EXPIRY_SPREAD_S", 0.0)
    assert await lost(stage) == [again]


async def test_no_job_is_sent_elsewhere_while_no_dispatcher_is_there_or_all_at_once_after_that(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection)
    old = {"status": "activated", "state_change_time": START - 50 * HOUR, "creation_time": START - 50 * HOUR}
    for number in range(40):
        await rows.job(connection, task, job_id=1_000_000 + 25 * number, **old)
    seen = START - timedelta(seconds=181)
    await rows.insert(connection, "dispatch_replicas", {"replica": "a", "seen_at": seen})
    await seasoned(stage)
    assert await stage.run(stage.expiring.watch_jobs) == []
    counts = []
    for minutes in (5, 15, 25, 35):
        stage.clock.now = START + minutes * MINUTE
        await connection.execute("UPDATE dispatch_replicas SET seen_at = $1", stage.clock.now)
        events = await stage.run(stage.expiring.watch_jobs)
        counts.append(sum(len(event.job_ids) for event in events))
    assert sum(counts) == 40 and max(counts) < 20


async def test_a_rule_that_a_vo_added_for_silent_pilots_counts_only_minutes_that_could_be_heard(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    rule = {"states": ["running"], "since": "heartbeat", "limit_h": 1.0, "next_state": "failed", "error_code": 1}
    await rows.insert(
        connection,
        "timeout_rules",
        {"rule": "impatient", "vo": "demo", "place": 1, "data": {**rule, "source": "a test", "when": {}}},
    )
    task = await rows.task(connection)
    await heard(connection, "", 900, 100)
    await heard(connection, "", 97, 50)
    await heard(connection, "", 47, 0)  # away for two minutes, twice
    await silent(connection, task, 62 * MINUTE)
    late = await silent(connection, task, 62 * MINUTE + SECOND)
    assert await lost(stage) == [late]
    await stage.value("DELETE FROM heard_minutes WHERE minute > $1", START - 40 * MINUTE)
    await silent(connection, task, 119 * MINUTE)
    assert await lost(stage) == [], "78 of them count, and after an outage twice the limit is needed"


@pytest.mark.parametrize("given_up_h", [6, 12])
async def test_when_a_broken_road_is_given_up_jobs_end_little_by_little_after_a_grace(
    stage: Stage, connection: asyncpg.Connection, given_up_h: int
) -> None:
    task = await rows.task(connection, vo="atlas")
    await stage.set("UNHEARD_GIVEN_UP_S", given_up_h * 3600.0)
    await heard(connection, "", 800, -1100)
    await heard(connection, "atlas", 800, 0)
    for number in range(40):  # of their limit of 120 minutes they used 119 before the road broke
        await silent(connection, task, 119 * MINUTE, job_id=1_000_000 + 25 * number)
    counts = []
    given_up = given_up_h * 60 + 1
    for minutes in (150, given_up - 1, given_up, given_up + 39, given_up + 40, given_up + 55, given_up + 70, 1100):
        stage.clock.now = START + minutes * MINUTE
        counts.append(len(await lost(stage)))
    assert counts == [0, 0, 0, 0, 0, 20, 20, 0]


async def test_a_vo_that_was_never_heard_again_is_known_by_its_last_minute(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    times = OutageTimes(given_up=24 * HOUR)
    await heard(connection, "", 5000, 0)
    await heard(connection, "cms", 5000, 0)
    await heard(connection, "atlas", 5000, 1200)
    found = await hearings(connection, START, look_back(2 * HOUR, times), times)
    assert sorted(found) == ["", "atlas"] and found["atlas"].deaf == ((START - 1199 * MINUTE, START),)
    await connection.execute("DELETE FROM heard_minutes WHERE vo = 'atlas' AND minute > $1", START - 3000 * MINUTE)
    found = await hearings(connection, START, look_back(2 * HOUR, times), times)
    assert found["atlas"].deaf == ((START - 2999 * MINUTE, START - 2999 * MINUTE + 24 * HOUR),)
