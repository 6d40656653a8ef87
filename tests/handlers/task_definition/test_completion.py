from __future__ import annotations

import httpx
import pytest

from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import (
    TaskCommanded,
    TaskCompleted,
    TaskPrepared,
    TaskProgressed,
    TaskReady,
    TaskRegistered,
    TaskReleased,
)
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, production
from tests.rows import change, dataset, file, insert, job, task


async def prepared(
    database: Database,
    service: Service,
    client: httpx.AsyncClient,
    *,
    finished: int,
    failed: int = 0,
    **changes: object,
) -> int:
    task_id, _ = await define(database, service, client, production(**changes))
    await end_files(database, task_id, finished=finished, failed=failed)
    await put(database, task_id, "prepared")
    return task_id


async def test_a_task_with_all_its_input_processed_is_done_and_its_datasets_are_closed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=20)
    emitted = list(await deliver(database, service, TaskPrepared(task_id=task_id)))
    assert emitted == [TaskCompleted(task_id=task_id, status="done")]
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"]) == ("done", None)
    closed = await rows_of(database, "SELECT type, status FROM task_datasets WHERE task_id = $1", task_id)
    assert {(one["type"], one["status"]) for one in closed} == {("input", "done"), ("output", "done"), ("log", "done")}
    states = await rows_of(database, "SELECT state FROM catalogue.datasets WHERE name LIKE 'mc.simulation%'")
    assert {one["state"] for one in states} == {"frozen"}
    assert await deliver(database, service, TaskPrepared(task_id=task_id)) == ()


async def test_a_part_of_the_input_makes_it_finished_and_none_of_it_failed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    part = await prepared(database, service, producer, finished=12, failed=8, name="part")
    none = await prepared(database, service, producer, finished=0, failed=20, name="none")
    for task_id in (part, none):
        await deliver(database, service, TaskPrepared(task_id=task_id))
    assert (await task_row(database, part))["status"] == "finished"
    assert (await task_row(database, none))["status"] == "failed"
    inputs = "SELECT status FROM task_datasets WHERE task_id = $1 AND type = 'input'"
    assert await value_of(database, inputs, part) == "finished"
    assert await value_of(database, inputs, none) == "failed"


async def test_input_that_was_left_out_is_told_at_the_end(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=12, failed=8)
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO generation_history (task_id, outcome, reason, numbers)"
            " VALUES ($1, 'unsplittable', 'secondary dataset x has not enough unused files', $2)",
            task_id,
            {"left_out": 8},
        )
    await deliver(database, service, TaskPrepared(task_id=task_id))
    row = await task_row(database, task_id)
    assert row["status"] == "finished"
    assert "; secondary dataset x has not enough unused files" in row["error_dialog"]


