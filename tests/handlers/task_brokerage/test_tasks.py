from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.task_brokerage import waking
from services.task_brokerage.app import build
from shared.brokerage.explained import explain_row
from shared.db import Database
from shared.events import TaskDefined, TaskReady, TaskReleased, TasksWoken
from shared.messaging.failures import Permanent
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid

ASSIGNING = {"status": "assigning", "core_count": 8, "ram_count": 1000, "ram_unit": "MBPerCore", "cpu_time": 100,
             "cpu_time_unit": "HS06sPerEvent"}  # fmt: skip


async def a_task(database: Database, n_events: int = 1000, **values: Any) -> int:
    async with database.read() as connection:
        task_id = await rows.task(connection, **{**ASSIGNING, **values})
        await rows.dataset(
            connection, task_id, dataset_name=f"data.{task_id}", n_files=10, n_events=n_events, n_events_used=0
        )
    return task_id


async def task_row(database: Database, task_id: int) -> dict[str, Any]:
    async with database.read() as connection:
        return dict(await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", task_id))


async def last_decision(database: Database, task_id: int) -> dict[str, Any]:
    async with database.read() as connection:
        row = await connection.fetchrow(
            "SELECT * FROM brokerage_decisions WHERE task_id = $1 ORDER BY decision_id DESC", task_id
        )
    return dict(row)


async def test_a_task_gets_a_nucleus_and_is_ready(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database)
    emitted = await deliver(database, service, TaskDefined(task_id=task_id))
    task = await task_row(database, task_id)
    assert task["status"] == "ready" and task["nucleus"] in {"ALPHA", "BETA"} and task["retry_at"] is None
    assert emitted == (TaskReady(task_id=task_id, nucleus=task["nucleus"]),)
    decision = await last_decision(database, task_id)
    assert (decision["kind"], decision["chosen"], decision["names"]) == ("task", [task["nucleus"]], ["ALPHA", "BETA"])
    async with database.read() as connection:
        logged = await connection.fetchrow("SELECT * FROM transition_log WHERE task_id = $1", task_id)
    assert (logged["from_status"], logged["to_status"], logged["reason"]) == (
        "assigning",
        "ready",
        f"nucleus {task['nucleus']} chosen",
    )


@pytest.mark.parametrize(("group", "status"), [(None, "ready"), (1, "ready"), (3, "assigning"), (4, "assigning")])
async def test_where_a_boundary_is_one_job_the_largest_boundary_must_fit_at_a_queue_of_the_nucleus(
    database: Database, context: Context, group: int | None, status: str
) -> None:
    """Two files of a million events each are one boundary: days for every queue, which a file of 100 events is not."""
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, split_rule={} if group is None else {"groupBoundaryID": group})
    async with database.read() as connection:
        dataset_id = await connection.fetchval("SELECT dataset_id FROM task_datasets WHERE task_id = $1", task_id)
        for boundary, n_events in ((1, 100), (2, 1_000_000), (2, 1_000_000), (3, 100)):
            await rows.file(connection, task_id, dataset_id, boundary_id=boundary, n_events=n_events, status="ready")
    await deliver(database, service, TaskDefined(task_id=task_id))
    decision = await last_decision(database, task_id)
    assert (await task_row(database, task_id))["status"] == status
    checks = {entry["check"] for entry in explain_row(decision)}
    assert checks == ({None} if status == "ready" else {"able_queue"})


async def test_a_task_without_nucleus_stays_assigning_for_half_an_hour_with_its_reasons(database, context) -> None:
    files = small_grid()
    for site in ("ALPHA", "BETA"):
        files["storages"][f"{site}_DATADISK"]["space_free"] = 100
    await load_grid(database, files)
    service = await started(build(context))
    task_id = await a_task(database)
    assert await deliver(database, service, TaskDefined(task_id=task_id)) == ()
    task, decision = await task_row(database, task_id), await last_decision(database, task_id)
    assert task["status"] == "assigning" and task["nucleus"] is None
    assert task["retry_at"] == decision["decided_at"] + timedelta(minutes=30)
    assert "2 nuclei, 0 passed: 2 capacity" in task["error_dialog"] and "nucleus_space" in task["error_dialog"]
    assert {entry["check"] for entry in explain_row(decision)} == {"nucleus_space"}


async def test_a_released_task_is_looked_at_again(database, context) -> None:
    service = await started(build(context))
    task_id = await a_task(database)
    await deliver(database, service, TaskDefined(task_id=task_id))
    assert (await task_row(database, task_id))["error_dialog"] == "there are no nuclei"
    await load_grid(database)
    released = TaskReleased(task_id=task_id, status="assigning", reason="its time has come")
    (ready,) = await deliver(database, service, released)
    assert isinstance(ready, TaskReady)
    task = await task_row(database, task_id)
    assert (task["status"], task["retry_at"], task["error_dialog"]) == ("ready", None, None)


