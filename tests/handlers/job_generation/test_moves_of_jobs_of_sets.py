"""Jobs of sets that are taken back while others change them: the statistics of queues count where they were."""

from __future__ import annotations

import asyncio

from services.job_generation.kinds.event_service.open_sets import TAKEN_BACK
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from tests import rows


async def test_a_job_that_a_pilot_takes_while_it_is_taken_back_ends_from_the_state_it_then_has(database) -> None:
    async with database.read() as connection:
        job_id = await rows.job(connection, 7, queue="Q_ALPHA", status="activated")

    async def take_back() -> list[str]:
        async with database.begin(reason="test") as work:
            ended = await store_sets.end_live(work, [job_id], "closed", TAKEN_BACK, "another copy of it was faster")
        return [was for _, was in ended]

    async with database.begin(reason="a pilot takes it") as claim:
        await claim.connection.execute("UPDATE jobs SET status = 'sent' WHERE job_id = $1", job_id)
        taking_back = asyncio.create_task(take_back())
        await asyncio.sleep(0.3)
        assert not taking_back.done(), "it waits for the pilot's transaction"
    assert await taking_back == ["sent"]
