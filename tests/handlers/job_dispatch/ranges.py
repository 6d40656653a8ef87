"""Ranges of events for tests: files that jobs read, each in ranges of ten events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.states.event_range import STATUS_OF_CODE
from tests import rows
from tests.handlers.job_dispatch.grid_of_jobs import Rows

EVENTS = 10


async def add_ranges(
    of: Rows, job_ids: Sequence[int], n_ranges: int, *, attempts: int = 10, claimed_by: str | None = "pilot-1"
) -> int:
    """A file that these jobs of task 1 read together, in so many ranges; its id."""
    task_id, lfn = 1, "EVNT.1"
    async with of.database.pool.acquire() as connection:
        dataset_id = await rows.dataset(connection, task_id)
        file_id = await rows.file(
            connection,
            task_id,
            dataset_id,
            lfn=lfn,
            guid="a-b",
            scope="mc",
            status="running",
            n_events=n_ranges * EVENTS,
        )
        for job_id in job_ids:
            claim = "INSERT INTO job_claims (request_key, job_id, subject) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            await connection.execute(claim, f"key-{job_id}", job_id, claimed_by)
            await rows.job_file(connection, job_id, file_id, is_master=True)
        await connection.executemany(
            "INSERT INTO event_ranges (task_id, dataset_id, file_id, job_process_id, def_min_event_id,"
            " def_max_event_id, attempt_nr) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [
                (task_id, dataset_id, file_id, number, (number - 1) * EVENTS + 1, number * EVENTS, attempts)
                for number in range(1, n_ranges + 1)
            ],
        )
    return file_id


async def stored(of: Rows, file_id: int) -> list[dict[str, Any]]:
    """The rows of a file's ranges, the newest attempt of each last, states as words."""
    async with of.database.read() as connection:
        found = await connection.fetch(
            "SELECT * FROM event_ranges WHERE file_id = $1 ORDER BY job_process_id, attempt_nr DESC", file_id
        )
    return [{**dict(row), "status": STATUS_OF_CODE[row["status"]]} for row in found]


async def statuses(of: Rows, file_id: int) -> list[tuple[int, int, str]]:
    """(number, attempts left, state) of a file's ranges."""
    return [(row["job_process_id"], row["attempt_nr"], row["status"]) for row in await stored(of, file_id)]
