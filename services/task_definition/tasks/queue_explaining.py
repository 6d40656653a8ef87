"""Why a queue has the work that it has: placed, refused, its pilots, its cordon and limits."""

from __future__ import annotations

from typing import Any

import asyncpg

from services.task_definition.tasks.policy.queue_text import caps_of, decided, limits_of, queue_text
from services.task_definition.tasks.store.queue_explanations import SQL
from shared.auth import Caller
from shared.auth.access import OPERATORS, Whose
from shared.auth.reach import Reach
from shared.brokerage.limits import JobLimits
from shared.config.parameters import Parameters
from shared.snapshot import KnownGrid

#: decisions and waiting jobs that are looked at: the answer costs the same at the busiest queue
MOST_DECISIONS, MOST_JOBS = 1000, 10_000


class QueueExplanation:
    """Stateless; reads only. Numbers are told to everybody, tasks to who may read them."""

    def __init__(self, grid: KnownGrid, parameters: Parameters | None = None) -> None:
        self._grid, self._parameters = grid, parameters or Parameters()

    async def of(self, connection: asyncpg.Connection, name: str, caller: Caller) -> dict[str, Any] | None:
        """Everything about one queue; None where the grid has none of this name."""
        known = (await self._grid.grid(connection)).queues.get(name)
        if known is None:
            return None
        (facts,) = await SQL.rows(connection, "queue_facts", queue=name, site=known.site)
        described = {"queue": name, "site": known.site, "status": known.status.value, "type": known.type.value}
        reach = Reach.of(caller)._asdict()
        rows = await SQL.rows(connection, "decisions_about_queue", queue=name, at_most=MOST_DECISIONS, **reach)
        waiting = await SQL.rows(connection, "waiting_of_queue", queue=name, at_most=MOST_JOBS, **reach)
        jobs = [dict(one) for one in await SQL.rows(connection, "jobs_of_queue", queue=name)]
        floor = self._parameters.filled(JobLimits).queued_jobs_floor
        found: dict[str, Any] = {
            "queue": {**described, **facts},
            "limits": limits_of(known),
            "caps": caps_of(jobs, floor),
            "jobs": jobs,
            "waiting": [dict(one) for one in waiting],
            "decisions": decided([dict(one) for one in rows]),
            "pilots_without_a_job": await self._without_a_job(connection, name, caller),
        }
        return {**found, "text": queue_text(found)}

    async def _without_a_job(self, connection: asyncpg.Connection, name: str, caller: Caller) -> list[dict[str, Any]]:
        """Classes with numbers; to operators with what the last pilot was told."""
        rows = [dict(one) for one in await SQL.rows(connection, "without_a_job_at_queue", queue=name)]
        if not OPERATORS.allows(caller, Whose()):
            return rows
        reasons = {one["why"]: one["reason"] for one in await SQL.rows(connection, "reasons_at_queue", queue=name)}
        return [{**one, "reason": reasons.get(one["why"])} for one in rows]
