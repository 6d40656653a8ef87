"""The composition root: the only place where the objects of this service are built."""

from __future__ import annotations

from functools import cache

from services.job_brokerage.api.grid import build_web
from services.job_brokerage.auditing import AUDIT_EVERY_S, Auditing
from services.job_brokerage.handlers import ChunkHandlers
from services.job_brokerage.loading import ChunkLoading
from services.job_brokerage.store.chunks import forget_old_decisions
from services.job_brokerage.store.slots import FORGET_SLOTS_EVERY_S, QueueSlots
from services.job_brokerage.store.statistics import (
    COUNT_WORKERS_EVERY_S,
    FORGET_EVERY_S,
    MEASURE_DISK_IO_EVERY_S,
    PUBLISH_EVERY_S,
    QueueStatistics,
)
from services.job_brokerage.store.usage import UsageSnapshot
from services.job_brokerage.supposing import Supposing
from services.job_brokerage.waking import QueueWaking
from shared import events
from shared.brokerage.policy import JOB_BROKERAGE, JobBrokerage
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.plugins import find
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid, Snapshot
from shared.snapshot.snapshot import CHECK_EVERY_S
from shared.waits.store import forget_waits
from shared.waits.waker import FORGET_EVERY_S as FORGET_WAITS_EVERY_S
from shared.waits.waker import LOOK_EVERY_S, WakeMetrics
from shared.web.json_text import BodyLimits

#: a grid of 2 000 queues and 20 000 links has 10 MB and 500 000 values
BODY_LIMITS = {"/api/v1/grid/load": BodyLimits(16 * 2**20, n_values=1_000_000)}

# Every event that moves jobs from one state to another.
JOB_EVENTS: tuple[type[events.JobsEvent], ...] = (
    events.JobsGenerated, events.JobsAssigned, events.JobsActivated, events.JobsThrottled, events.JobsDispatched,
    events.JobsStarted, events.OutputsProduced, events.JobsTransferring, events.JobsMerging, events.JobsFinished,
    events.JobsFailed, events.JobsExpired,
)  # fmt: skip


@cache
def find_policy(vo: str, label: str) -> JobBrokerage:
    """Find the plugin for tasks of a VO and label."""
    policy: JobBrokerage = find(JOB_BROKERAGE, vo, label)()
    return policy


def build(context: Context) -> Service:
    """Put the service together."""
    parameters, snapshot, usage = Parameters(), Snapshot(context.database, context.cache), UsageSnapshot()
    snapshot.on_changed.append(usage.mark)
    catalogue, statistics = BuiltInCatalogue(), QueueStatistics(context.cache)
    slots = QueueSlots(KnownGrid(context.cache), statistics.mark)
    wakes = WakeMetrics.of(context.metrics)
    waking = QueueWaking(context.database, snapshot, usage, parameters, statistics, wakes)
    loading = ChunkLoading(catalogue, snapshot, usage)
    chunks = ChunkHandlers(
        loading, snapshot, parameters, find_policy, context.random, context.metrics, wakes, waking.note
    )
    supposing = Supposing(loading, snapshot, parameters, find_policy)

    async def refresh(work: UnitOfWork) -> None:
        await snapshot.refresh(work.connection)

    async def on_statistics_changed(event: events.StatisticsChanged) -> None:
        await snapshot.on_statistics_changed(event)
        await waking.on_statistics_changed(event)

    service = Service(
        name="job-brokerage",
        body_limits=BODY_LIMITS,
        work=[
            (events.ChunkOffered, chunks.on_chunk_offered),
            *((event, statistics.on_jobs_moved) for event in JOB_EVENTS),
            (events.JobsReordered, statistics.on_jobs_reordered),
        ],
        news=[
            (events.GridChanged, snapshot.on_grid_changed),
            (events.StatisticsChanged, on_statistics_changed),
        ],
        periodic=[
            Periodic("refresh", CHECK_EVERY_S, refresh, lease=False),
            Periodic("publish-statistics", PUBLISH_EVERY_S, statistics.publish, lease=False),
            Periodic("count-workers", COUNT_WORKERS_EVERY_S, statistics.count_workers),
            Periodic("measure-disk-io", MEASURE_DISK_IO_EVERY_S, statistics.measure_disk_io),
            Periodic("audit-statistics", AUDIT_EVERY_S, Auditing(statistics, context.metrics).audit),
            Periodic("wake", LOOK_EVERY_S, waking.look, lease=False),
            *_forgetting(statistics, slots),
        ],
        web=build_web(context.database, snapshot, slots, parameters, supposing),
        on_start=[snapshot.check],
    )
    return with_parameters(parameters, context.database, service)


def _forgetting(statistics: QueueStatistics, slots: QueueSlots) -> list[Periodic]:
    """What is old goes."""

    async def history(work: UnitOfWork) -> None:
        await forget_old_decisions(work)
        await statistics.forget_old(work)

    async def waits(work: UnitOfWork) -> None:
        await forget_waits(work.connection, "queue")

    return [
        Periodic("forget-slots", FORGET_SLOTS_EVERY_S, slots.forget_expired),
        Periodic("forget-waits", FORGET_WAITS_EVERY_S, waits),
        Periodic("forget-history", FORGET_EVERY_S, history),
    ]
