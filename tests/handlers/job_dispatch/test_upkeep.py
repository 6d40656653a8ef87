"""The dispatcher's periodic work on a real database."""

from __future__ import annotations

import random

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.policy.fitting import Offer
from shared.events import JobMove, JobsDispatched
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import update
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def test_old_claims_finished_and_silent_workers_and_dead_replicas_are_forgotten(rows: Rows, parts: Parts) -> None:
    (running,) = await rows.jobs(1, status="running")
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO job_claims VALUES ('old', 1000, orrery_now() - interval '2 days'),"
            " ('new', 1001, orrery_now()),"
            " ('with its pilot', $1, orrery_now() - interval '2 days')",
            running,
        )
        await connection.execute(
            "INSERT INTO workers VALUES ('H', 1, 'Q1', 'finished', 1, orrery_now() - interval '2 days'),"
            " ('H', 2, 'Q1', 'started', 1, orrery_now() - interval '2 days'),"
            " ('H', 3, 'Q1', 'finished', 1, orrery_now()),"
            " ('H', 4, 'Q1', 'started', 1, orrery_now() - interval '5 days')"
        )
        await connection.execute("INSERT INTO dispatch_replicas VALUES ('dead', orrery_now() - interval '2 hours')")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.forget(work)
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT array_agg(request_key ORDER BY 1) FROM job_claims") == [
            "new",
            "with its pilot",
        ]
        assert await connection.fetchval("SELECT array_agg(worker_id ORDER BY worker_id) FROM workers") == [2, 3]
        assert await connection.fetchval("SELECT count(*) FROM dispatch_replicas WHERE replica = 'dead'") == 0


async def test_minutes_say_how_many_pilots_of_each_vo_were_heard(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with rows.database.read() as connection:
        await connection.execute("UPDATE requirement_shapes SET vo = 'atlas'")
        await connection.execute("INSERT INTO heard_minutes VALUES ('', orrery_now() - interval '9 days', 1)")
    assert await update(pilot, job_id, "running") == "NULL"
    assert await update(pilot, job_id + 1000, "running") == "tobekilled"
    for _ in range(2):  # the second time nobody was heard
        async with rows.database.begin(reason="test") as work:
            await parts.upkeep.activity.flush(work)
            await parts.upkeep.forget(work)
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT vo, sum(n_heard) AS n FROM heard_minutes GROUP BY vo ORDER BY vo")
    assert [tuple(row) for row in found] == [("", 1), ("atlas", 1)]


async def test_ranks_follow_what_executes(rows: Rows, parts: Parts) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ('MC', 50), ('Data', 50)")
        await connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q1', 'SCORE', 'Data', 'u', 'running', 9, 9),"
            " ('Q1', 'SCORE', 'MC', 'u', 'running', 1, 1)"
        )
    (data,) = await rows.jobs(1, gshare="Data", priority=900)
    (monte_carlo,) = await rows.jobs(1, gshare="MC", priority=1)
    await parts.windows.open("Q1")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.rank(work)
    granted = [await parts.claims.acquire(Offer("Q1")) for _ in range(2)]
    assert [one.job_id for one in granted if one] == [monte_carlo, data]


async def test_urgent_work_is_taken_before_the_order_of_shares_is_looked_at(rows: Rows, parts: Parts) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ('MC', 50), ('Data', 50)")
        await connection.execute("INSERT INTO queue_statistics VALUES ('Q1', 'SCORE', 'Data', 'u', 'running', 9, 9)")
        await connection.execute(
            "UPDATE requirement_shapes SET is_urgent = true WHERE shape_id = $1", rows.shapes["small"]
        )
    (monte_carlo,) = await rows.jobs(1, gshare="MC", priority=900, shape="large")
    (urgent,) = await rows.jobs(1, gshare="Data", priority=1, shape="small")
    await parts.windows.open("Q1")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.rank(work)
    granted = [await parts.claims.acquire(Offer("Q1")) for _ in range(2)]
    assert [one.job_id for one in granted if one] == [urgent, monte_carlo]


async def test_a_part_of_the_picks_goes_by_age(rows: Rows, parts: Parts) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ('MC', 90), ('Data', 10)")
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type)"
            " VALUES ('pandaserver', 'jobdispatch', 'SLOPPY_DISPATCH_RATIO', '100', 'float')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    (refresh,) = (one for one in parts.service.periodic if one.name == "parameters")
    async with rows.database.begin(reason="test") as work:
        await refresh.run(work)
    (data,) = await rows.jobs(1, gshare="Data")
    (monte_carlo,) = await rows.jobs(1, gshare="MC")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.rank(work)
    assert parts.windows.ranks.order == ("MC", "Data")
    await parts.windows.open("Q1")
    granted = [await parts.claims.acquire(Offer("Q1")) for _ in range(2)]
    assert [one.job_id for one in granted if one] == [data, monte_carlo]


