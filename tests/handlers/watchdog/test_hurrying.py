"""Analysis that is nearly done goes on in Express Analysis, just before and after each number."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from services.watchdog import hurrying
from services.watchdog.hurrying import Hurrying
from shared.db import UnitOfWork
from shared.events import TaskOrderRequested
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

HOUR = timedelta(hours=1)
USER, EXPRESS = "User Analysis", "Express Analysis"


@pytest.fixture
async def shares(connection: asyncpg.Connection) -> None:
    for name in (USER, EXPRESS):
        await rows.insert(connection, "shares", {"gshare": name, "value": 10})


async def task(connection: asyncpg.Connection, n_files: int, n_finished: int, **values: Any) -> int:
    """A running task of alice in User Analysis with so many files, one in a job."""
    progress = 100 * n_finished // n_files
    facts = {"status": "running", "task_type": "anal", "prod_source_label": "user", "gshare": USER,
             "user_name": "alice", "progress": progress, **values}  # fmt: skip
    task_id = await rows.task(connection, **facts)
    await rows.dataset(connection, task_id, type="input", n_files=n_files, n_files_finished=n_finished)
    return task_id


async def running(connection: asyncpg.Connection, n_cores: int, queue: str = "Q1") -> None:
    """So many cores of alice run there, at a site of which nothing is known (mid)."""
    values = {"queue": queue, "resource_type": "SCORE", "gshare": USER, "user_name": "alice", "vo": "demo",
              "status": "running", "n_jobs": n_cores, "n_cores": n_cores}  # fmt: skip
    await rows.insert(connection, "queue_statistics", values)


async def hurried(stage: Stage) -> dict[int, TaskOrderRequested]:
    stage.clock.forward(seconds=301)
    events = await stage.run(Hurrying(stage.parameters).watch_nearly_done)
    return {event.task_id: event for event in events if isinstance(event, TaskOrderRequested)}


@pytest.mark.usefixtures("shares")
async def test_a_task_of_class_a_goes_from_90_percent_on_with_at_most_500_jobs_left(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    nearly = await task(connection, 1000, 900)
    most = await task(connection, 5000, 4500)
    for n_files, n_finished in ((1000, 899), (5010, 4509), (1000, 1000)):
        await task(connection, n_files, n_finished)
    await task(connection, 1000, 950, gshare=EXPRESS)
    await task(connection, 1000, 950, status="exhausted")
    found = await hurried(stage)
    assert sorted(found) == [nearly, most]
    event = found[nearly]
    assert (event.gshare, event.max_walltime_h, event.priority, event.requested_by) == (EXPRESS, 1, None, "watchdog")
    assert event.reason == (
        "class S: 900 of 1000 files finished, 100 jobs left; its user has 0 slots at hi and 0 at mid sites"
    )


@pytest.mark.usefixtures("shares")
async def test_a_parameter_says_from_what_on(stage: Stage, connection: asyncpg.Connection) -> None:
    one = await task(connection, 1000, 850)
    await stage.set("PROGRESS_TO_BOOST_A", 85.1, component="analy_eval", app="pandaserver")
    assert await hurried(stage) == {}
    await stage.set("PROGRESS_TO_BOOST_A", 85.0, component="analy_eval", app="pandaserver")
    assert sorted(await hurried(stage)) == [one]


@pytest.mark.usefixtures("shares")
@pytest.mark.parametrize(
    ("rules", "walltime_h"),
    [({}, 1), ({"nFilesPerJob": 2}, None), ({"nEventsPerJob": 50}, None), ({"maxWalltime": 12}, 1),
     ({"maxWalltime": 1}, None)],
)  # fmt: skip
async def test_jobs_are_made_for_an_hour_unless_the_task_says_how_large_they_are(
    stage: Stage, connection: asyncpg.Connection, rules: dict[str, Any], walltime_h: int | None
) -> None:
    one = await task(connection, 1000, 900, split_rule=rules)
    assert (await hurried(stage))[one].max_walltime_h == walltime_h


@pytest.mark.usefixtures("shares")
async def test_a_user_with_many_slots_is_of_class_b_or_c(stage: Stage, connection: asyncpg.Connection) -> None:
    await stage.set("USER_USAGE_THRESHOLD_A", 0, component="analy_eval", app="pandaserver")
    await stage.set("USER_USAGE_THRESHOLD_B", 100, component="analy_eval", app="pandaserver")
    await running(connection, 99)
    before, after = await task(connection, 1000, 949), await task(connection, 1000, 950)
    many, few = await task(connection, 4020, 3819), await task(connection, 4000, 3800)
    assert sorted(await hurried(stage)) == [after, few], f"not {before} with 94.9 %, {many} with 201 jobs left"
    await running(connection, 1, "Q2")
    assert await hurried(stage) == {}, "100 slots: class C"


async def test_without_the_share_nothing_is_asked(stage: Stage, connection: asyncpg.Connection) -> None:
    await rows.insert(connection, "shares", {"gshare": USER, "value": 10})
    await task(connection, 1000, 900)
    assert await hurried(stage) == {}


@pytest.mark.usefixtures("shares")
async def test_a_vo_may_say_a_smaller_percentage_than_all_others(stage: Stage, connection: asyncpg.Connection) -> None:
    one = await task(connection, 1000, 850, vo="own")
    await task(connection, 1000, 850)
    stage.parameters.set_for_test("analy_eval", "PROGRESS_TO_BOOST_A", 85.0, app="pandaserver", vo="own")
    assert sorted(await hurried(stage)) == [one]


@pytest.mark.usefixtures("shares")
async def test_each_slice_of_a_round_follows_the_last_that_was_committed(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hurrying, "SLICE", 2)
    tasks = [await task(connection, 1000, 950, user_name=f"u{number}") for number in range(5)]
    mine, other = Hurrying(stage.parameters), Hurrying(stage.parameters)
    await stage.value("INSERT INTO watch_runs (watch, last_run_at) VALUES ('nearly_done', $1)", START - HOUR)

    async def found(by: Hurrying) -> list[int]:
        events = await stage.run(by.watch_nearly_done)
        return [event.task_id for event in events if isinstance(event, TaskOrderRequested)]

    async def in_vain(work: UnitOfWork) -> None:
        await mine.watch_nearly_done(work)
        raise ConnectionError("before the commit")

    with pytest.raises(ConnectionError):
        await stage.run(in_vain)
    assert await found(mine) == tasks[:2], "what was not committed is done again"
    assert await found(other) == tasks[:2], "another replica begins anew"
    assert [await found(mine), await found(mine)] == [tasks[2:4], tasks[4:]]
    stage.clock.forward(seconds=301)
    assert await found(other) == tasks[:2], "a new round begins with the first"
