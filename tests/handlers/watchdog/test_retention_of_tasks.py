"""Tasks that ended long ago are archived with their files and datasets, and dropped; never one that somebody needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.watchdog.checking import run_checks
from services.watchdog.policy.retention import BY_NAME, kept
from services.watchdog.store.retention import SQL
from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds, ended_job, ended_task

#: a day more than the archive of jobs, of which whole days go, and a day for what was put off
DAYS = 33


@pytest.fixture
async def rounds(stage: Stage) -> Rounds:
    rounds = Rounds(stage)
    for rule in ("jobs_archive", "job_files", "job_reports", "transition_log", "tasks", "job_sets", "jumbo_jobs",
                 "task_usage", "task_job_counts"):  # fmt: skip
        await rounds.keep(rule, 30)
    return rounds


async def with_files(stage: Stage, n_files: int = 1, **values: Any) -> int:
    """A task that ends now, with an input of so many files, an output and what is kept once for each task."""
    task = await ended_task(stage, **values)
    async with stage.database.read() as connection:
        data = await rows.dataset(connection, task, status="done", n_files=n_files, n_files_to_be_used=n_files,
                                  n_files_used=n_files, n_files_finished=n_files)  # fmt: skip
        made = await rows.dataset(connection, task, type="output", status="done", dataset_name=f"made.{task}",
                                  container_name=f"container.{task}/", n_files=1, n_files_used=1,
                                  n_files_finished=1)  # fmt: skip
        await rows.change(
            connection,
            "INSERT INTO task_files (dataset_id, task_id, lfn, type, status, attempt_nr)"
            " SELECT $1, $2, 'in.' || n, 'input', 'finished', 1 FROM generate_series(1, $3::int) n",
            data, task, n_files,
        )  # fmt: skip
        await rows.file(connection, task, made, type="output", status="finished", lfn=f"out.{task}")
        await rows.chunk(connection, task, kind="scout", status="used", n_jobs=1)
        await rows.insert(connection, "task_parameters", {"task_id": task, "task_parameters": {"taskName": "t"}})
        await rows.insert(
            connection, "job_parameters_templates", {"task_id": task, "job_parameters_template": {"normal": "x"}}
        )
        await rows.insert(connection, "output_templates",
                          {"task_id": task, "dataset_id": made, "file_name_template": "f"})  # fmt: skip
        await rows.insert(connection, "builds", {"task_id": task, "site": "S"})
        await rows.insert(connection, "raised_memory", {"task_id": task, "ram_mb": 4000, "n_files": 0})
        await rows.insert(connection, "generation_decisions", {"task_id": task, "outcome": "pass", "reason": "r"})
        await rows.insert(connection, "task_job_counts", {"task_id": task, "n_finished": 1})
    return task


async def remaining(rounds: Rounds, task_id: int) -> dict[str, int]:
    """Rows of a task in the tables of the rule."""
    found = {}
    for table in BY_NAME["tasks"].tables:
        found[table] = await rounds.stage.value(f"SELECT count(*) FROM {table} WHERE task_id = {task_id}")
    return {table: n_rows for table, n_rows in found.items() if n_rows}


async def test_a_task_is_archived_with_its_datasets_and_files_and_nothing_else_of_it_stays(
    stage: Stage, rounds: Rounds
) -> None:
    task = await with_files(stage, 1200)
    await ended_job(stage, task)
    stage.clock.forward(days=4)
    later = await with_files(stage)
    await ended_job(stage, later)
    await rounds.after(days=DAYS - 5)
    assert len(await remaining(rounds, task)) > 8, "its jobs are kept as long as this"
    await rounds.after(days=1)
    await rounds.after(days=1)
    assert await remaining(rounds, task) == {}
    assert await remaining(rounds, later) != {}
    row = await stage.value("SELECT to_jsonb(a) FROM tasks_archive a")
    assert (row["task_id"], row["status"], row["has_rows_left"]) == (task, "done", False)
    assert row["task"]["task_name"] == f"task.{task}" and row["task_parameters"] == {"taskName": "t"}
    assert [(one["type"], one["n_files_finished"]) for one in row["datasets"]] == [("input", 1200), ("output", 1)]
    assert row["outputs"] == {f"made.{task}": ["f"]}
    files = await stage.value("SELECT jsonb_agg(files ORDER BY first_file_id) FROM task_files_archive")
    assert [len(one) for one in files] == [500, 500, 200, 1], "five hundred in a transaction"
    assert files[3][0]["lfn"] == f"out.{task}" and files[0][0]["status"] == "finished"
    assert await stage.value("SELECT count(*) FROM chunks WHERE task_id = " + str(task)) == 0


async def test_between_two_slices_the_checks_find_nothing(stage: Stage, rounds: Rounds) -> None:
    await with_files(stage, 1200)
    stage.clock.forward(days=DAYS + 2)
    more, seen, found = True, set(), []
    while more:
        async with stage.database.begin(reason="periodic retention") as work:
            more = await rounds.retaining.drop_old(work)
        n_files = await rounds.count("task_files")
        if n_files not in seen:
            seen.add(n_files)
            async with stage.database.read() as connection:
                found.append(sorted({one.check for one in await run_checks(connection)}))
    assert seen == {1201, 701, 201, 0}
    assert found[1:] == [[], [], []]


@pytest.mark.parametrize(
    ("needs", "frees"),
    [
        # a child that has ended may be tried again, and reads what its parent makes
        ("INSERT INTO tasks (task_name, user_name, status, parent_tid) VALUES ('child', 'u', 'running', {task})",
         "UPDATE tasks SET parent_tid = NULL"),
        ("INSERT INTO task_datasets (task_id, dataset_name, type, status)"
         " VALUES ({live}, 'made.{task}', 'input', 'ready')",
         "UPDATE tasks SET status = 'done' WHERE task_id = {live}"),
        ("INSERT INTO task_datasets (task_id, dataset_name, type, status)"
         " VALUES ({live}, 'container.{task}/', 'input', 'ready')",
         "UPDATE tasks SET status = 'aborted' WHERE task_id = {live}"),
        # asked for again whenever it reads its input
        ("UPDATE tasks SET split_rule = '{{\"skipFilesUsedBy\": [5, {task}]}}' WHERE task_id = {live}",
         "UPDATE tasks SET split_rule = '{{}}'"),
        ("INSERT INTO command_progress (task_id, command, soft) VALUES ({task}, 'finish', true)",
         "DELETE FROM command_progress"),
        ("INSERT INTO catalogue_requests (vo, task_id, kind, subject, status)"
         " VALUES ('v', {task}, 'move', 's', 'open')",
         "UPDATE catalogue_requests SET status = 'done', done_at = orrery_now()"),
        ("INSERT INTO retention_put_off (rule, task_id, due_at) VALUES ('transfers', {task}, 'infinity')",
         "DELETE FROM retention_put_off WHERE rule = 'transfers'"),
        ("INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,"
         " queue, resource_type, gshare, user_name, prod_source_label, job_type)"
         " VALUES (77, {task}, 1, 1, 1, 1, 1, 'failed', 'Q', 'S', 's', 'u', 'managed', 'normal')",
         "DELETE FROM jobs"),
    ],
    ids=["child", "its output is input", "its container is input", "its input is left out", "command",
         "request", "another rule", "result"],
)  # fmt: skip
async def test_a_task_that_somebody_needs_stays_until_nobody_does(
    stage: Stage, rounds: Rounds, needs: str, frees: str
) -> None:
    task = await with_files(stage)
    async with stage.database.read() as connection:
        live = await rows.task(connection, status="running", task_name="live")
        await rows.change(connection, needs.format(task=task, live=live))
    await rounds.after(days=DAYS + 2)
    await rounds.after(days=2)
    assert await stage.value(f"SELECT count(*) FROM tasks WHERE task_id = {task}") == 1
    assert await rounds.count("tasks_archive") == 0
    async with stage.database.read() as connection:
        await rows.change(connection, frees.format(task=task, live=live))
    await rounds.after(days=1.5)
    await rounds.after(days=1.5)  # where other rules had to wait, too, it is judged again a day after them
    assert await stage.value("SELECT array_agg(task_id) FROM tasks_archive") == [task]
    assert await remaining(rounds, task) == {}


async def test_a_task_that_was_aborted_before_its_input_was_read_or_refined_is_archived(
    stage: Stage, rounds: Rounds
) -> None:
    """It might be tried again, so that both are kept; after the days of the rule it cannot."""
    task = await with_files(stage)
    async with stage.database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET status = 'aborted' WHERE task_id = $1", task)
        data = await connection.fetchval("SELECT min(dataset_id) FROM task_datasets WHERE task_id = $1", task)
        await rows.insert(connection, "input_readings", {"task_id": task})
        await rows.insert(
            connection, "dataset_readings",
            {"dataset_id": data, "task_id": task, "position": 0, "stage": "load", "request": {}},
        )  # fmt: skip
        await rows.insert(connection, "preprocessing_results", {"task_id": task, "job_id": 1, "returned": {}})
    await rounds.after(days=DAYS + 2)
    await rounds.after(days=2)
    assert await stage.value("SELECT array_agg(task_id) FROM tasks_archive") == [task]
    for table in ("input_readings", "dataset_readings", "preprocessing_results", "retention_put_off"):
        assert await rounds.count(table) == 0, table


async def test_a_task_that_was_opened_again_meanwhile_stays(stage: Stage, rounds: Rounds) -> None:
    task = await with_files(stage)
    async with stage.database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET status = 'running' WHERE task_id = $1", task)
        assert await SQL.run(connection, "tasks", task_ids=[task], most=500) == 0
    assert await rounds.count("tasks_archive") == 0 and "task_parameters" in await remaining(rounds, task)


async def test_a_task_that_somebody_opens_now_is_judged_another_day(stage: Stage, rounds: Rounds) -> None:
    """It is held before it is judged: what was found out of it would be true no more when it is archived."""
    task = await with_files(stage)
    async with stage.database.begin(reason="a command") as work:
        await work.connection.execute("SELECT FROM tasks WHERE task_id = $1 FOR NO KEY UPDATE", task)
        await asyncio.wait_for(rounds.after(days=DAYS + 2), 30)
    assert await rounds.count("tasks_archive") == 0
    put_off = await stage.value("SELECT array_agg(task_id) FROM retention_put_off WHERE rule = 'tasks'")
    assert put_off == [task]
    await rounds.after(days=2)
    assert await rounds.count("tasks_archive") == 1


async def test_points_and_ranges_of_a_search_leave_after_their_task(stage: Stage, rounds: Rounds) -> None:
    task = await with_files(stage)
    async with stage.database.read() as connection:
        dataset, file = await connection.fetchrow(
            "SELECT dataset_id, file_id FROM task_files WHERE task_id = $1 LIMIT 1", task
        )
        await rows.insert(
            connection, "job_sets",
            {"job_set_id": 1, "task_id": task, "chunk_id": 1, "status": "finished", "kind": "normal", "is_search": True,
             "n_files": 1, "n_ranges": 1, "n_consumers": 1, "serials": {}, "queues": []},
        )  # fmt: skip
        await rows.insert(
            connection, "hpo_searches",
            {"file_id": file, "task_id": task, "dataset_id": dataset, "job_set_id": 1, "most_points": 1,
             "range_attempts": 1},
        )  # fmt: skip
        await rows.insert(connection, "hpo_points", {"task_id": task, "point_id": 1, "added_by": "u"})
        await rows.insert(
            connection, "job_set_jobs",
            {"job_id": 5, "job_set_id": 1, "task_id": task, "role": "consumer", "attempt": 1},
        )  # fmt: skip
        await rows.insert(
            connection, "event_range_files",
            {"zip_row_id": 1, "task_id": task, "job_id": 5, "kind": "zip", "lfn": "zip"},
        )  # fmt: skip
        await rows.insert(
            connection, "event_ranges",
            {"task_id": task, "dataset_id": dataset, "file_id": file, "def_min_event_id": 1, "status": 9,
             "zip_row_id": 1, "job_id": 5, "job_set_id": 1},
        )  # fmt: skip
    await rounds.after(days=DAYS + 2)
    await rounds.after(days=2)
    assert await remaining(rounds, task) == {}
    for table in ("job_sets", "job_set_jobs", "event_range_files"):
        assert await rounds.count(table) == 0, table


async def test_the_archive_goes_after_its_own_time_with_its_files(stage: Stage, rounds: Rounds) -> None:
    await rounds.keep("tasks_archive", 40)
    task = await with_files(stage, 700)
    await rounds.after(days=DAYS + 2)
    await rounds.after(days=2)
    assert await stage.value("SELECT array_agg(task_id) FROM tasks_archive") == [task]
    assert await rounds.count("task_files_archive") == 3
    await rounds.after(days=39.5)
    await rounds.once()
    assert await rounds.count("tasks_archive") == 0 and await rounds.count("task_files_archive") == 0


async def test_tasks_are_kept_as_long_as_any_rule_keeps_rows_of_them(stage: Stage, rounds: Rounds) -> None:
    def days() -> int | None:
        return kept(BY_NAME["tasks"], stage.parameters.read).days

    await rounds.once()
    assert days() == 32, "whole days of the archive of jobs go, and late where somebody reads them"
    await rounds.keep("jumbo_jobs", 50)
    await rounds.once()
    assert days() == 50
    await rounds.keep("transition_log", 0)
    await rounds.once()
    assert days() is None
