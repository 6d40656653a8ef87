"""Ranges of events are in partitions by their task; a first event of a file has one row for each attempt."""

from __future__ import annotations

import asyncpg
import pytest

from shared.db import Database
from tests import rows


async def test_tasks_are_spread_over_partitions_which_keep_keys_and_checks(database: Database) -> None:
    async with database.read() as connection:
        for _ in range(20):
            task_id = await rows.task(connection)
            dataset_id = await rows.dataset(connection, task_id)
            file_id = await rows.file(connection, task_id, dataset_id)
            found = {"task_id": task_id, "dataset_id": dataset_id, "file_id": file_id, "def_max_event_id": 10}
            for attempts, status in ((10, 7), (9, 0)):
                events = {"def_min_event_id": 1, "job_process_id": 1, "attempt_nr": attempts, "status": status}
                await rows.insert(connection, "event_ranges", {**found, **events})
        assert await connection.fetchval("SELECT count(DISTINCT tableoid) FROM event_ranges") > 4
        again = {**found, "def_min_event_id": 1, "job_process_id": 2, "attempt_nr": 9}
        with pytest.raises(asyncpg.UniqueViolationError):
            await rows.insert(connection, "event_ranges", again)
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await connection.execute(
                "INSERT INTO event_ranges (task_id, dataset_id, file_id, def_min_event_id) VALUES ($1, $2, 0, 1)",
                task_id, dataset_id,
            )  # fmt: skip
        with pytest.raises(asyncpg.CheckViolationError):
            await rows.insert(connection, "event_ranges", {**again, "attempt_nr": -1})
        newest = await connection.fetchval("SELECT max(event_range_id) FROM event_ranges")
        assert await rows.insert(connection, "event_ranges", {**again, "attempt_nr": 8}, "event_range_id") > newest


async def test_ranges_of_earlier_job_sets_have_the_columns_of_ranges_in_their_order(database: Database) -> None:
    columns = (
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = $1::text::regclass AND attnum > 0"
    )
    async with database.read() as connection:
        ranges, past = [await connection.fetchval(columns, name) for name in ("event_ranges", "event_ranges_past")]
    assert past == [*ranges, "moved_at"]
