"""Rounds of retention on the clock of a test, and rows that have rules."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from services.watchdog.retaining import Retaining, RetentionMetrics
from tests import rows
from tests.handlers.watchdog.conftest import Stage

SPEC = '{"jobPars": "x"}'


class Rounds:
    """The rules as the watchdog applies them, on the clock of the test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.registry = CollectorRegistry()
        self.retaining = Retaining(stage.parameters, RetentionMetrics.of(self.registry))

    async def once(self) -> int:
        """A whole round; how many slices it had."""
        self.stage.clock.forward(seconds=301)
        n_slices = 0
        more = True
        while more:
            async with self.stage.database.begin(reason="periodic retention") as work:
                more = await self.retaining.drop_old(work)
            n_slices += 1
        return n_slices

    async def after(self, **duration: float) -> int:
        self.stage.clock.forward(**duration)
        return await self.once()

    async def keep(self, rule: str, days: int) -> None:
        await self.stage.set(f"{rule.upper()}_KEEP_DAYS", days, "maintenance", "orrery")

    async def count(self, table: str) -> int:
        found: int = await self.stage.value(f"SELECT count(*) FROM {table}")
        return found


async def ended_task(stage: Stage, **values: Any) -> int:
    async with stage.database.read() as connection:
        return await rows.task(connection, status="done", state_change_time=stage.clock.now, **values)


async def ended_job(stage: Stage, task_id: int, file_id: int | None = None) -> int:
    """A job that is archived now, with all that is kept of it."""
    now = stage.clock.now
    async with stage.database.read() as connection:
        job_id = await rows.archived_job(connection, task_id, archived_at=now, start_time=now, end_time=now)
        await connection.execute(
            "INSERT INTO job_specs (job_id, task_id, spec) VALUES ($1, $2, $3)", job_id, task_id, SPEC
        )
        await connection.execute(
            "INSERT INTO job_reports (job_id, attempt_number, state, report) VALUES ($1, 1, 'finished', '{}')", job_id
        )
        await connection.execute(
            "INSERT INTO transfers (task_id, job_id, direction, activity, destination_storage, n_files, n_bytes,"
            " status)"
            " VALUES ($1, $2, 'input', 'Production Input', 'DISK', 1, 1, 'done')",
            task_id, job_id,
        )  # fmt: skip
        if file_id is not None:
            await rows.job_file(connection, job_id, file_id, is_master=True)
    return job_id