async def look(database: Database, service: Service) -> list[tuple[int, ...]]:
    """One look at the waiting tasks; who was woken, and why it was."""
    for name in ("refresh", "wake"):
        [periodic] = [one for one in service.periodic if one.name == name]
        async with database.begin(reason="test") as work:
            await periodic.run(work)
            woken = [event for event in work.emitted if isinstance(event, TasksWoken)]
    assert {event.cause for event in woken} <= {"the grid"}
    return [event.task_ids for event in woken]


async def test_tasks_without_nucleus_are_woken_as_soon_as_the_grid_has_changed(database, context) -> None:
    service = await started(build(context))
    task_ids = [await a_task(database) for _ in range(3)]
    for task_id in task_ids:
        await deliver(database, service, TaskDefined(task_id=task_id))
    assert await look(database, service) == [], "nothing has changed"
    await load_grid(database)
    assert await look(database, service) == [tuple(task_ids)]
    released = TaskReleased(task_id=task_ids[0], status="assigning", reason="woken")
    (ready,) = await deliver(database, service, released)
    assert isinstance(ready, TaskReady)


async def test_a_task_that_no_nucleus_of_the_grid_takes_is_woken_once_for_each_change_of_the_grid(
    database, context
) -> None:
    files = small_grid()
    for site in ("ALPHA", "BETA"):
        files["storages"][f"{site}_DATADISK"]["space_free"] = 100
    await load_grid(database, files)
    service = await started(build(context))
    task_id = await a_task(database)
    await deliver(database, service, TaskDefined(task_id=task_id))
    await load_grid(database, files)
    assert await look(database, service) == [(task_id,)]
    again = TaskReleased(task_id=task_id, status="assigning", reason="woken")
    assert await deliver(database, service, again) == ()
    async with database.read() as connection:  # its back-off is over
        await connection.execute(
            "UPDATE waits SET not_before = NULL, wake_nr = wake_nr + 1, changed_by = pg_current_xact_id()::text::bigint"
        )
    assert await look(database, service) == [], "it was decided on this grid"


async def test_a_task_that_was_reminded_and_one_that_is_not_assigning_are_left_alone(database, context) -> None:
    service = await started(build(context))
    reminded, held = await a_task(database), await a_task(database)
    for task_id in (reminded, held):
        await deliver(database, service, TaskDefined(task_id=task_id))
    async with database.read() as connection:
        await connection.execute("UPDATE waits SET retry_at = orrery_now() WHERE task_id = $1", reminded)
        await connection.execute("UPDATE tasks SET status = 'pending' WHERE task_id = $1", held)
    await load_grid(database)
    assert await look(database, service) == []


async def test_after_a_new_grid_tasks_are_woken_in_slices_the_most_urgent_first(database, context, monkeypatch) -> None:
    monkeypatch.setattr(waking, "SLICE", 2)
    service = await started(build(context))
    task_ids = [await a_task(database, current_priority=priority) for priority in (100, 300, 200)]
    for task_id in task_ids:
        await deliver(database, service, TaskDefined(task_id=task_id))
    await load_grid(database)
    assert await look(database, service) == [tuple(task_ids[1:])], "the most urgent first"
    assert await look(database, service) == [], "not before these are decided about"
    for task_id in task_ids[1:]:
        await deliver(database, service, TaskReleased(task_id=task_id, status="assigning", reason="woken"))
    assert await look(database, service) == [(task_ids[0],)]


@pytest.mark.parametrize("hs06_s_at_each_look", [(9, 9, 3), (9, 8.95, 8.88)], ids=["at once", "by a little each time"])
async def test_tasks_without_nucleus_are_woken_when_nuclei_have_less_to_do(
    database, context, monkeypatch, hs06_s_at_each_look
) -> None:
    monkeypatch.setattr(waking, "WORK_COUNTS_EVERY", timedelta(0))
    files = small_grid()
    for site in ("ALPHA", "BETA"):
        files["storages"][f"{site}_DATADISK"]["space_free"] = 100
    await load_grid(database, files)
    service = await started(build(context))
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO nucleus_remaining_work (nucleus, priority, hs06_s) VALUES ('ALPHA', 1, 9)"
        )
    task_id = await a_task(database)
    await deliver(database, service, TaskDefined(task_id=task_id))
    run = next(one.run for one in service.periodic if one.name == "wake")
    woken = []
    for hs06_s in hs06_s_at_each_look:
        async with database.begin(reason="test") as work:
            await work.connection.execute("UPDATE nucleus_remaining_work SET hs06_s = $1", float(hs06_s))
            await run(work)
            woken.append([(event.task_ids, event.cause) for event in work.emitted])
    assert woken == [[], [], [((task_id,), "work of the nucleus")]]


