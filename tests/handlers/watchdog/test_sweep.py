"""What nobody seems to have heard is said again: each kind of row, its event, and at growing intervals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from prometheus_client import Counter

from services.watchdog import sweeping as sweeps
from services.watchdog.acting import TICK_S
from services.watchdog.handlers import Watchdog
from services.watchdog.parameters import SWEEP_AGE_S
from services.watchdog.sweeping import SWEEPS, Sweep
from shared.cache import NullCache
from shared.events import (
    ChunkOffered,
    ChunkUnplaceable,
    Event,
    JobsFailed,
    JobsFinished,
    JobsGenerated,
    JobsMerging,
    OutputsProduced,
    TaskCommanded,
    TaskCommandRequested,
    TaskDefined,
    TaskPrepared,
    TaskProgressed,
    TaskReady,
    TaskRegistered,
    TaskReleased,
    TransfersCompleted,
    TransfersRequested,
)
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

OLD = START - timedelta(seconds=90)
Plant = Callable[[asyncpg.Connection], Awaitable[list[tuple[type[Event], dict[str, object]]]]]


def task_in(status: str, kind: type[Event], **values: object) -> Plant:
    async def plant(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
        task = await rows.task(connection, status=status, state_change_time=OLD, **values)
        return [(kind, {"task_id": task})]

    return plant


async def idle_task(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection, status="running", state_change_time=OLD)
    await rows.dataset(connection, task, n_files=5, n_files_to_be_used=5, n_files_used=3)
    await rows.job(connection, task, status="activated")
    return [(TaskReleased, {"task_id": task, "status": "running"})]


def leaving_task(status: str, command: str, **said: object) -> Plant:
    async def plant(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
        details = {"soft": False} if said else None
        task = await rows.task(connection, status=status, state_change_time=OLD, command_details=details)
        await rows.job(connection, task, status="activated")
        return [
            (TaskCommanded, {"task_id": task, "command": command, **said}),
            (TaskProgressed, {"task_id": task, "live_jobs": 1}),
        ]

    return plant


async def ended_task_with_a_job(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection, status="aborted", state_change_time=OLD)
    await rows.job(connection, task, status="activated")
    return [(TaskCommanded, {"task_id": task, "command": "kill"})]


async def paused_task_with_an_activated_job(
    connection: asyncpg.Connection,
) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection, status="paused", old_status="running", state_change_time=OLD)
    await rows.job(connection, task, status="activated", state_change_time=OLD)
    return [(TaskCommanded, {"task_id": task, "command": "pause"})]


async def long_paused_task_with_an_assigned_job(
    connection: asyncpg.Connection,
) -> list[tuple[type[Event], dict[str, object]]]:
    long_ago = START - timedelta(minutes=11)
    task = await rows.task(connection, status="paused", old_status="running", state_change_time=long_ago)
    await rows.job(connection, task, status="assigned", state_change_time=long_ago)
    lately = await rows.task(connection, status="paused", old_status="running", state_change_time=OLD)
    await rows.job(connection, lately, status="assigned", state_change_time=long_ago)
    running = await rows.task(connection, status="paused", old_status="running", state_change_time=long_ago)
    await rows.job(connection, running, status="running", state_change_time=long_ago)
    return [(TaskCommanded, {"task_id": task, "command": "give_back"})]


async def resumed_task_with_a_throttled_job(
    connection: asyncpg.Connection,
) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection, status="running", state_change_time=START)
    await rows.job(connection, task, status="throttled", state_change_time=OLD)
    paused = await rows.task(connection, status="paused", old_status="running", state_change_time=OLD)
    await rows.job(connection, paused, status="throttled", state_change_time=OLD)
    of_a_capped_user = await rows.task(connection, status="running", task_type="anal", state_change_time=START)
    await rows.job(connection, of_a_capped_user, status="throttled", state_change_time=OLD)
    counted = {"queue": "Q1", "resource_type": "SCORE", "gshare": "MC", "user_name": "alice", "vo": "demo"}
    await rows.insert(connection, "queue_statistics", {**counted, "status": "throttled", "n_jobs": 3, "n_cores": 3})
    return [(TaskCommanded, {"task_id": task, "command": "resume"})]


async def offered_chunk(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection)
    number = await rows.chunk(connection, task, offered_at=OLD, created_at=OLD)
    return [(ChunkOffered, {"chunk_id": number, "task_id": task})]


async def stale_chunk(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection)
    old = START - timedelta(minutes=31)
    number = await rows.chunk(connection, task, offered_at=old, created_at=old)
    given_back = {"chunk_id": number, "task_id": task, "jumbo_queues": None}  # no brokerage decided about them
    return [(ChunkOffered, {"chunk_id": number}), (ChunkUnplaceable, given_back)]


def job_in(status: str, kind: type[Event], **values: object) -> Plant:
    async def plant(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
        task = await rows.task(connection)
        number = await rows.job(connection, task, status=status, state_change_time=OLD, **values)
        return [(kind, {"job_ids": (number,)})]

    return plant


async def unmerged_job(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection)
    number = await rows.job(connection, task, status="merging", state_change_time=OLD)
    data = await rows.dataset(connection, task, type="trn_output")
    await rows.file(connection, task, data, type="trn_output", status="running", out_job_id=number)
    return [(JobsMerging, {"job_ids": (number,)})]


async def transfer(connection: asyncpg.Connection, job: int, **values: object) -> int:
    number = await connection.fetchval("SELECT nextval('transfer_ids')")
    row = {
        "transfer_id": number,
        "task_id": 1,
        "job_id": job,
        "direction": "input",
        "activity": "Production Input",
        "destination_storage": "S",
        "n_files": 1,
        "n_bytes": 1,
        "status": "requested",
        "requested_at": OLD,
    }
    return await rows.insert(connection, "transfers", {**row, **values}, "transfer_id")


async def requested_transfer(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    return [(TransfersRequested, {"transfer_ids": (await transfer(connection, 1),)})]


async def moved_jobs(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    task = await rows.task(connection)
    arrived, lost, waiting = [
        await rows.job(connection, task, status="assigned", state_change_time=OLD) for _ in range(3)
    ]
    numbers = [
        await transfer(connection, arrived, status="done", completed_at=OLD),
        await transfer(connection, lost, status="failed", completed_at=OLD),
    ]
    await transfer(connection, waiting, status="done", completed_at=OLD)
    await transfer(connection, waiting, status="active")
    return [
        (TransfersCompleted,
         {"transfer_ids": tuple(numbers), "job_ids": (arrived,), "failed_job_ids": (lost,)})
    ]  # fmt: skip


async def task_at_goal(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    values = {"status": "running", "state_change_time": START - timedelta(hours=2), "goal": 900}
    for n_finished in (89, 90):
        task = await rows.task(connection, **values)
        await rows.dataset(
            connection, task, n_files=100, n_files_to_be_used=100, n_files_used=100, n_files_finished=n_finished
        )
        await rows.job(connection, task, status="activated")
    return [(TaskCommandRequested, {"task_id": task, "command": "finish", "requested_by": "watchdog"})]


async def task_with_a_condition(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    """90 of 100 files have 40 of 100 events: enough of files, not of events."""
    for condition in ("90% of events", "91% of files", "90% of files"):
        task = await rows.task(
            connection, status="running", state_change_time=START - timedelta(hours=2), term_condition=condition
        )
        await a_dataset_of_events(connection, task, n_finished=90, n_events_finished=40)
    return [
        (
            TaskCommandRequested,
            {"task_id": task, "reason": "condition of 90% of files reached: 90 of 100 units of input"},
        )
    ]


async def task_at_goal_by_events(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    """What its final status would count: 50 of 100 files have 900 of 1000 events, as wanted."""
    for n_files, n_events in ((95, 899), (50, 900)):
        task = await rows.task(connection, status="running", state_change_time=START - timedelta(hours=2), goal=900)
        await a_dataset_of_events(connection, task, n_finished=n_files, n_events_finished=n_events, n_events=1000)
    return [(TaskCommandRequested, {"task_id": task, "reason": "goal of 90 % reached: 50 of 100 units of input"})]


async def a_dataset_of_events(
    connection: asyncpg.Connection, task: int, *, n_finished: int, n_events_finished: int, n_events: int = 100
) -> None:
    """100 files, all of them used; two rows stand for those that are finished."""
    dataset = await rows.dataset(
        connection, task, n_files=100, n_files_to_be_used=100, n_files_used=100, n_files_finished=n_finished,
        n_events=n_events, n_events_used=n_events,
    )  # fmt: skip
    for part in (1, n_events_finished - 1):
        await rows.file(connection, task, dataset, status="finished", n_events=part)
    await rows.job(connection, task, status="activated")


async def long_exhausted_task(connection: asyncpg.Connection) -> list[tuple[type[Event], dict[str, object]]]:
    old = START - timedelta(days=11)
    task = await rows.task(connection, status="exhausted", state_change_time=old)
    await rows.task(connection, status="exhausted", state_change_time=old, split_rule={"disableAutoFinish": True})
    return [(TaskCommandRequested, {"task_id": task, "command": "finish"})]


PLANTS: dict[str, Plant] = {
    "registered_tasks": task_in("registered", TaskRegistered),
    "half_defined_tasks": task_in("defined", TaskReleased),
    "assigning_tasks": task_in("assigning", TaskDefined),
    "ready_tasks": task_in("ready", TaskReady, nucleus="N1"),
    "idle_tasks": idle_task,
    "offered_chunks": offered_chunk,
    "stale_chunks": stale_chunk,
    "defined_jobs": job_in("defined", JobsGenerated, chunk_id=7),
    "holding_jobs": job_in("holding", OutputsProduced),
    "unmerged_jobs": unmerged_job,
    "uncounted_jobs": job_in("finished", JobsFinished),
    "uncounted_jobs closed": job_in("closed", JobsFailed),
    "requested_transfers": requested_transfer,
    "moved_jobs": moved_jobs,
    "prepared_tasks": task_in("prepared", TaskPrepared),
    "leaving_tasks": leaving_task("aborting", "kill"),
    "leaving_tasks broken": leaving_task("tobroken", "kill"),
    "leaving_tasks finishing": leaving_task("finishing", "finish", soft=False),
    "leaving_tasks reassigning": leaving_task("reassigning", "reassign", soft=False),
    "paused_tasks": paused_task_with_an_activated_job,
    "long_paused_tasks": long_paused_task_with_an_assigned_job,
    "resumed_tasks": resumed_task_with_a_throttled_job,
    "jobs_of_ended_tasks": ended_task_with_a_job,
    "tasks_at_goal": task_at_goal,
    "tasks_at_goal by events": task_at_goal_by_events,
    "tasks_at_goal by a condition": task_with_a_condition,
    "exhausted_tasks": long_exhausted_task,
}


def test_every_kind_has_a_test() -> None:
    assert {name.split()[0] for name in PLANTS} == {sweep.kind for sweep in SWEEPS}


@pytest.mark.parametrize("name", sorted(PLANTS))
async def test_a_row_that_waits_for_an_event_is_announced_again(
    stage: Stage, connection: asyncpg.Connection, name: str
) -> None:
    # the idle task of some stories has jobs and no chunk on purpose: only the planted kinds may speak
    expected = await PLANTS[name](connection)
    await rows.change(
        connection,
        "UPDATE tasks SET state_change_time = $1 WHERE status = 'running' AND goal IS NULL AND term_condition IS NULL"
        " AND NOT EXISTS (SELECT FROM task_datasets d WHERE d.task_id = tasks.task_id"
        " AND d.type = 'input')",
        START,
    )
    found = await stage.sweep()
    assert [type(event) for event in found] == [kind for kind, _ in expected]
    for event, (_, values) in zip(found, expected, strict=True):
        assert {key: getattr(event, key) for key in values} == values
        assert getattr(event, "moves", ()) == ()


async def test_a_young_row_is_left_alone_and_an_old_one_waits_longer_each_time(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await stage.set("SWEEP_AGE_S", 60.0)
    await rows.task(connection, status="registered", state_change_time=START)
    announced_at = []
    for minute in range(40):
        if await stage.sweep():
            announced_at.append(minute)
        stage.clock.forward(seconds=60)
    assert announced_at == [2, 4, 8, 16, 32]


async def test_a_task_that_the_sweep_looks_at_knows_when(stage: Stage, connection: asyncpg.Connection) -> None:
    stuck = await rows.task(connection, status="registered", state_change_time=OLD)
    young = await rows.task(connection, status="registered", state_change_time=START)
    await rows.job(connection, young, status="holding", state_change_time=OLD)
    await stage.sweep()
    found = await connection.fetch("SELECT task_id, rescue_time FROM tasks ORDER BY task_id")
    assert [tuple(row) for row in found] == [(stuck, START), (young, None)]


async def test_a_row_that_came_back_into_the_state_is_new(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection, status="ready", state_change_time=OLD)
    for _ in range(5):
        await stage.sweep()
        stage.clock.forward(minutes=2)
    await rows.change(connection, "UPDATE tasks SET state_change_time = $1", stage.clock.now)
    stage.clock.forward(seconds=61)
    (event,) = await stage.sweep()
    assert event.task_id == task
    assert await stage.value("SELECT times FROM sweep_marks") == 1


async def test_many_rows_are_batches_of_500_ids(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await rows.task(connection)
    for _ in range(501):
        await rows.job(connection, task, status="holding", state_change_time=OLD)
    events = await stage.sweep()
    assert [len(event.job_ids) for event in events] == [500, 1]


async def test_a_sweep_that_fails_stops_no_other(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(rows: object, now: object) -> list[Event]:
        raise ValueError("a row that nobody foresaw")

    kinds = [replace(one, build=broken) if one.kind == "registered_tasks" else one for one in SWEEPS]
    monkeypatch.setattr(sweeps, "SWEEPS", (Sweep("no_such_query", broken), *kinds))
    await rows.task(connection, status="registered", state_change_time=OLD)
    prepared = await rows.task(connection, status="prepared", state_change_time=OLD)
    (event,) = await stage.sweep()
    assert isinstance(event, TaskPrepared) and event.task_id == prepared
    assert "sweep of registered_tasks failed: ValueError: a row that nobody foresaw" in caplog.text
    assert await stage.value("SELECT count(*) FROM sweep_marks WHERE kind = 'registered_tasks'") == 0


OF_USUAL_AGE = {sweep.kind for sweep in SWEEPS if sweep.age is SWEEP_AGE_S}


@pytest.mark.parametrize("name", sorted(name for name in PLANTS if name.split()[0] in OF_USUAL_AGE))
async def test_work_whose_event_was_lost_goes_on_within_60_s(
    stage: Stage, connection: asyncpg.Connection, name: str
) -> None:
    age_s = stage.parameters.read(SWEEP_AGE_S)
    stage.clock.now = OLD + timedelta(seconds=age_s - 2 * TICK_S - 1)
    await stage.sweep()  # the round after this one comes when the next tick would have been late
    expected = {kind for kind, _ in await PLANTS[name](connection)}
    while not expected & {type(event) for event in await stage.sweep()}:
        stage.clock.forward(seconds=TICK_S)
        assert stage.clock.now - OLD <= timedelta(seconds=60)
    assert stage.clock.now - OLD >= timedelta(seconds=age_s)


async def test_the_latest_that_lost_work_goes_on_is_an_age_a_period_and_a_tick_after_it_was_stuck(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    waits = []
    for offset_s in range(0, 30, 2):
        await stage.sweep()
        stage.clock.forward(seconds=offset_s)
        await rows.task(connection, status="registered", state_change_time=stage.clock.now)
        stuck_at = stage.clock.now
        stage.clock.forward(seconds=(TICK_S - offset_s) % TICK_S)
        while not await stage.sweep():
            stage.clock.forward(seconds=TICK_S)
        waits.append((stage.clock.now - stuck_at).total_seconds())
        await rows.change(connection, "UPDATE tasks SET status = 'broken'")
        stage.clock.forward(minutes=5)
    assert min(waits) >= 30 and max(waits) < 56


async def test_rows_that_were_not_stuck_at_their_time_are_not_looked_at_again(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    async def merging() -> list[int]:
        events = await stage.sweep()
        return [job_id for event in events if isinstance(event, JobsMerging) for job_id in event.job_ids]

    await stage.set("SWEEP_AGE_S", 35.0)
    task = await rows.task(connection)
    first = await rows.job(connection, task, status="merging", state_change_time=START - timedelta(minutes=10))
    data = await rows.dataset(connection, task, type="trn_output")
    await rows.file(connection, task, data, type="trn_output", out_job_id=first, status="ready")
    assert await merging() == []
    await rows.change(connection, "UPDATE task_files SET status = 'running'")
    stage.clock.forward(minutes=10)
    assert await merging() == [], "its outputs were mergeable in time: that cannot be undone"
    late = await rows.job(connection, task, status="merging", state_change_time=stage.clock.now)
    await rows.file(connection, task, data, type="trn_output", out_job_id=late, status="running")
    minutes = []
    for minute in range(8):
        stage.clock.forward(minutes=1)
        if await merging() == [late]:
            minutes.append(minute)
    assert minutes == [0, 2, 5], "what was stuck is said again at growing intervals"


async def test_rows_that_went_on_do_not_keep_the_place_of_one_that_is_still_stuck(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "SWEEPS", [replace(one, most=3) for one in SWEEPS if one.kind == "unmerged_jobs"])
    await stage.set("SWEEP_AGE_S", 35.0)
    task = await rows.task(connection)
    data = await rows.dataset(connection, task, type="trn_output")
    for _ in range(9):
        job_id = await rows.job(connection, task, status="merging", state_change_time=OLD)
        await rows.file(connection, task, data, type="trn_output", out_job_id=job_id, status="running")
    await stage.sweep()
    await rows.change(connection, "UPDATE task_files SET status = 'ready' WHERE out_job_id <> $1", job_id)
    said = []
    for minute in range(8):
        stage.clock.forward(minutes=1)
        said += [(minute, event.job_ids) for event in await stage.sweep() if isinstance(event, JobsMerging)]
    assert said == [(1, (job_id,)), (4, (job_id,))]
    assert await stage.value("SELECT array_agg(entity_id) FROM sweep_marks") == [job_id]


async def test_a_kind_of_many_rows_does_not_keep_the_others_from_their_turn(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [replace(one, most=1) for one in SWEEPS if one.kind in ("registered_tasks", "prepared_tasks")]
    monkeypatch.setattr(sweeps, "SWEEPS", kinds)
    for _ in range(30):
        await rows.task(connection, status="registered", state_change_time=OLD)
    prepared = await rows.task(connection, status="running")
    said = []
    for slice_ in range(20):
        if slice_ == 5:
            await rows.change(connection, "UPDATE tasks SET status = 'prepared', state_change_time = $2"
                              " WHERE task_id = $1", prepared, OLD)  # fmt: skip
        async with stage.database.begin(reason="periodic") as work:
            assert await stage.watchdog.sweep_tasks(work)
        said += [(slice_, type(event)) for event in await stage.announced() if isinstance(event, TaskPrepared)]
        stage.clock.forward(seconds=2)
    assert said == [(11, TaskPrepared)], "a round began after 20 s, with many tasks of the other kind left"


async def idle(stage: Stage) -> list[int]:
    """One round: tasks of which it says that nothing moves."""
    return [event.task_id for event in await stage.sweep() if isinstance(event, TaskReleased)]


async def test_a_task_whose_last_job_was_counted_and_that_nobody_settled_goes_on_within_60_s(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="running", state_change_time=START - timedelta(days=1))
    await rows.chunk(connection, task, status="used", ended_at=START - timedelta(hours=20))
    job = await rows.job(connection, task, status="running")
    assert await idle(stage) == []
    stage.clock.forward(minutes=10)
    ended_at = stage.clock.now
    await rows.change(
        connection,
        "UPDATE jobs SET status = 'finished', results_applied_at = $1, deadline_at = NULL WHERE job_id = $2",
        ended_at, job,
    )  # fmt: skip
    while not (found := await idle(stage)):
        stage.clock.forward(seconds=TICK_S)
    assert found == [task] and stage.clock.now - ended_at <= timedelta(seconds=60)


async def resting(connection: asyncpg.Connection, number: int) -> list[int]:
    """Tasks with jobs of which nothing moved that has a time, and that have no open input yet."""
    tasks = []
    for _ in range(number):
        task = await rows.task(connection, status="running", state_change_time=START - timedelta(days=1))
        await rows.dataset(connection, task, n_files=5, n_files_to_be_used=3, n_files_used=3)
        await rows.job(connection, task, status="running")
        tasks.append(task)
    return tasks


async def test_tasks_of_which_nothing_moved_that_has_a_time_are_all_looked_at_within_a_minute(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.store.sweeps.TASKS_OF_A_WALK", 2)
    tasks = await resting(connection, 5)
    assert await idle(stage) == []
    await rows.change(connection, "UPDATE task_datasets SET n_files_to_be_used = 5")
    found = []
    for _ in range(3):
        stage.clock.forward(seconds=20)
        found.append(await idle(stage))
    assert found == [[], [], tasks], "the walk through all tasks begins again"


async def test_another_leader_goes_on_with_the_walk_where_it_was(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each does one slice of the walk: however short its time as leader is, tasks with high ids have their turn."""
    monkeypatch.setattr("services.watchdog.store.sweeps.TASKS_OF_A_WALK", 2)
    monkeypatch.setattr(sweeps, "SWEEPS", [one for one in SWEEPS if one.kind == "idle_tasks"])
    tasks = await resting(connection, 5)
    await rows.change(connection, "UPDATE task_datasets SET n_files_to_be_used = 5")
    await connection.execute(
        "INSERT INTO watch_runs (watch, last_run_at) VALUES ('sweep idle_tasks', $1)", START - timedelta(seconds=60)
    )
    found = []
    for _ in range(4):
        leader = Watchdog(stage.parameters, KnownGrid(NullCache()), Counter("swept", "", ["kind"], registry=None))
        async with stage.database.begin(reason="periodic") as work:
            await leader.sweep_tasks(work)
        found.append([event.task_id for event in await stage.announced() if isinstance(event, TaskReleased)])
        stage.clock.forward(seconds=21)
    assert found[:3] == [tasks[:2], tasks[2:4], tasks[4:]]


