"""Tasks that wait go on when their time has come, and say so."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from services.watchdog.store import due as store
from shared.events import TaskCompleted, TaskReleased
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

MINUTE = timedelta(minutes=1)


async def test_a_pending_task_goes_back_when_its_time_has_come(stage: Stage, connection: asyncpg.Connection) -> None:
    due = await rows.task(
        connection,
        status="pending",
        old_status="running",
        retry_at=START - MINUTE,
        state_change_time=START - 5 * MINUTE,
        error_dialog="no queue",
    )
    waits = await rows.task(connection, status="pending", old_status="ready", retry_at=START + MINUTE)
    (event,) = await stage.run(stage.watchdog.watch_tasks)
    assert isinstance(event, TaskReleased) and (event.task_id, event.status) == (due, "running")
    task = await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", due)
    assert (task["status"], task["old_status"], task["retry_at"]) == ("running", None, None)
    assert task["frozen_time"] == START - 5 * MINUTE and task["error_dialog"] == "no queue"
    assert await stage.value("SELECT status FROM tasks WHERE task_id = $1", waits) == "pending"


async def test_a_pending_task_without_a_time_waits_by_priority(stage: Stage, connection: asyncpg.Connection) -> None:
    values = {"status": "pending", "old_status": "ready", "state_change_time": START - 11 * MINUTE}
    urgent = await rows.task(connection, current_priority=950, **values)
    await rows.task(connection, current_priority=900, **values)
    await rows.task(connection, current_priority=100, **values)
    events = await stage.run(stage.watchdog.watch_tasks)
    assert [event.task_id for event in events] == [urgent]


async def test_a_task_pending_for_a_week_is_exhausted_and_keeps_its_reason(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(
        connection,
        status="pending",
        old_status="ready",
        retry_at=START,
        frozen_time=START - timedelta(days=8),
        error_dialog="no queue has the release",
    )
    (event,) = await stage.run(stage.watchdog.watch_tasks)
    assert event.model_dump(include={"task_id", "status"}) == {"task_id": task, "status": "exhausted"}
    assert isinstance(event, TaskCompleted)
    found = await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", task)
    assert (found["status"], found["old_status"]) == ("exhausted", "ready")
    assert "168 h" in found["error_dialog"] and "no queue has the release" in found["error_dialog"]


async def test_a_task_assigning_for_a_week_is_exhausted_and_keeps_its_reason(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    values = {"status": "assigning", "retry_at": START + MINUTE, "error_dialog": "no nucleus has the input"}
    old = await rows.task(connection, state_change_time=START - timedelta(days=8), **values)
    held_before = await rows.task(
        connection, state_change_time=START - MINUTE, frozen_time=START - timedelta(days=8), **values
    )
    await rows.task(connection, state_change_time=START - timedelta(days=6), **values)
    events = await stage.run(stage.watchdog.watch_tasks)
    assert [event.model_dump(include={"task_id", "status"}) for event in events] == [
        {"task_id": task, "status": "exhausted"} for task in (old, held_before)
    ]
    assert all(isinstance(event, TaskCompleted) for event in events)
    found = await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", old)
    assert (found["status"], found["old_status"], found["retry_at"]) == ("exhausted", "assigning", None)
    assert found["error_dialog"] == "assigning for more than 168 h: no nucleus has the input"


async def test_a_child_is_not_exhausted_while_its_parent_works(stage: Stage, connection: asyncpg.Connection) -> None:
    parent = await rows.task(connection, status="running")
    await rows.task(
        connection,
        status="pending",
        old_status="registered",
        retry_at=START,
        parent_tid=parent,
        frozen_time=START - timedelta(days=8),
    )
    (event,) = await stage.run(stage.watchdog.watch_tasks)
    assert isinstance(event, TaskReleased) and event.status == "registered"


async def test_a_task_that_waits_for_a_nucleus_is_looked_at_again_and_not_at_every_tick(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="assigning", retry_at=START)
    (event,) = await stage.run(stage.watchdog.watch_tasks)
    assert isinstance(event, TaskReleased) and (event.task_id, event.status) == (task, "assigning")
    stage.clock.forward(minutes=9)
    assert await stage.run(stage.watchdog.watch_tasks) == []
    stage.clock.forward(minutes=2)
    assert len(await stage.run(stage.watchdog.watch_tasks)) == 1


async def test_a_running_task_that_waits_for_a_queue_is_left_to_job_generation(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="running", retry_at=START)
    assert await stage.run(stage.watchdog.watch_tasks) == []
    found = await connection.fetchval("SELECT retry_at FROM tasks WHERE task_id = $1", task)
    assert found == START, "job generation's own look at it must not be put off"


async def test_a_chunk_of_which_jobs_were_made_makes_the_task_forget_how_long_it_waited(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    waited = START - timedelta(days=3)
    task = await rows.task(connection, status="running", frozen_time=waited)
    other = await rows.task(connection, status="running", frozen_time=waited)
    without_jobs = await rows.task(connection, status="running", frozen_time=waited)
    await rows.chunk(connection, task, status="used", n_jobs=1, ended_at=START - MINUTE)
    await rows.chunk(connection, other, status="returned", ended_at=START - MINUTE)
    await rows.chunk(connection, without_jobs, status="used", n_jobs=0, ended_at=START - MINUTE)
    await stage.run(stage.watchdog.watch_tasks)
    assert await stage.value("SELECT frozen_time FROM tasks WHERE task_id = $1", task) is None
    assert await stage.value("SELECT frozen_time FROM tasks WHERE task_id = $1", other) == waited
    assert await stage.value("SELECT frozen_time FROM tasks WHERE task_id = $1", without_jobs) == waited


async def test_a_task_that_asks_not_to_be_throttled_is_not_however_often_its_files_were_tried(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="running", max_attempt=20, num_throttled=None)
    data = await rows.dataset(connection, task)
    await rows.file(connection, task, data, attempt_nr=10, max_attempt=20)
    assert await stage.run(stage.watchdog.watch_attempts) == []
    assert await stage.value("SELECT status FROM tasks WHERE task_id = $1", task) == "running"


async def test_a_production_task_is_throttled_at_its_fifth_attempt_and_released_after_two_hours(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="running", max_attempt=10)
    analysis = {"task_type": "anal", "prod_source_label": "test"}
    user_task = await rows.task(connection, status="running", max_attempt=10, **analysis)
    for number in (task, user_task):
        data = await rows.dataset(connection, number)
        await rows.file(connection, number, data, attempt_nr=5, max_attempt=10)
    await stage.run(stage.watchdog.watch_attempts)
    found = await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", task)
    assert (found["status"], found["old_status"], found["num_throttled"]) == ("throttled", "running", 1)
    assert found["retry_at"] == START + timedelta(minutes=120) and found["throttled_time"] == START
    assert await stage.value("SELECT status FROM tasks WHERE task_id = $1", user_task) == "running"

    stage.clock.forward(minutes=119)
    assert await stage.run(stage.watchdog.watch_attempts) == []
    stage.clock.forward(minutes=6)
    (event,) = await stage.run(stage.watchdog.watch_attempts)
    assert isinstance(event, TaskReleased) and (event.task_id, event.status) == (task, "running")
    stage.clock.forward(minutes=6)
    await stage.run(stage.watchdog.watch_attempts)
    assert await stage.value("SELECT status FROM tasks WHERE task_id = $1", task) == "running"


async def moving(connection: asyncpg.Connection, task: int, gigabytes: int, **values: object) -> None:
    row = {
        "task_id": task, "job_id": await rows.job(connection, task, status="assigned"), "direction": "input",
        "activity": "Analysis Input", "destination_storage": "S_DATADISK", "n_files": 1,
        "n_bytes": gigabytes * 1024**3, "status": "active", **values,
    }  # fmt: skip
    await rows.insert(connection, "transfers", row)


async def test_analysis_of_a_user_with_too_much_input_under_way_pauses_until_that_is_less(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    of_users = {"task_type": "anal", "prod_source_label": "user", "status": "running"}
    first, second, _ = [await rows.task(connection, user_name="ada", **of_users) for _ in range(3)]
    other = await rows.task(connection, user_name="bob", **of_users)
    production = await rows.task(connection, user_name="ada", status="running")
    for task, gigabytes in ((first, 600), (second, 500), (other, 1000), (production, 9000)):
        await moving(connection, task, gigabytes)
    await moving(connection, first, 9000, status="done")
    await moving(connection, first, 9000, direction="output")

    async def states() -> list[str]:
        found = await connection.fetch("SELECT status FROM tasks ORDER BY task_id")
        return [row["status"] for row in found]

    await stage.run(stage.watchdog.watch_attempts)
    assert await states() == ["throttled", "throttled", "running", "running", "running"]
    found = await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", first)
    assert found["error_dialog"] == "1,100 GB are moved from disk for ada; allowed: 1024 GB"
    assert (found["old_status"], found["retry_at"]) == ("running", START + timedelta(minutes=120))
    for minutes, n_bytes in ((125, 600), (6, 400)):  # still too much after two hours, then just below the limit
        stage.clock.forward(minutes=minutes)
        await rows.change(
            connection, "UPDATE transfers SET n_bytes = $1 WHERE task_id = $2 AND status = 'active'"
            " AND direction = 'input'", n_bytes * 1024**3, first,
        )  # fmt: skip
        assert await stage.run(stage.watchdog.watch_attempts) == []
        assert (await states())[:2] == ["throttled", "throttled"]
    await rows.change(connection, "UPDATE transfers SET status = 'done' WHERE task_id = $1", second)
    stage.clock.forward(minutes=6)
    told = await stage.run(stage.watchdog.watch_attempts)
    assert [(event.task_id, event.status) for event in told] == [(first, "running"), (second, "running")]
    assert await states() == ["running"] * 5


async def test_tasks_whose_time_has_not_come_hide_none_whose_time_has(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TASKS", 3)
    values = {"status": "pending", "old_status": "ready", "state_change_time": START - 20 * MINUTE}
    for _ in range(5):
        await rows.task(connection, current_priority=940, **values)  # each waits 30 min
    due = await rows.task(
        connection, status="pending", old_status="ready", current_priority=1, state_change_time=START - 61 * MINUTE
    )
    assert [event.task_id for event in await stage.run(stage.watchdog.watch_tasks)] == [due]


async def test_a_task_pending_for_a_week_is_exhausted_before_its_next_try(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(
        connection,
        status="pending",
        old_status="ready",
        retry_at=START + 50 * MINUTE,
        frozen_time=START - timedelta(days=8),
    )
    (event,) = await stage.run(stage.watchdog.watch_tasks)
    assert (event.task_id, event.status) == (task, "exhausted")


async def test_more_due_tasks_than_fit_one_transaction_follow_at_once(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TASKS", 2)
    await rows.insert_watch_runs(stage.database, START - timedelta(seconds=60))
    for _ in range(5):
        await rows.task(connection, status="pending", old_status="ready", retry_at=START)
    released = [len(await stage.run(stage.watchdog.watch_tasks)) for _ in range(4)]
    assert released == [2, 2, 1, 0]


async def test_tasks_that_were_throttled_for_their_attempts_hide_none_that_were_not(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TASKS", 3)
    tasks = [
        await rows.task(connection, status="running", max_attempt=20, num_throttled=times) for times in (1, 1, 1, 1, 0)
    ]
    for task in tasks:
        dataset = await rows.dataset(connection, task)
        await rows.file(connection, task, dataset, attempt_nr=6, max_attempt=20)
    await stage.run(stage.watchdog.watch_attempts)
    throttled = await stage.value("SELECT array_agg(task_id) FROM tasks WHERE status = 'throttled'")
    assert throttled == tasks[-1:]


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice has time for one task."""
    monkeypatch.setattr("services.watchdog.acting.SLICE_S", -1.0)
    monkeypatch.setattr("services.watchdog.acting.FEWEST", 1)


