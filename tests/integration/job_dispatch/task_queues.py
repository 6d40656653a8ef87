"""Jobs of task queues for tests: interned as job generation interns them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import orjson
from prometheus_client import CollectorRegistry

from services.job_dispatch.acquire.no_match import NoMatch
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.app import Parts
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.no_match import NoJobs
from services.job_generation.store.order_keys import intern
from shared.config.parameters import Parameters
from shared.db import Database
from shared.order.identity import TaskQueueIdentity, as_set
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def jobs(
    rows: Rows,
    count: int,
    user: str,
    group: str,
    *,
    user_priority: int = 1,
    queue: str = "Q1",
    gshare: str = "MC",
    vo: str = "demo",
    **sets: Sequence[str],
) -> list[int]:
    """Activated jobs of one task queue; their ids."""
    identity = TaskQueueIdentity(vo, user, group, 3600, **{name: as_set(given) for name, given in sets.items()})
    ids = await rows.jobs(count, queue=queue, gshare=gshare, user_name=user)
    async with rows.database.begin(reason="test") as work:
        keys = await intern(work, [(identity, user_priority)])
        await work.connection.execute(
            "UPDATE jobs SET order_key_id = $2 WHERE job_id = ANY($1)", ids, keys[identity, user_priority]
        )
    return ids


async def group(rows: Rows, name: str, job_share: float, *, job_sharing: bool = False, vo: str = "demo") -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO user_groups (vo, name, job_share, job_sharing) VALUES ($1, $2, $3, $4)",
            vo,
            name,
            job_share,
            job_sharing,
        )


async def parameter(database: Database, key: str, value: object) -> None:
    """Set a parameter of task queues."""
    async with database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('order', $1, $2, $3)",
            key,
            value if isinstance(value, str) else orjson.dumps(value).decode(),
            "str" if isinstance(value, str) else "json",
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")


async def started(parts: Parts) -> Parts:
    for action in parts.service.on_start:
        await action()
    return parts


async def limits_are_read(parts: Parts, database: Database) -> None:
    """What the periodic reading does every ten seconds."""
    async with database.begin(reason="test") as work:
        await queues_of(parts).read_limits(work.connection, database.monotonic)


def queues_of(parts: Parts) -> TaskQueues:
    found = parts.windows.facts.task_queues
    assert found is not None
    return found


def why_nothing(parts: Parts, offer: Offer) -> NoJobs:
    """What a pilot is told that got no job."""
    metrics = DispatchMetrics(CollectorRegistry())
    return NoMatch(parts.windows, parts.sites, parts.activity, Parameters(), metrics, time.monotonic).explain(offer)


async def ended(rows: Rows, job_id: int) -> None:
    """A job has ended, and left the live jobs."""
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("DELETE FROM jobs WHERE job_id = $1", job_id)
