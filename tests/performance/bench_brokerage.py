"""Task decisions with reasons beside bare numpy; one decision event in to event out; what a refresh costs.

The grid of the second and third figure is the full one of the examples, in a database of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from services.job_brokerage.app import build
from services.task_brokerage.policy.production import ProductionTaskBrokerage
from shared.auth import Authority
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.world import World
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db.database import Database
from shared.events import ChunkOffered, StatisticsChanged
from shared.model.grid import read_grid_folder
from shared.runtime.service import Context, Service
from shared.snapshot import Snapshot
from tests import rows, servers
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.performance.bare_brokerage import bare_decision
from tests.performance.brokerage_worlds import NOW, a_world, some_tasks
from tests.performance.figures import percentile, times
from tests.performance.sizes import SMALL, exit_code, sized

SIZES = (200,) if SMALL else (200, 1000, 5000)
N_TASKS = sized(1000, 100)
AT_MOST = 3.0
N_DECISIONS = sized(100, 10)
TARGET_S = 0.050
LOAD_TARGET_S = 10.0
FULL_GRID = Path(__file__).parents[2] / "deploy" / "examples" / "grid_full"


def seconds_of(action: Callable[[], object]) -> float:
    """Of this process alone: what else the machine does is no part of the comparison."""
    started_s = time.process_time()
    action()
    return time.process_time() - started_s


def one_size(world: World, tasks: Sequence[TaskRequest]) -> tuple[float, float]:
    """Seconds with reasons and seconds of bare numpy, measured in turns so that a busy moment meets both."""
    policy = ProductionTaskBrokerage()
    for task in tasks[:100]:
        bare = bare_decision(world, task, task.task_id)
        assert policy.decide(world, task, task.task_id).chosen == ((bare,) if bare else ()), "both must decide alike"

    def with_reasons(part: Sequence[TaskRequest]) -> float:
        # A request remembers what it computed: each is used once.
        fresh = [replace(task, job=replace(task.job)) for task in part]
        return seconds_of(lambda: [policy.decide(world, one, one.task_id) for one in fresh])

    def without(part: Sequence[TaskRequest]) -> float:
        return seconds_of(lambda: [bare_decision(world, one, one.task_id) for one in part])

    parts = [tasks[first : first + 100] for first in range(0, len(tasks), 100)]
    return sum(with_reasons(part) for part in parts), sum(without(part) for part in parts)


def decisions_against_bare_numpy() -> bool:
    """Whether every size stayed within the factor."""
    tasks, good = some_tasks(N_TASKS), True
    for size in SIZES:
        world = a_world(size)
        ours, bare = one_size(world, tasks)
        good &= ours / bare <= AT_MOST
        print(
            f"   {N_TASKS} task decisions with reasons, {size:5} queues ({len(world.columns):6} rows) {ours:6.2f} s   "
            f"bare numpy {bare:6.2f} s   {ours / bare:4.2f} x (at most {AT_MOST:g})"
        )
    return good


def refresh_of_one_queue() -> None:
    """Numbers of one queue among many."""
    for size in SIZES:
        world = a_world(size)
        name = next(iter(world.grid.queues))
        activity = [Activity(name, NOW)]

        def update(world: World = world, name: str = name, activity: list[Activity] = activity) -> object:
            return world.load.updated(world.columns, [JobCount(name, "SCORE", "running", 5)], activity, [name])

        print(times(f"one of {size} queues changed, in memory", [seconds_of(update) for _ in range(200)]))


def a_context(database: Database, url: str) -> Context:
    settings = Settings(database_url=url)
    return Context(database, NullCache(), Authority.generate(), random.Random(1), settings, CollectorRegistry())


async def an_offer(database: Database) -> ChunkOffered:
    async with database.read() as connection:
        task_id = await rows.task(
            connection,
            core_count=8,
            ram_count=1500,
            ram_unit="MBPerCore",
            cpu_time=50,
            resource_type="MCORE",
            cpu_time_unit="HS06sPerEvent",
            nucleus="CERN-PROD",
            architecture="x86_64-centos7-gcc11-opt",
            trans_home="Athena-24.0.1",
        )
        dataset_id = await rows.dataset(connection, task_id, dataset_name=f"data.{task_id}")
        held = [{"dataset_id": dataset_id, "n_files": 50, "n_bytes": 10**11, "n_events": 50_000}]
        chunk_id = await rows.chunk(connection, task_id, n_files=50, n_events=50_000, input_bytes=10**11, inputs=held)
        for number in range(50):
            await rows.file(
                connection,
                task_id,
                dataset_id,
                lfn=f"file{number}",
                fsize=2 * 10**9,
                status="picked",
                chunk_id=chunk_id,
            )
    return ChunkOffered(chunk_id=chunk_id, task_id=task_id)


async def event_in_to_event_out(context: Context) -> bool:
    """Whether the median stayed within the target; the transaction's commit is part of it."""
    service: Service = await started(build(context))
    offers = [await an_offer(context.database) for _ in range(N_DECISIONS)]
    found, outcomes = [], set()
    for offer in offers:
        started_s = time.perf_counter()
        (event,) = await deliver(context.database, service, offer)
        found.append(time.perf_counter() - started_s)
        outcomes.add(type(event).__name__)
    print(times("one chunk over the full grid, event in to event out", found) + f"   {', '.join(sorted(outcomes))}")
    return percentile(found, 0.5) <= TARGET_S


async def refresh_from_the_database(context: Context) -> None:
    """One queue's statistics against everything."""
    snapshot = Snapshot(context.database, context.cache)
    await snapshot.check()
    name = sorted(snapshot.world.grid.queues)[0]
    some, everything = [], []
    for _ in range(50):
        started_s = time.perf_counter()
        await snapshot.on_statistics_changed(StatisticsChanged(queues=(name,)))
        some.append(time.perf_counter() - started_s)
    for _ in range(3):
        fresh = Snapshot(context.database, context.cache)
        started_s = time.perf_counter()
        await fresh.check()
        everything.append(time.perf_counter() - started_s)
    print(times("statistics of one queue read again", some))
    print(times("the whole world read (start, or a new grid)", everything))


async def with_a_database() -> bool:
    server = servers.Servers.find().database_url
    url = await servers.clone_template(server, await servers.ensure_template(server))
    database = await Database.connect(url, actor="benchmark")
    try:
        context = a_context(database, url)
        started_s = time.perf_counter()
        await load_grid(database, read_grid_folder(FULL_GRID))
        load_s = time.perf_counter() - started_s
        print(f"   {'the full grid loaded':58} {load_s:6.1f} s   (at most {LOAD_TARGET_S:g} s)")
        good = load_s <= LOAD_TARGET_S
        good &= await event_in_to_event_out(context)
        await refresh_from_the_database(context)
    finally:
        await database.close()
        await servers.drop_database(server, url)
    return good


def main() -> int:
    """0 if every figure kept its limit."""
    logging.basicConfig(level=logging.WARNING)
    good = decisions_against_bare_numpy()
    refresh_of_one_queue()
    good &= asyncio.run(with_a_database())
    return exit_code(good)


if __name__ == "__main__":
    raise SystemExit(main())
