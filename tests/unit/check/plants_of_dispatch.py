"""Violations of what holds for reports of pilots, event ranges and shares: I6, I8, I12."""

from __future__ import annotations

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


async def shares_in_a_circle(connection: asyncpg.Connection, story: Story) -> None:
    for name, parent in (("A", None), ("B", "A")):
        await rows.insert(connection, "shares", {"gshare": name, "value": 50, "parent": parent})
    await connection.execute("UPDATE shares SET parent = 'B' WHERE gshare = 'A'")


async def usage_of_nothing(connection: asyncpg.Connection, story: Story) -> None:
    await connection.execute("UPDATE jobs SET creation_time = 'epoch', state_change_time = 'epoch'")
    await connection.execute(
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
        " SELECT queue, resource_type, gshare, user_name, status, count(*), 0 FROM jobs GROUP BY 1, 2, 3, 4, 5"
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
    "i12_share_outside_the_tree": shares_in_a_circle,
    "i12_usage_differs_at_rest": usage_of_nothing,
    "i12_job_and_its_retry_both_run": retry_beside_its_job,
}
