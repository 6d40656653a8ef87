"""Statistics of queues: a fold of job events, published as absolute values.

`auditing` compares them with the jobs. The fold is in PostgreSQL.

No counter in Redis is incremented: after changes the queue's whole value is written with a version. A lost Redis or
message makes values old, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from services.job_brokerage.policy.folding import (
    OUTCOMES,
    Change,
    changes_of,
    changes_of_shares,
    outcomes_of,
    signs_of_life,
)
from shared.brokerage.load import Activity
from shared.cache import Cache
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsEvent, JobsGenerated, JobsReordered, JobsStarted, StatisticsChanged
from shared.snapshot.live_queues import QueueWalk
from shared.snapshot.reader import activity_to_json, statistics_key

SQL = Queries.beside(__file__)

PUBLISH_EVERY_S = 0.5  # who waits for room at a queue waits for this
PUBLISHED_TIMES = 3
COUNT_WORKERS_EVERY_S = 30.0
MEASURE_DISK_IO_EVERY_S = 60.0
FORGET_EVERY_S = 3600.0
HISTORY_DAYS = 4
#: tasks whose VO a replica remembers
VOS_KEPT = 100_000


class VosOfTasks:
    """VOs of tasks, read once for each: the VO of a task never changes."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    async def of(self, work: UnitOfWork, task_ids: Iterable[int]) -> dict[int, str]:
        """Read the VOs of these tasks, "" for none; without tasks that there are not."""
        wanted = set(task_ids)
        unknown = sorted(wanted - self._known.keys())
        if unknown:
            rows = await SQL.rows(work.connection, "vos_of_tasks", task_ids=unknown)
            if len(self._known) + len(rows) > VOS_KEPT:
                self._known = {one: vo for one, vo in self._known.items() if one in wanted}
            self._known.update((row["task_id"], row["vo"]) for row in rows)
        return {one: self._known[one] for one in wanted if one in self._known}


class QueueStatistics:
    """Handlers and periodic work.

    `_changed`: queues that this replica folded, with how often they are to be published; `_chunks`: chunks whose jobs
    were among them.

    Each is published three times within a second: the first may come before the fold's own commit, or be rolled back.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._changed: dict[str, int] = {}
        self._chunks: dict[int, int] = {}
        self._vos = VosOfTasks()
        self._measured = QueueWalk()

    async def on_jobs_moved(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Fold one event about jobs, or several in one; the inbox sees to it that each is folded once."""
        changes = changes_of(event.moves, await self._vos.of(work, (one.task_id for one in event.moves)))
        await self._note_outcomes(work, event)
        if isinstance(event, JobsStarted) and event.job_ids:
            await SQL.run(work.connection, "fold_waits", job_ids=list(event.job_ids))
        # last, because every event about jobs changes these rows: they are held for the shortest time
        await self._note_life(work, event)
        await self.add(work, changes)
        self.mark(move.queue for move in event.moves)
        if isinstance(event, JobsGenerated) and event.moves:  # the sweep names jobs again, without what is counted
            self._chunks[event.chunk_id] = PUBLISHED_TIMES
            await SQL.run(work.connection, "note_counted", chunk_id=event.chunk_id)

    async def on_jobs_reordered(self, event: JobsReordered, work: UnitOfWork) -> None:
        """Count jobs that wait in another share there."""
        vos = await self._vos.of(work, (one.task_id for one in event.share_moves))
        await self.add(work, changes_of_shares(event.share_moves, vos))
        self.mark(move.queue for move in event.share_moves)

    async def publish(self, work: UnitOfWork) -> None:
        """Write the changed queues to Redis and tell who keeps them in memory; periodic, on every replica."""
        queues = sorted(self._changed)
        if not queues:
            return
        version: int = await SQL.value(work.connection, "bump_version")
        await SQL.run(work.connection, "mark_published", queues=queues, version=version)
        await self._cache.put_many(await self._values(work, queues), version)
        work.emit(StatisticsChanged(queues=tuple(queues), chunk_ids=tuple(sorted(self._chunks))))
        self._changed = {queue: times - 1 for queue, times in self._changed.items() if times > 1}
        self._chunks = {chunk_id: times - 1 for chunk_id, times in self._chunks.items() if times > 1}

    async def count_workers(self, work: UnitOfWork) -> None:
        """Count workers of each queue, as their last reports have them; periodic, on one replica."""
        changed = [row["queue"] for row in await SQL.rows(work.connection, "count_workers")]
        changed += [row["queue"] for row in await SQL.rows(work.connection, "forget_workers")]
        self.mark(changed)

    async def measure_disk_io(self, work: UnitOfWork) -> bool:
        """Measure mean disk IO of the next queues' running jobs; whether some are left.

        Periodic, on one replica.
        """
        next_ = await self._measured.next(work)
        rows = await SQL.rows(
            work.connection, "measure_disk_io", queues=next_.queues, after=next_.after, upto=next_.upto
        )
        self.mark([row["queue"] for row in rows])
        return next_.more

    async def forget_old(self, work: UnitOfWork) -> None:
        """Delete history older than brokerage looks back; periodic, on one replica."""
        await SQL.run(work.connection, "forget_history", older_than=work.now - timedelta(days=HISTORY_DAYS))

    def mark(self, queues: Iterable[str]) -> None:
        """Note that these queues are to be published."""
        self._changed.update(dict.fromkeys(queues, PUBLISHED_TIMES))

    async def add(self, work: UnitOfWork, changes: Sequence[Change]) -> None:
        """Add these to their rows."""
        if not changes:
            return
        keys = [list(column) for column in zip(*(change.key for change in changes), strict=True)]
        await SQL.run(
            work.connection,
            "fold_moves",
            queues=keys[0],
            resource_types=keys[1],
            gshares=keys[2],
            users=keys[3],
            statuses=keys[4],
            vos=keys[5],
            n_jobs=[change.n_jobs for change in changes],
            n_cores=[change.n_cores for change in changes],
        )

    async def _note_life(self, work: UnitOfWork, event: JobsEvent) -> None:
        signs = signs_of_life(event.dated_moves, work.now)
        if signs:
            await SQL.run(
                work.connection,
                "note_activity",
                queues=list(signs),
                pilots=[pilot for pilot, _ in signs.values()],
                starts=[start for _, start in signs.values()],
            )

    async def _note_outcomes(self, work: UnitOfWork, event: JobsEvent) -> None:
        outcomes = outcomes_of(event.dated_moves, work.now)
        if outcomes:
            hours, queues, gshares, task_ids = (list(column) for column in zip(*outcomes, strict=True))
            counts: dict[str, Any] = {f"n_{name}": [one[name] for one in outcomes.values()] for name in OUTCOMES}
            await SQL.run(
                work.connection,
                "fold_outcomes",
                hours=hours,
                queues=queues,
                gshares=gshares,
                task_ids=task_ids,
                **counts,
            )

    async def _values(self, work: UnitOfWork, queues: list[str]) -> dict[str, object]:
        """Read what is cached for each queue: jobs by resource type, state and VO, and its activity."""
        jobs: dict[str, list[list[object]]] = {queue: [] for queue in queues}
        for row in await SQL.rows(work.connection, "statistics_of", queues=queues):
            jobs[row["queue"]].append([row["resource_type"], row["status"], row["n_jobs"], row["vo"]])
        activity = {queue: Activity(queue) for queue in queues}
        for row in await SQL.rows(work.connection, "activity_of", queues=queues):
            activity[row["queue"]] = Activity(*row)
        return {
            statistics_key(queue): {"jobs": jobs[queue], "activity": activity_to_json(activity[queue])}
            for queue in queues
        }
