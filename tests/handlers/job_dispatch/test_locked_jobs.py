"""Who locks the row of a job sees who has it now, also where that was decided while the lock was waited for."""

from __future__ import annotations

import asyncio

import asyncpg

from services.job_dispatch.store import jobs as store
from tests.handlers.job_dispatch.grid_of_jobs import Rows

IS_WAITED_FOR = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
"""


async def test_a_job_that_was_acquired_while_its_row_was_waited_for_is_known_to_be_the_other_pilots(
    rows: Rows, database_url: str
) -> None:
    (job_id,) = await rows.jobs(1)
    claiming, looking = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    try:
        claim = claiming.transaction()
        await claim.start()
        await claiming.execute(
            "UPDATE jobs SET status = 'sent', state_change_time = state_change_time + interval '1 second'"
            " WHERE job_id = $1", job_id
        )  # fmt: skip
        await claiming.execute(
            "INSERT INTO job_claims (request_key, job_id, subject) VALUES ('key', $1, 'pilot-2')", job_id
        )
        async with rows.database.begin(reason="report") as work:
            locking = asyncio.create_task(store.lock_jobs(work.connection, [job_id]))
            async with asyncio.timeout(30):
                while not await looking.fetchval(IS_WAITED_FOR):
                    pass
            await claim.commit()
            job = (await locking)[job_id]
        assert (job.row.status, job.row.claimed_by) == ("sent", "pilot-2")
    finally:
        await claiming.close()
        await looking.close()