async def test_a_slice_without_time_does_fifty_as_most_of_it_went_into_reading(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.acting.SLICE_S", -1.0)
    await rows.insert_watch_runs(stage.database, START - timedelta(seconds=60))
    for _ in range(60):
        await rows.task(connection, status="pending", old_status="ready", retry_at=START)
    assert [len(await stage.run(stage.watchdog.watch_tasks)) for _ in range(3)] == [50, 10, 0]


@pytest.mark.usefixtures("no_time")
async def test_a_slice_ends_with_its_time_and_the_next_one_follows_at_once(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await rows.insert_watch_runs(stage.database, START - timedelta(seconds=60))
    for _ in range(3):
        await rows.task(connection, status="pending", old_status="ready", retry_at=START)
    await rows.task(connection, status="assigning", state_change_time=START - timedelta(days=30))
    said = [[event.status for event in await stage.run(stage.watchdog.watch_tasks)] for _ in range(4)]
    assert said == [["ready", "exhausted"], ["ready"], ["ready"], []]


@pytest.mark.usefixtures("no_time")
async def test_tasks_that_are_throttled_and_let_go_take_a_slice_each(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await stage.run(stage.watchdog.watch_attempts)
    stage.clock.forward(minutes=6)
    for _ in range(2):
        task = await rows.task(connection, status="running", max_attempt=20)
        await rows.file(connection, task, await rows.dataset(connection, task), attempt_nr=10, max_attempt=20)
        await rows.task(connection, status="throttled", old_status="running", retry_at=START)
    found = []
    for _ in range(6):
        released = len(await stage.run(stage.watchdog.watch_attempts))
        found.append((await stage.value("SELECT count(*) FROM tasks WHERE status = 'throttled'"), released))
    assert found == [(3, 0), (4, 0), (3, 1), (2, 1), (2, 0), (2, 0)]


async def test_tasks_are_asked_about_that_were_tried_since_the_last_look_or_all_with_another_number_of_attempts(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="running", max_attempt=20, state_change_time=START - timedelta(days=1))
    file = await rows.file(connection, task, await rows.dataset(connection, task), attempt_nr=4, max_attempt=20)

    async def is_throttled(minutes: int = 6) -> bool:
        stage.clock.forward(minutes=minutes)
        await stage.run(stage.watchdog.watch_attempts)
        return bool(await stage.value("SELECT status = 'throttled' FROM tasks WHERE task_id = $1", task))

    assert not await is_throttled()
    await rows.change(connection, "UPDATE task_files SET attempt_nr = 5 WHERE file_id = $1", file)
    assert not await is_throttled(), "nobody wrote when that was"
    await rows.insert(connection, "task_job_counts", {"task_id": task, "tried_at": stage.clock.now})
    assert await is_throttled()
    assert not await is_throttled(minutes=121)
    await stage.set("THROTTLE_EVERY_ATTEMPTS", 2.0)
    assert await is_throttled()


async def test_a_task_that_somebody_works_on_is_waited_for_by_no_look(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    """Tasks are taken by their priority: who waited for one could be waited for by who takes them by id."""
    values = {"status": "pending", "old_status": "ready", "retry_at": START}
    first, second = [await rows.task(connection, current_priority=priority, **values) for priority in (100, 900)]
    third = await rows.task(connection, status="assigning", state_change_time=START - timedelta(days=30))
    reminded = await rows.task(connection, status="registered", retry_at=START)
    waits = await rows.task(connection, frozen_time=START - 5 * MINUTE)
    await rows.chunk(connection, waits, status="used", n_jobs=1, ended_at=START - MINUTE)
    async with stage.database.begin(reason="another") as work:
        await work.connection.execute("SELECT FROM tasks WHERE task_id <> $1 FOR UPDATE", second)
        told = await asyncio.wait_for(stage.run(stage.watchdog.watch_tasks), 20)
        assert [event.task_id for event in told] == [second]
    stage.clock.forward(seconds=6)
    told = await stage.run(stage.watchdog.watch_tasks)
    assert sorted(event.task_id for event in told) == [first, third, reminded]
    assert await stage.value("SELECT frozen_time FROM tasks WHERE task_id = $1", waits) is None
