"""The dispatcher's periodic work: looking again, ranks, activity, replicas, and deletion of old rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.acquire.identity import Identity
from services.job_dispatch.acquire.task_queue_upkeep import TaskQueueUpkeep
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.parameters import (
    CLAIMS_KEPT_S,
    FINISHED_WORKERS_KEPT_S,
    IGNORE_MEANRSS,
    OWN_IDS_BAND,
    SILENT_WORKERS_KEPT_S,
    SLOPPY_DISPATCH_RATIO,
    STDOUT_KEPT_S,
)
from services.job_dispatch.store.progress import forget_said
from services.job_dispatch.store.upkeep import SQL
from services.job_dispatch.store.worker_nodes import forget_nodes
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import GridChanged, JobMove, SharesCorrected
from shared.order.ranking import Ranks
from shared.order.share_order import ShareOrder
from shared.order.tree import Node
from shared.snapshot import KnownGrid
from shared.snapshot.live_queues import QueueWalk

NO_JOBS_KEPT_S, NODES_KEPT_S = 86_400.0, 2_592_000.0
SAID_KEPT_S = 3600.0
#: after its job has ended, a pilot's claim is kept so long at least: it may report its log
LATE_S = 10_800.0
REPLICA_ALIVE_S, REPLICA_DEAD_S = 35.0, 3600.0
#: a day more than the longest silence that is measured (`shared.timeouts.hearing`)
HEARD_KEPT_DAYS = 8
FORGET_SLICE = 150_000  # in one run: more than are made in the time between two, at any rate that was measured


class Upkeep:
    """`identity` names this process among the replicas of the dispatcher."""

    def __init__(
        self,
        windows: Windows,
        activity: PilotActivity,
        parameters: Parameters,
        metrics: DispatchMetrics,
        grid: KnownGrid,
        task_queues: TaskQueues,
        *,
        identity: Identity,
        clock: Callable[[], float],
    ) -> None:
        self._windows = windows
        self._task_queues = TaskQueueUpkeep(task_queues, parameters, clock)
        self._clock = clock
        self._share_order = ShareOrder(DEFAULT_CORE_POWER_HS06)
        self.activity = activity
        self._parameters = parameters
        self._metrics = metrics
        self._grid = grid
        self._identity = identity
        self._replicas: Sequence[str] = ()
        self._walk = QueueWalk()
        self._above_mean: dict[str, int] = {}

    async def recheck(self, work: UnitOfWork) -> None:
        """Look at lost picks, 1 to 2 s later; at task queues and limits of sites, where they are due."""
        await self._windows.recheck_lost(work.connection)
        await self._task_queues.look(work.connection)

    async def sweep(self, work: UnitOfWork) -> None:
        """Read windows that are due again; forget those of idle queues."""
        await self._windows.sweep()
        queues, entries = self._windows.sizes()
        self._metrics.open_queues.set(queues)
        self._metrics.window_entries.set(entries)

    async def rank(self, work: UnitOfWork) -> None:
        """Swap the order of the shares, and say how much of a window the replicas divide among them."""
        self._windows.limits.band = self._parameters.read(OWN_IDS_BAND)
        self._windows.limits.sloppy_percent = float(self._parameters.read(SLOPPY_DISPATCH_RATIO))
        tree = await SQL.rows(work.connection, "share_tree")
        queues = (await self._grid.grid(work.connection)).queues.values()
        powers = {one.name: one.core_power_hs06 for one in queues if one.core_power_hs06 > 0}
        used = await SQL.rows(
            work.connection,
            "use_of_shares",
            queues=list(powers),
            core_powers_hs06=list(powers.values()),
            usual_hs06=DEFAULT_CORE_POWER_HS06,
        )
        nodes = [
            Node(row["gshare"], row["value"], row["parent"], row["correction_factor"], row["stretchable"])
            for row in tree
        ]
        executing_hs06 = {row["gshare"]: row["hs06"] for row in used}
        n_queued = {row["gshare"]: row["n_queued"] for row in used}
        self._serve(self._share_order.read(nodes, executing_hs06, powers, n_queued, self._clock()))

    async def read_queues(self, work: UnitOfWork) -> None:
        """Read which queues hand out jobs: news of another grid may be lost."""
        await self.activity.read_queues(work.connection)
        await self._task_queues.read_grid(work.connection)

    async def read_mean_memory(self, work: UnitOfWork) -> bool:
        """Find push queues whose jobs have more memory for each core than their limit, on average.

        They get jobs within the limit only, until the mean is below it again (PanDA: mean memory limit). One slice
        looks at some queues; whether more are left.
        """
        queues = (await self._grid.grid(work.connection)).queues.values()
        limits = {
            one.name: one.mean_rss_mb for one in queues if one.mean_rss_mb > 0 and one.workflow.startswith("push")
        }
        if not limits or self._parameters.read(IGNORE_MEANRSS):
            self._windows.shapes.above_mean = {}
            return False
        next_ = await self._walk.next(work)
        limited = [queue for queue in next_.queues if queue in limits]
        rows = await SQL.rows(work.connection, "mean_memory_of_queues", queues=limited) if limited else []
        above = {row["queue"]: limits[row["queue"]] for row in rows if row["mean_mb"] > limits[row["queue"]]}
        work.after_commit(partial(self._found, {**(self._above_mean if next_.after else {}), **above}, next_.more))
        return next_.more

    def _found(self, above_mean: dict[str, int], more: bool) -> None:
        self._above_mean = above_mean
        if not more:
            self._windows.shapes.above_mean = above_mean

    def heard_of_corrections(self) -> None:
        """Order task queues again within a second: factors have changed."""
        self._task_queues.heard_of_corrections()

    def granted(self, moves: Iterable[JobMove]) -> None:
        """Count jobs that any replica handed out since the last reading as executing."""
        self._task_queues.heard_of_jobs()
        grants = [(move.gshare, move.queue, move.n_cores) for move in moves]
        self._serve(self._share_order.granted(grants, self._clock()))

    def _serve(self, ranks: Ranks | None) -> None:
        known = self._windows.ranks
        if ranks is not None and (ranks.order, ranks.not_above_due) != (known.order, known.not_above_due):
            self._windows.ranks = ranks

    async def count_replicas(self, work: UnitOfWork) -> None:
        """Record that this replica runs; when the replicas changed, divide the ids again."""
        await SQL.run(work.connection, "announce_replica", replica=self._identity.name)
        rows = await SQL.rows(work.connection, "replicas", alive_s=REPLICA_ALIVE_S)
        replicas = [row["replica"] for row in rows]
        if replicas != self._replicas:
            self._replicas = replicas
            self._windows.divide(residue(replicas, self._identity.name))

    async def forget(self, work: UnitOfWork) -> None:
        """Delete claims whose pilots cannot ask again, finished and silent workers, replicas that have gone."""
        read = self._parameters.read
        claims_s, workers_s = float(read(CLAIMS_KEPT_S)), float(read(FINISHED_WORKERS_KEPT_S))
        await SQL.run(work.connection, "forget_claims", older_than_s=claims_s, late_s=LATE_S, size=FORGET_SLICE)
        silent_s = float(read(SILENT_WORKERS_KEPT_S))
        await SQL.run(work.connection, "forget_workers", older_than_s=workers_s, silent_s=silent_s)
        await SQL.run(work.connection, "forget_replicas", dead_s=REPLICA_DEAD_S)
        await SQL.run(work.connection, "forget_heard", kept_days=HEARD_KEPT_DAYS)
        await SQL.run(work.connection, "forget_pilots_without_a_job", older_than_s=NO_JOBS_KEPT_S)
        await self._task_queues.forget(work.connection)

    async def forget_said(self, work: UnitOfWork) -> None:
        """Delete what pilots said of jobs that ended without a report, old output, machines of long ago."""
        kept_s = float(self._parameters.read(STDOUT_KEPT_S))
        await forget_said(work.connection, progress_kept_s=SAID_KEPT_S, stdout_kept_s=kept_s)
        await forget_nodes(work.connection, NODES_KEPT_S)


class UpkeepNews:
    """News that something which is read periodically has changed: read it now."""

    def __init__(self, database: Database, upkeep: Upkeep, activity: PilotActivity) -> None:
        self._database = database
        self._upkeep = upkeep
        self.activity = activity

    async def on_shares_corrected(self, event: SharesCorrected) -> None:
        self._upkeep.heard_of_corrections()
        async with self._database.begin(reason="shares changed") as work:
            await self._upkeep.rank(work)

    async def on_grid_changed(self, event: GridChanged) -> None:
        await self.activity.load_queues()


def residue(replicas: Sequence[str], replica: str) -> Callable[[int], bool] | None:
    """Which ids are this replica's own; None when it is alone.

    A hash of the id decides, so that neighbours are spread.
    """
    if len(replicas) < 2 or replica not in replicas:
        return None
    place, count = list(replicas).index(replica), len(replicas)
    return lambda job_id: zlib.crc32(job_id.to_bytes(8, "little")) % count == place
