"""Why a queue, or a site, has the work that it has: placed, refused, pilots, cordon, limits."""

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
#: those that are looked at for a site of many queues
FEWEST_DECISIONS = 50


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
        rows = await SQL.rows(connection, "decisions_about_queue", queues=[name], at_most=MOST_DECISIONS, **reach)
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
            "day": await self._day(connection, [name]),
        }
        return {**found, "text": queue_text(found)}

    async def of_site(self, connection: asyncpg.Connection, name: str, caller: Caller) -> dict[str, Any] | None:
        """Tell what its queues did and refused together; None where the grid has no site of this name."""
        grid = await self._grid.grid(connection)
        site = grid.sites.get(name)
        if site is None:
            return None
        queues = sorted(one.name for one in grid.queues.values() if one.site == name)
        at_most, reach = max(FEWEST_DECISIONS, MOST_DECISIONS // max(1, len(queues))), Reach.of(caller)._asdict()
        rows = await SQL.rows(connection, "decisions_about_queue", queues=queues, at_most=at_most, **reach)
        without = await SQL.rows(connection, "without_a_job_at_queues", queues=queues)
        return {
            "site": {"site": name, "state": site.state, "tier": site.tier_level, "is_nucleus": site.is_nucleus},
            "queues": queues,
            "decisions": decided([dict(one) for one in rows]),
            "pilots_without_a_job": [dict(one) for one in without],
            "day": await self._day(connection, queues),
        }

    async def _day(self, connection: asyncpg.Connection, queues: list[str]) -> list[dict[str, Any]]:
        return [dict(one) for one in await SQL.rows(connection, "day_of_queues", queues=queues)]

    async def _without_a_job(self, connection: asyncpg.Connection, name: str, caller: Caller) -> list[dict[str, Any]]:
        """Classes with numbers; to operators with what the last pilot was told."""
        rows = [dict(one) for one in await SQL.rows(connection, "without_a_job_at_queues", queues=[name])]
        if not OPERATORS.allows(caller, Whose()):
            return rows
        reasons = {one["why"]: one["reason"] for one in await SQL.rows(connection, "reasons_at_queue", queue=name)}
        return [{**one, "reason": reasons.get(one["why"])} for one in rows]
