"""Records the last pilot of each queue, who was heard, and the workers of factories.

What calls say is kept in memory and written together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import asyncpg

from services.job_dispatch.coalescing import Coalescer, CoalescerLimits
from services.job_dispatch.parameters import REPORTERS
from services.job_dispatch.policy.no_match import NoJobs
from services.job_dispatch.policy.workers import KnownWorker, RowToWrite, WorkerStatus, rows_to_write
from services.job_dispatch.store.activity import SQL
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.queue import QueueStatus
from shared.model.queue_vos import vos_of_record
from shared.snapshot import KnownGrid
from shared.timeouts.hearing import EVERYBODY

LOOK_UP_EVERY_S = 1.0
LONGEST_REASON = 500


class PilotActivity:
    """`known_queues` is a copy of the queues' names and states.

    A request that names another queue changes nothing.
    """

    def __init__(self, database: Database, parameters: Parameters, grid: KnownGrid, clock: Callable[[], float]) -> None:
        self._database = database
        self._parameters = parameters
        self._grid = grid
        self._clock = clock
        self._looked_at = float("-inf")
        self._seen: set[str] = set()
        self._heard: Counter[str] = Counter()
        self._workers: Coalescer[WorkerStatus, bool] = Coalescer(
            self._note_workers, key=lambda one: one.number, limits=CoalescerLimits(concurrency=1)
        )
        self._got_nothing: dict[tuple[str, str], tuple[int, str]] = {}
        self.known_queues: dict[str, QueueStatus] = {}

    async def load_queues(self) -> None:
        """Read the names and states of the queues."""
        async with self._database.read() as connection:
            await self.read_queues(connection)

    async def read_queues(self, connection: asyncpg.Connection) -> None:
        """Read them on a connection; one row where the grid has not changed."""
        queues = (await self._grid.grid(connection)).queues
        self.known_queues = {name: queue.status for name, queue in queues.items()}

    async def knows(self, queue: str) -> bool:
        """Say whether the queue is loaded.

        An unknown name is looked up again, at most once a second: it may be new.
        """
        if queue not in self.known_queues and self._clock() - self._looked_at >= LOOK_UP_EVERY_S:
            self._looked_at = self._clock()
            await self.load_queues()
        return queue in self.known_queues

    def pilot_seen(self, queue: str) -> None:
        """Note that a pilot at the queue asked for a job."""
        self._seen.add(queue)

    def heard(self, vos: Iterable[str], n_calls: int = 1) -> None:
        """Note that pilots of these VOs were heard."""
        for vo in {EVERYBODY, *vos}:
            self._heard[vo] += n_calls

    def got_nothing(self, queue: str, why: NoJobs) -> None:
        """Note that a pilot at the queue got no job."""
        n_before, _ = self._got_nothing.get((queue, why.why), (0, ""))
        self._got_nothing[queue, why.why] = (n_before + 1, why.reason)

    async def flush(self, work: UnitOfWork) -> None:
        """Write what was seen since the last time."""
        seen, self._seen = sorted(self._seen), set()
        if seen:
            await SQL.run(work.connection, "note_pilots", queues=seen)
        heard, self._heard = {EVERYBODY: 0} | self._heard, Counter()
        await SQL.run(work.connection, "note_heard", vos=sorted(heard), counts=[heard[vo] for vo in sorted(heard)])
        got_nothing, self._got_nothing = sorted(self._got_nothing.items()), {}
        if got_nothing:
            await SQL.run(
                work.connection,
                "note_pilots_without_a_job",
                queues=[queue for (queue, _), _ in got_nothing],
                whys=[why for (_, why), _ in got_nothing],
                counts=[n_pilots for _, (n_pilots, _) in got_nothing],
                reasons=[reason[:LONGEST_REASON] for _, (_, reason) in got_nothing],
            )

    async def vos_of(self, queues: Collection[str]) -> dict[str, frozenset[str]]:
        """Read the VOs of these queues, as their records say."""
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "vos_of_queues", queues=sorted(queues))
        return {row["queue"]: vos_of_record(row["vo_name"]) for row in rows}

    async def worker(self, status: WorkerStatus) -> bool:
        """Store a worker's state; whether the caller may report it. Returns after the commit."""
        return await self._workers.submit(status)

    async def workers(self, statuses: Sequence[WorkerStatus]) -> frozenset[tuple[str, int]]:
        """Store the states of many workers of a factory; the numbers of those that were noted.

        Of two that are said of one worker the later counts.
        """
        last = list({one.number: one for one in statuses}.values())
        noted = await self._note_workers(last) if last else ()
        return frozenset(one.number for one, is_noted in zip(last, noted, strict=True) if is_noted)

    async def _note_workers(self, workers: Sequence[WorkerStatus]) -> Sequence[bool]:
        async with self._database.begin(reason="worker status") as work:
            known = await _known_workers(work, workers)
            named = self._parameters.read(REPORTERS)
            told = {one.number: rows_to_write(one, known.get(one.number, ()), named) for one in workers}
            ordered = sorted(((one, row) for one in workers for row in told[one.number]), key=_in_order)
            released = [one for one, row in ordered if row.is_released]
            if released:
                await SQL.run(
                    work.connection,
                    "release_workers",
                    harvester_ids=[one.harvester_id for one in released],
                    worker_ids=[one.worker_id for one in released],
                )
            await SQL.run(
                work.connection,
                "note_workers",
                harvester_ids=[one.harvester_id for one, _ in ordered],
                worker_ids=[one.worker_id for one, _ in ordered],
                queues=[one.queue for one, _ in ordered],
                statuses=[one.status for one, _ in ordered],
                subjects=[row.subject for _, row in ordered],
                n_cores=[one.n_cores for one, _ in ordered],
                vos=[row.vo for _, row in ordered],
            )
        return [bool(told[one.number]) for one in workers]

    async def close(self) -> None:
        await self._workers.close()


async def _known_workers(work: UnitOfWork, workers: Sequence[WorkerStatus]) -> dict[tuple[str, int], list[KnownWorker]]:
    rows = await SQL.rows(
        work.connection,
        "reporters_of_workers",
        harvester_ids=[one.harvester_id for one in workers],
        worker_ids=[one.worker_id for one in workers],
    )
    found: dict[tuple[str, int], list[KnownWorker]] = {}
    for row in rows:
        known = KnownWorker(row["vo"], row["queue"], row["subject"], row["status"])
        found.setdefault((row["harvester_id"], row["worker_id"]), []).append(known)
    return found


def _in_order(told: tuple[WorkerStatus, RowToWrite]) -> tuple[str, int, str]:
    one, row = told
    return *one.number, row.vo