async def test_what_was_granted_since_the_last_reading_counts_as_executing(rows: Rows, parts: Parts) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ('MC', 50), ('Data', 50)")
        await connection.execute("INSERT INTO queue_statistics VALUES ('Q1', 'SCORE', 'Data', 'u', 'running', 9, 9)")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.rank(work)
    assert parts.windows.ranks.order == ("MC", "Data")

    def granted(n_jobs: int) -> JobsDispatched:
        move = JobMove(
            task_id=1,
            queue="Q1",
            resource_type="SCORE",
            gshare="MC",
            user_name="u",
            from_status="activated",
            to_status="sent",
            n_jobs=n_jobs,
            n_cores=n_jobs,
        )
        return JobsDispatched(job_ids=tuple(range(n_jobs)), moves=(move,))

    before, n_granted = parts.windows.ranks, 0
    while parts.windows.ranks is before:
        await parts.news.on_jobs_dispatched(granted(4))
        n_granted += 4
    assert parts.windows.ranks.order == ("Data", "MC") and n_granted > 9


async def test_replicas_share_the_ids_and_take_over_those_of_one_that_died(
    rows: Rows, parts: Parts, context: Context
) -> None:
    ids = await rows.jobs(40)
    other = build_parts(
        Context(
            context.database, context.cache, context.authority, random.Random(2), context.settings, CollectorRegistry()
        )
    )
    for action in other.service.on_start:
        await action()
    for one in (parts, other):
        async with rows.database.begin(reason="test") as work:
            await one.upkeep.count_replicas(work)
        await one.windows.open("Q1")
    mine = [await parts.claims.acquire(Offer("Q1")) for _ in range(12)]
    theirs = [await other.claims.acquire(Offer("Q1")) for _ in range(12)]
    assert not {one.job_id for one in mine if one} & {one.job_id for one in theirs if one}
    assert other.claims.batches._metrics.claims.labels("lost")._value.get() == 0  # nobody tried what the other takes
    await other.close()
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE dispatch_replicas SET seen_at = orrery_now() - interval '1 minute'")
    async with rows.database.begin(reason="test") as work:
        await parts.upkeep.count_replicas(work)
    rest = [await parts.claims.acquire(Offer("Q1")) for _ in range(16)]
    assert sorted(one.job_id for one in (*mine, *theirs, *rest) if one) == ids


@pytest.mark.parametrize(
    ("workflow", "parameter", "running", "wanted"),
    [
        ("push", "false", "heavy", "mean_memory"),  # 4000 MB for a core on average, 2500 are allowed
        ("push", "false", "light", None),
        ("push", "false", "", None),  # nothing runs: the first job sets the mean
        ("push", "true", "heavy", None),  # IGNORE_MEANRSS
        ("pull_ups", "false", "heavy", None),
    ],
)
async def test_a_push_queue_above_its_mean_memory_takes_jobs_below_it_only(
    rows: Rows, parts: Parts, workflow: str, parameter: str, running: str, wanted: str | None
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "UPDATE queues SET data = data || jsonb_build_object('workflow', $1::text, 'meanrss', 2500)"
            " WHERE queue = 'Q1'",
            workflow,
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name IN ('grid', 'config')")
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type)"
            " VALUES ('pandaserver', 'meanrss', 'IGNORE_MEANRSS', $1, 'bool')", parameter,
        )  # fmt: skip
        heavy = await connection.fetchval(
            "INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)"
            " VALUES ('managed', 'SCORE', 1, 4000, 1000, 3600) RETURNING shape_id"
        )
    shape_of = {"heavy": heavy, "light": rows.shapes["small"]}
    (waits,) = await rows.jobs(1)
    runs = await rows.jobs(3) if running else []
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE jobs SET shape_id = $1 WHERE job_id = $2", heavy, waits)
        await connection.execute(
            "UPDATE jobs SET status = 'running', shape_id = $1 WHERE job_id = ANY($2)", shape_of.get(running, 0), runs
        )
    for name in ("parameters", "mean-memory"):
        (periodic,) = (one for one in parts.service.periodic if one.name == name)
        async with rows.database.begin(reason="test") as work:
            await periodic.run(work)
    await parts.windows.open("Q1")
    granted = await parts.claims.acquire(Offer("Q1"))
    assert (granted.job_id if granted else None) == (None if wanted else waits)
    if wanted:
        shapes = parts.windows.shapes
        (why,) = shapes.misfits(shapes.kind_of(Offer("Q1")), {heavy})
        assert why.what == wanted and "4000 MB for 1 cores" in why.reason and "2500 MB for a core" in why.reason