@pytest.mark.parametrize("status", ["ready", "running", "pending", "aborted"])
async def test_a_task_that_is_not_assigning_is_left_alone(database, context, status) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, status=status)
    for event in (TaskDefined(task_id=task_id), TaskReleased(task_id=task_id, status=status, reason="test")):
        assert await deliver(database, service, event) == ()
    assert (await task_row(database, task_id))["status"] == status


async def test_a_repeated_event_gives_no_second_nucleus(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database)
    await deliver(database, service, TaskDefined(task_id=task_id))
    assert await deliver(database, service, TaskDefined(task_id=task_id)) == ()


async def test_the_work_of_a_nucleus_lowers_its_weight(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    for there in ({"nucleus": "ALPHA"}, {"nucleus": "BETA", "current_priority": 1}):
        other = await a_task(database, status="running", n_events=10_000_000, **there)
        await deliver(database, service, TaskReady(task_id=other))
    task_id = await a_task(database)
    await deliver(database, service, TaskDefined(task_id=task_id))
    decision = await last_decision(database, task_id)
    entries = {entry["name"]: entry for entry in explain_row(decision)}
    assert entries["ALPHA"]["terms"]["remaining_work"] == pytest.approx(1 / (10_000_000 * 100))
    assert entries["BETA"]["terms"]["remaining_work"] == pytest.approx(1 / 50), "work of lower priority does not count"
    assert decision["chosen"] == ["BETA"]


async def test_heavy_input_draws_a_task_to_the_nucleus_that_has_it(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, io_intensity=500, io_intensity_unit="kBPerS")
    async with database.read() as connection:
        dataset_id = await connection.fetchval(
            "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes) "
            "VALUES ('test', $1, 'dataset', 'frozen', 10, 50000000000) RETURNING dataset_id",
            f"data.{task_id}",
        )
        await connection.execute(
            "INSERT INTO catalogue.dataset_replicas VALUES ($1, 'BETA_DATADISK', 10, 50000000000, true)", dataset_id
        )
    (ready,) = await deliver(database, service, TaskDefined(task_id=task_id))
    assert ready.nucleus == "BETA"
    assert {entry["name"]: entry["check"] for entry in explain_row(await last_decision(database, task_id))} == {
        "ALPHA": "input_size",
        "BETA": None,
    }


@pytest.mark.parametrize(
    ("waited", "nuclei"), [(timedelta(days=6, hours=23), []), (timedelta(days=7, hours=1), ["ALPHA"])]
)
async def test_heavy_input_that_no_nucleus_has_is_waited_for_seven_days(database, context, waited, nuclei) -> None:
    files = small_grid()
    files["sites"]["BETA"]["state"] = "DISABLED"
    await load_grid(database, files)
    service = await started(build(context))
    task_id = await a_task(database, io_intensity=500, io_intensity_unit="kBPerS")
    async with database.read() as connection:
        dataset_id = await connection.fetchval(
            "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes) "
            "VALUES ('test', $1, 'dataset', 'frozen', 10, 50000000000) RETURNING dataset_id",
            f"data.{task_id}",
        )
        await connection.execute(
            "INSERT INTO catalogue.dataset_replicas VALUES ($1, 'BETA_DATADISK', 10, 50000000000, true)", dataset_id
        )
        await connection.execute(
            "UPDATE tasks SET state_change_time = orrery_now() - $2::interval WHERE task_id = $1", task_id, waited
        )
    emitted = await deliver(database, service, TaskDefined(task_id=task_id))
    assert [one.nucleus for one in emitted] == nuclei


async def test_a_task_whose_numbers_make_no_sense_is_parked_with_the_reason(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, out_disk_count=1, out_disk_unit="stones")
    with pytest.raises(Permanent, match="outDiskUnit"):
        await deliver(database, service, TaskDefined(task_id=task_id))


async def test_a_task_of_another_vo_is_placed_by_its_own_plugin(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, vo="example")
    await deliver(database, service, TaskDefined(task_id=task_id))
    assert (await last_decision(database, task_id))["plugin"] == "example"


async def test_a_full_chain_task_follows_its_parent_to_a_bare_nucleus(database, context) -> None:
    files = small_grid()
    files["sites"]["BETA"]["catchall"] = "bareNucleus=allow"
    await load_grid(database, files)
    service = await started(build(context))
    parent = await a_task(database, status="running", nucleus="BETA")
    for _ in range(5):
        child = await a_task(database, parent_tid=parent, split_rule={"fullChain": "capable"})
        (ready,) = await deliver(database, service, TaskDefined(task_id=child))
        assert ready.nucleus == "BETA"
    checks = {one["name"]: one["check"] for one in explain_row(await last_decision(database, child))}
    assert checks == {"ALPHA": "parent_nucleus", "BETA": None}