async def test_a_slice_of_the_walk_that_fails_is_done_again(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await resting(connection, 2)
    await rows.change(connection, "UPDATE task_datasets SET n_files_to_be_used = 5")
    await connection.execute(
        "INSERT INTO watch_runs (watch, last_run_at) VALUES ('sweep idle_tasks', $1)", START - timedelta(seconds=60)
    )
    [kind] = [one for one in SWEEPS if one.kind == "idle_tasks"]

    def fails(rows: sweeps.Rows, now: object) -> list[Event]:
        raise ValueError("cannot be built")

    monkeypatch.setattr(sweeps, "SWEEPS", [replace(kind, build=fails)])
    assert await idle(stage) == []
    monkeypatch.setattr(sweeps, "SWEEPS", [kind])
    stage.clock.forward(seconds=21)
    assert await idle(stage) == tasks


async def test_each_partition_forgets_the_old_marks_of_its_own_kinds(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    """Both run beside each other, and would wait for each other's rows."""
    for number, kind in enumerate(("registered_tasks", "holding_jobs", "no_such_kind")):
        mark = {"kind": kind, "entity_id": number, "swept_at": START - timedelta(days=3)}
        await rows.insert(connection, "sweep_marks", mark)
    await stage.run(stage.watchdog.sweep_tasks)
    assert await stage.value("SELECT array_agg(kind) FROM sweep_marks") == ["holding_jobs"]
    await stage.run(stage.watchdog.sweep_work)
    assert await stage.value("SELECT count(*) FROM sweep_marks") == 0
