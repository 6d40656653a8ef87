"""The checks see jobs that made a step together: one row of the log with their ids, whatever their tasks."""

from __future__ import annotations

import pytest

from services.watchdog.checking import run_checks
from shared.db import Database
from tests import rows
from tests.unit.check.story import tell


@pytest.mark.parametrize(
    "was, became, reason, check",
    [
        ("activated", "sent", "taken", "i7_job_given_twice"),
        ("failed", "activated", "again", "i4_final_job_changed"),
        ("merging", "defined", "back", "i5_transition_not_in_graph"),
        ("activated", "sent", "unstated", "i5_transition_without_reason"),
    ],
)
async def test_what_jobs_of_two_tasks_did_together_is_found_for_each_of_them(
    database: Database, was: str, became: str, reason: str, check: str
) -> None:
    async with database.read() as connection:
        first, second, other = [await tell(connection) for _ in range(3)]
        ids = sorted([first.live_job, second.live_job])
        for _ in range(2):
            await rows.log(connection, None, "job", entity_ids=ids, from_status=was, to_status=became, reason=reason)
        found = await run_checks(connection, [first.task, second.task])
        elsewhere = await run_checks(connection, [other.task])
    assert {one.entity_id for one in found if one.check == check} == set(ids)
    assert {one.task_id for one in found if one.check == check} == {first.task, second.task}
    assert elsewhere == []
