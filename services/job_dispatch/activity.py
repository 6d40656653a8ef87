"""Signs of life: the last pilot of each queue (kept in memory, written together) and the workers of factories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.job_dispatch.coalescer import Coalescer, CoalescerLimits
from services.job_dispatch.sql import QUERIES
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork

WORKER_STATES = ("started", "finished")
LOOK_UP_EVERY_S = 1.0


@dataclass(frozen=True)
class WorkerStatus:
    """A pilot's own word about the batch job it lives in."""

    harvester_id: str
    worker_id: int
    queue: str
    status: str


class Activity:
    """`known_queues` is a copy of the queues' names: a request that names another one changes nothing."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._looked_at = float("-inf")
        self._seen: set[str] = set()
        self._workers: Coalescer[WorkerStatus, None] = Coalescer(
            self._note_workers, key=lambda one: (one.harvester_id, one.worker_id), limits=CoalescerLimits(concurrency=1)
        )
        self.known_queues: frozenset[str] = frozenset()

    async def load_queues(self) -> None:
        """Read the names of the queues."""
        async with self._database.read() as connection:
            rows = await QUERIES.known_queues(connection)
        self.known_queues = frozenset(row["queue"] for row in rows)

    async def knows(self, queue: str) -> bool:
        """Whether the queue is loaded. An unknown name is looked up again, at most once a second: it may be new."""
        if queue not in self.known_queues and self._clock() - self._looked_at >= LOOK_UP_EVERY_S:
            self._looked_at = self._clock()
            await self.load_queues()
        return queue in self.known_queues

    def pilot_seen(self, queue: str) -> None:
        """A pilot at the queue asked for a job."""
        self._seen.add(queue)

    async def flush(self, work: UnitOfWork) -> None:
        """Write what was seen since the last time."""
        seen, self._seen = sorted(self._seen), set()
        if seen:
            await QUERIES.note_pilots(work.connection, queues=seen)

    async def worker(self, status: WorkerStatus) -> None:
        """Store a worker's state; returns after the commit."""
        await self._workers.submit(status)

    async def _note_workers(self, workers: Sequence[WorkerStatus]) -> Sequence[None]:
        ordered = sorted(workers, key=lambda one: (one.harvester_id, one.worker_id))
        async with self._database.begin(reason="worker status") as work:
            await QUERIES.note_workers(
                work.connection,
                harvester_ids=[one.harvester_id for one in ordered],
                worker_ids=[one.worker_id for one in ordered],
                queues=[one.queue for one in ordered],
                statuses=[one.status for one in ordered],
            )
        return [None] * len(workers)

    async def close(self) -> None:
        await self._workers.close()
