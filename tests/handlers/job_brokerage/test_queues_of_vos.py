"""VOs that share queues: waiting jobs of one keep no queue from another one."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.app import build
from shared.db import Database
from shared.events import ChunkBrokered, ChunkUnplaceable, JobMove, JobsGenerated, StatisticsChanged
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.job_brokerage.test_chunks import an_offer, copy_at

QUEUES = ("Q_ALPHA", "Q_BETA", "Q_GAMMA")
WAITING = 240
KINDS: dict[str, dict[str, Any]] = {
    "production": {"user_name": "eve"},
    "analysis": {"task_type": "anal", "prod_source_label": "user", "gshare": "User Analysis", "user_name": "eve"},
}


async def generated(database: Database, service: Service, vo: str, n_jobs: int, **task: Any) -> None:
    """Jobs of a task of a VO are made at each queue and wait there, as the event of their making says."""
    async with database.read() as connection:
        task_id = await rows.task(connection, vo=vo, status="running", **task)
        chunk_id = await rows.chunk(connection, task_id, status="used")
    moves = tuple(
        JobMove(
            task_id=task_id, queue=queue, resource_type="SCORE", gshare=task.get("gshare", "MC"),
            user_name=task["user_name"], from_status=None, to_status="defined", n_jobs=n_jobs, n_cores=n_jobs,
        )
        for queue in QUEUES
    )  # fmt: skip
    await deliver(database, service, JobsGenerated(task_id=task_id, chunk_id=chunk_id, moves=moves))


async def offered(database: Database, service: Service, vo: str, **task: Any) -> Any:
    """What becomes of the first chunk of a task whose input is at hand."""
    offer = await an_offer(database, vo=vo, **task)
    await copy_at(database, offer, "ALPHA_DATADISK", "BETA_DATADISK", "GAMMA_DATADISK")
    (found,) = await deliver(database, service, offer)
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_of_one_vo_that_no_pilot_takes_keep_no_queue_from_another_one(
    database: Database, context: Context, kind: str
) -> None:
    await load_grid(database)
    service = await started(build(context))
    await generated(database, service, "cms", WAITING, **KINDS[kind])
    await dict(service.news)[StatisticsChanged](StatisticsChanged(queues=QUEUES))
    held = await offered(database, service, "cms", **KINDS[kind])
    assert isinstance(held, ChunkUnplaceable) and held.reason.count("queued"), "of its own there are too many"
    placed = await offered(database, service, "atlas", **KINDS[kind])
    assert isinstance(placed, ChunkBrokered) and {one.queue for one in placed.candidates} == set(QUEUES)
    async with database.read() as connection:
        counted = await connection.fetch("SELECT DISTINCT vo, user_name, n_jobs FROM queue_statistics")
        causes = await connection.fetchval("SELECT causes FROM waits")
    assert [tuple(one) for one in counted] == [("cms", "eve", WAITING)]
    assert {held[5] for held in causes["queues"]} == {"cms"}, "what wakes it is room for its own VO"


async def test_people_of_one_name_in_two_vos_are_two(database: Database, context: Context) -> None:
    await load_grid(database)
    service = await started(build(context))
    for vo, n_jobs in (("cms", WAITING), ("atlas", 3)):
        await generated(database, service, vo, n_jobs, user_name="ada")
    async with database.read() as connection:
        for vo, n_jobs in (("cms", WAITING), ("atlas", 3), ("lhcb", 0), (None, 0)):
            count = "SELECT coalesce(sum(n_jobs), 0)::int FROM orrery_jobs_of_account('ada', $1)"
            assert await connection.fetchval(count, vo) == n_jobs * len(QUEUES), vo
