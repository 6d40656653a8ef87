"""Violations of what holds for reports of pilots, event ranges, job sets and shares: I1, I2, I6, I7, I8, I12."""

from __future__ import annotations

from typing import Any

import asyncpg

from tests import rows
from tests.unit.check.story import Story


async def report_of_another_attempt(connection: asyncpg.Connection, story: Story) -> None:
    report = {"job_id": story.live_job, "attempt_number": 7, "state": "failed", "report": {}}
    await rows.insert(connection, "job_reports", report)


async def report_after_the_end(connection: asyncpg.Connection, story: Story) -> None:
    await rows.change(
        connection,
        "UPDATE jobs_archive SET end_time = orrery_now() - interval '1 hour' WHERE job_id = $1",
        story.archived_job,
    )
    report = {"job_id": story.archived_job, "attempt_number": 1, "state": "finished", "report": {}}
    await rows.insert(connection, "job_reports", report)


async def event_range(connection: asyncpg.Connection, story: Story, status: int, first: int, last: int) -> None:
    await rows.insert(
        connection, "event_ranges",
        {"task_id": story.task, "dataset_id": story.input, "file_id": story.finished_file, "status": status,
         "job_id": story.archived_job, "def_min_event_id": first, "def_max_event_id": last, "attempt_nr": first,
         "job_process_id": first},
    )  # fmt: skip


async def events_merged_twice(connection: asyncpg.Connection, story: Story) -> None:
    await event_range(connection, story, 9, 1, 10)
    await event_range(connection, story, 9, 8, 12)


async def processed_events_not_merged(connection: asyncpg.Connection, story: Story) -> None:
    await event_range(connection, story, 9, 1, 10)
    await event_range(connection, story, 6, 11, 20)


async def events_not_merged(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("UPDATE tasks SET event_service = 1 WHERE task_id = $1", story.task)
    n_events = await connection.fetchval("SELECT n_events FROM task_files WHERE file_id = $1", story.finished_file)
    await event_range(connection, story, 9, 1, 2)
    await event_range(connection, story, 9, 4, n_events)


async def job_set(connection: asyncpg.Connection, story: Story, **values: Any) -> int:
    """An open set of a task, with one range that is ready, in the hands of nobody."""
    set_id = await rows.insert(
        connection, "job_sets",
        {"task_id": story.task, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1, "n_ranges": 1,
         "n_consumers": 1, "serials": {}, "queues": [], "wants": "consumer", **values},
        "job_set_id",
    )  # fmt: skip
    await event_range(connection, story, 0, 1, 10)
    await connection.execute("UPDATE event_ranges SET job_set_id = $1, job_id = NULL", set_id)
    return int(set_id)


async def counters_of_job_set(connection: asyncpg.Connection, story: Story) -> None:
    await job_set(connection, story)
    await connection.execute("UPDATE job_sets SET n_done = 1")


async def range_of_no_live_row(connection: asyncpg.Connection, story: Story) -> None:
    await job_set(connection, story, n_ranges=2)


async def job_set_without_job(connection: asyncpg.Connection, story: Story) -> None:
    await job_set(connection, story, wants=None)


async def range_of_no_job(connection: asyncpg.Connection, story: Story) -> None:
    await job_set(connection, story)
    await connection.execute("UPDATE event_ranges SET status = 2, job_id = $1", story.archived_job)


async def waiting_files(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("UPDATE task_datasets SET n_files_waiting = 1 WHERE task_id = $1", story.task)


async def file_of_waiting_set(connection: asyncpg.Connection, story: Story) -> None:
    set_id = await job_set(connection, story)
    waiting = await rows.job(connection, story.task, status="waiting", queue=None)
    member = {"job_id": waiting, "job_set_id": set_id, "task_id": story.task, "role": "consumer", "attempt": 1}
    await rows.insert(connection, "job_set_jobs", member)
    await connection.execute("UPDATE task_files SET jobset_id = $1 WHERE task_id = $2", set_id, story.task)


async def shares_in_a_circle(connection: asyncpg.Connection, story: Story) -> None:
    for name, parent in (("A", None), ("B", "A")):
        await rows.insert(connection, "shares", {"gshare": name, "value": 50, "parent": parent})
    await connection.execute("UPDATE shares SET parent = 'B' WHERE gshare = 'A'")


async def usage_of_nothing(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("UPDATE jobs SET creation_time = 'epoch', state_change_time = 'epoch'")
    await connection.execute(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)"
        " SELECT queue, resource_type, gshare, user_name, (SELECT vo FROM tasks t WHERE t.task_id = jobs.task_id),"
        " status, count(*), 0 FROM jobs GROUP BY 1, 2, 3, 4, 5, 6"
    )


async def retry_beside_its_job(connection: asyncpg.Connection, story: Story) -> None:
    again = await rows.job(connection, story.task, status="waiting", job_type="merge")
    history = {"task_id": story.task, "old_job_id": story.live_job, "new_job_id": again}
    await rows.insert(connection, "job_retry_history", history)


PLANTS_OF_DISPATCH = {
    "i6_report_of_another_attempt": report_of_another_attempt,
    "i6_report_after_the_end": report_after_the_end,
    "i8_events_merged_twice": events_merged_twice,
    "i8_processed_events_not_merged": processed_events_not_merged,
    "i8_events_not_merged": events_not_merged,
    "i7_counters_of_job_set": counters_of_job_set,
    "i1_range_of_no_live_row": range_of_no_live_row,
    "i2_job_set_without_job": job_set_without_job,
    "i2_range_of_no_job": range_of_no_job,
    "i7_waiting_files": waiting_files,
    "i7_file_of_waiting_set": file_of_waiting_set,
    "i12_share_outside_the_tree": shares_in_a_circle,
    "i12_usage_differs_at_rest": usage_of_nothing,
    "i12_job_and_its_retry_both_run": retry_beside_its_job,
}