async def test_ami_is_to_know_of_a_task_that_is_done_or_finished(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    flags = {}
    for name, finished in (("whole", 20), ("part", 12), ("none", 0)):
        task_id = await prepared(database, service, producer, finished=finished, failed=20 - finished, name=name)
        await deliver(database, service, TaskPrepared(task_id=task_id))
        row = await task_row(database, task_id)
        flags[row["status"]] = row["ami_flag"]
    assert flags == {"done": "READY", "finished": "READY", "failed": None}


async def test_a_goal_that_is_not_reached_asks_the_owner_or_fails(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    asks = await prepared(database, service, producer, finished=19, failed=1, name="asks", useExhausted=True, goal=99)
    fails = await prepared(
        database, service, producer, finished=19, failed=1, name="fails", failWhenGoalUnreached=True, goal=96
    )
    reached = await prepared(
        database, service, producer, finished=19, failed=1, name="reached", failWhenGoalUnreached=True, goal=95
    )
    for task_id in (asks, fails, reached):
        await deliver(database, service, TaskPrepared(task_id=task_id))
    statuses = [(await task_row(database, task_id))["status"] for task_id in (asks, fails, reached)]
    assert statuses == ["exhausted", "failed", "finished"]
    assert "95.0 % of a goal of 99 %" in (await task_row(database, asks))["error_dialog"]


async def test_the_goal_of_the_final_status_counts_events_where_they_are_known(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    for name, events_of_failed, status in (("enough", 10, "finished"), ("short", 2000, "failed")):
        task_id = await prepared(
            database, service, producer, finished=19, failed=1, name=name, failWhenGoalUnreached=True, goal=96
        )
        async with database.read() as connection:
            await change(
                connection,
                "UPDATE task_files SET n_events = $2 WHERE task_id = $1 AND status = 'failed'",
                task_id,
                events_of_failed,
            )
            await change(
                connection,
                "UPDATE task_datasets SET n_events = 19000 + $2 WHERE task_id = $1 AND type = 'input'",
                task_id,
                events_of_failed,
            )
        await deliver(database, service, TaskPrepared(task_id=task_id))
        assert (await task_row(database, task_id))["status"] == status


async def count_finished(database: Database, task_id: int, n_files: int) -> None:
    """As job generation counts: so many of 200 files of the input."""
    async with database.read() as connection:
        await connection.execute(
            "UPDATE task_datasets SET n_files = 200, n_files_to_be_used = 200, n_files_used = 200,"
            " n_files_finished = $2 WHERE task_id = $1 AND type = 'input'",
            task_id,
            n_files,
        )


async def test_progress_that_is_told_late_takes_nothing_back(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running")
    early, late = (
        TaskProgressed(
            task_id=task_id, status="running", files_finished=n_files, files_failed=0, files_total=200, live_jobs=9
        )
        for n_files in (50, 100)
    )
    await count_finished(database, task_id, 100)
    for told in (late, early):
        await deliver(database, service, told)
        assert (await task_row(database, task_id))["progress"] == 50


async def test_progress_is_noted_and_rounded_down(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running")
    await count_finished(database, task_id, 199)
    progressed = TaskProgressed(
        task_id=task_id, status="running", files_finished=199, files_failed=1, files_total=200, live_jobs=0
    )
    assert await deliver(database, service, progressed) == ()
    row = await task_row(database, task_id)
    assert (row["status"], row["progress"], row["failure_rate"]) == ("running", 99, 0)
    assert row["assessment_time"] == row["modification_time"]
    assert await deliver(database, service, progressed) == ()
    assert (await task_row(database, task_id))["assessment_time"] == row["assessment_time"]


async def test_the_failure_rate_is_that_of_jobs_and_not_of_files(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running")
    async with database.begin(reason="job generation counted") as work:
        await work.connection.execute("INSERT INTO task_job_counts VALUES ($1, 9, 3)", task_id)
    progressed = TaskProgressed(
        task_id=task_id, status="running", files_finished=200, files_failed=0, files_total=200, live_jobs=0
    )
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["failure_rate"] == 25


async def test_progress_that_comes_after_the_end_changes_nothing_and_the_end_notes_its_own(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=20)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    before = await task_row(database, task_id)
    assert (before["status"], before["progress"], before["failure_rate"]) == ("done", 100, 0)
    late = TaskProgressed(
        task_id=task_id, status="running", files_finished=199, files_failed=1, files_total=200, live_jobs=1
    )
    assert await deliver(database, service, late) == ()
    assert await task_row(database, task_id) == before


@pytest.mark.parametrize(
    ("is_defined", "allowed", "status"),
    [(False, False, "failed"), (False, True, "failed"), (True, True, "done"), (True, False, "failed")],
)
async def test_a_task_without_any_input_is_done_only_if_it_was_defined_and_may_be_empty(
    database: Database, service: Service, producer: httpx.AsyncClient, is_defined: bool, allowed: bool, status: str
) -> None:
    empty = production("empty", [an_input("data.growing")], allowEmptyInput=True)
    task_id = await submit(producer, empty)
    if is_defined:
        await deliver(database, service, TaskRegistered(task_id=task_id))
    async with database.read() as connection:
        await change(
            connection,
            "UPDATE tasks SET status = 'finishing', split_rule = $2::jsonb WHERE task_id = $1",
            task_id,
            {"allowEmptyInput": True} if allowed else {},
        )
    progressed = TaskProgressed(
        task_id=task_id, status="finishing", files_finished=0, files_failed=0, files_total=0, live_jobs=0
    )
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == status


async def test_a_task_that_runs_until_its_input_is_closed_is_defined_again_when_all_of_it_was_worked_on(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    catalogue = BuiltInCatalogue()
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, [NewFile("data.growing", "G.0.root", 10, "ALPHA_DATADISK", 5)])
    parameters = production("growing", [an_input("data.growing")], runUntilClosed=True, nucleus="ALPHA", nFilesPerJob=1)
    task_id, _ = await define(database, service, producer, parameters)
    await end_files(database, task_id, finished=1)
    progressed = TaskProgressed(
        task_id=task_id, status="defined", files_finished=1, files_failed=0, files_total=1, live_jobs=0
    )
    await put(database, task_id, "defined")
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == "pending", "it waits for new files"
    async with database.begin(reason="test") as work:
        await catalogue.freeze(work.connection, ["data.growing"])
    await put(database, task_id, "defined")
    assert list(await deliver(database, service, progressed)) == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    state = "SELECT state FROM task_datasets WHERE task_id = $1 AND type = 'input'"
    assert await value_of(database, state, task_id) == "frozen"


async def test_a_broken_task_has_its_jobs_killed_once_and_then_ends(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "tobroken", error_dialog="no scout succeeded")
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO chunks (chunk_id, task_id, kind, status, n_files) VALUES (1, $1, 'scout', 'offered', 1)",
            task_id,
        )
    progressed = TaskProgressed(
        task_id=task_id, status="tobroken", files_finished=0, files_failed=0, files_total=20, live_jobs=1
    )
    emitted = list(await deliver(database, service, progressed))
    assert emitted == [TaskCommanded(task_id=task_id, command="kill", status="tobroken")]
    assert await deliver(database, service, progressed) == ()
    async with database.read() as connection:
        await connection.execute("UPDATE chunks SET status = 'returned'")
    emitted = list(await deliver(database, service, progressed))
    assert emitted == [TaskCompleted(task_id=task_id, status="broken")]
    assert (await task_row(database, task_id))["error_dialog"] == "no scout succeeded"


async def test_tasks_whose_event_was_lost_on_their_way_out_are_settled_later(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=20)
    [settle] = [one for one in service.periodic if one.name == "left-overs"]
    async with database.begin(reason="left-overs") as work:
        await settle.run(work)
    assert (await task_row(database, task_id))["status"] == "prepared"
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET state_change_time = orrery_now() - interval '5 minutes'")
    async with database.begin(reason="left-overs") as work:
        await settle.run(work)
    assert (await task_row(database, task_id))["status"] == "done"


async def test_tasks_whose_jobs_run_for_long_hide_no_other_on_its_way_out(
    database: Database, service: Service, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.task_definition.tasks.completing.SETTLE_AT_MOST", 2)
    task_id = await prepared(database, service, producer, finished=20)
    async with database.read() as connection:
        for number in range(3):
            busy = await task(connection, task_name=f"busy {number}", status="finishing")
            await job(connection, busy, status="running")
        await connection.execute("UPDATE tasks SET state_change_time = orrery_now() - interval '5 minutes'")
        await change(
            connection,
            "UPDATE tasks SET state_change_time = orrery_now() - interval '2 minutes' WHERE task_id = $1",
            task_id,
        )
    [settle] = [one for one in service.periodic if one.name == "left-overs"]
    found = []
    for _ in range(3):
        async with database.begin(reason="left-overs") as work:
            await settle.run(work)
        found.append((await task_row(database, task_id))["status"])
    assert found == ["prepared", "done", "done"]


async def test_an_output_whose_job_failed_after_it_was_registered_is_taken_out_again(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=20)
    async with database.begin(reason="test") as work:
        files = [NewFile("mc.simulation", name, 5, "ALPHA_DATADISK") for name in ("good", "stray")]
        await BuiltInCatalogue().add_files(work.connection, files)
        dataset_id = await work.connection.fetchval("SELECT dataset_id FROM task_datasets WHERE type = 'output'")
        for name, status in (("good", "finished"), ("stray", "failed")):
            await file(work.connection, task_id, dataset_id, lfn=name, type="output", status=status)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    left = await rows_of(
        database,
        "SELECT f.lfn FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)"
        " WHERE d.name = 'mc.simulation'",
    )
    assert [one["lfn"] for one in left] == ["good"]


async def test_the_log_of_a_killed_job_stays_when_the_task_ends(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await prepared(database, service, producer, finished=20)
    async with database.begin(reason="test") as work:
        connection = work.connection
        log_id = await dataset(connection, task_id, type="log", dataset_name="mc.simulation.log")
        await BuiltInCatalogue().create(connection, "mc.simulation.log", scope="mc")
        for job_id, lfn in ((901, "reported"), (902, "stray")):
            await file(connection, task_id, log_id, lfn=lfn, type="log", status="cancelled", out_job_id=job_id)
        report = {"job_id": 901, "attempt_number": 1, "state": "late", "report": {"outputs": {"reported": {}}}}
        await insert(connection, "job_reports", report)
        files = [NewFile("mc.simulation.log", lfn, 5, "ALPHA_DATADISK") for lfn in ("reported", "stray")]
        await BuiltInCatalogue().add_files(connection, files)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    left = await rows_of(database, "SELECT lfn FROM catalogue.files WHERE lfn IN ('reported', 'stray')")
    assert [one["lfn"] for one in left] == ["reported"]


async def test_outputs_of_a_task_that_ended_before_it_had_input_are_registered_when_it_is_executed_again(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(inputs=[an_input("data.growing")]))
    assert (await task_row(database, task_id))["status"] == "pending"
    await put(database, task_id, "passed")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    assert (await task_row(database, task_id))["status"] == "failed"
    known = (
        "SELECT count(*) FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name"
        " WHERE d.type <> 'input'"
    )
    assert await value_of(database, known) == 0
    async with database.begin(reason="test") as work:
        files = [NewFile("data.growing", "G.1.root", 10, "ALPHA_DATADISK", 5)]
        await BuiltInCatalogue().add_files(work.connection, files)
    reply = (await producer.post("/api/v1/task/reload_input", json={"task_id": task_id})).json()
    assert reply["success"], reply
    await deliver(database, service, TaskReleased(task_id=task_id, status="rerefine", reason="test"))
    assert (await task_row(database, task_id))["status"] == "assigning"
    assert await value_of(database, known) == 2
