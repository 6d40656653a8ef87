"""Records the last pilot of each queue (in memory, written together) and the workers of factories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import asyncpg

from services.job_dispatch.coalescing import Coalescer, CoalescerLimits
from services.job_dispatch.parameters import REPORTERS
from services.job_dispatch.policy.no_match import NoJobs
from services.job_dispatch.store.activity import SQL
from shared.auth.named import is_named
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.queue import QueueStatus
from shared.model.queue_vos import vos_of_record
from shared.snapshot import KnownGrid

#: what a pilot (started, finished) or a factory says about a batch job: no state of a job
WorkerState = Literal["submitted", "started", "running", "finished"]
LOOK_UP_EVERY_S = 1.0
LONGEST_REASON = 500


@dataclass(frozen=True)
class WorkerStatus:
    """What a pilot states about the batch job it runs in, or a factory (`of_factory`) about one of its.

    `subject`: whose token it came with; `is_trusted`: one with the role production or operator. `vos`: for whom the
    caller acts, None for every VO. `may_begin`: whether its caller may say that the queue has a worker more, which a
    pilot in it may.
    """

    harvester_id: str
    worker_id: int
    queue: str
    status: WorkerState
    subject: str
    is_trusted: bool = False
    of_factory: bool = False
    n_cores: int = 1
    vos: frozenset[str] | None = None
    may_begin: bool = True

    @property
    def vo(self) -> str:
        """The VO that the worker is of when it is reported first; "" where the caller acts for several or all."""
        return next(iter(self.vos)) if self.vos is not None and len(self.vos) == 1 else ""

    def is_for(self, vo: str) -> bool:
        """Whether the caller acts for the VO of a worker; one of no VO is for everybody."""
        return self.vos is None or not vo or vo in self.vos

    @property
    def key(self) -> tuple[str, int]:
        """What names the worker."""
        return self.harvester_id, self.worker_id


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
        self._workers: Coalescer[WorkerStatus, bool] = Coalescer(
            self._note_workers, key=lambda one: one.key, limits=CoalescerLimits(concurrency=1)
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

    def got_nothing(self, queue: str, why: NoJobs) -> None:
        """Note that a pilot at the queue got no job."""
        n_before, _ = self._got_nothing.get((queue, why.why), (0, ""))
        self._got_nothing[queue, why.why] = (n_before + 1, why.reason)

    async def flush(self, work: UnitOfWork) -> None:
        """Write what was seen since the last time."""
        seen, self._seen = sorted(self._seen), set()
        if seen:
            await SQL.run(work.connection, "note_pilots", queues=seen)
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
        """Store the states of many workers of a factory; the keys of those that were noted.

        Of two that are said of one worker the later counts.
        """
        last = list({one.key: one for one in statuses}.values())
        noted = await self._note_workers(last) if last else ()
        return frozenset(one.key for one, is_noted in zip(last, noted, strict=True) if is_noted)

    async def _note_workers(self, workers: Sequence[WorkerStatus]) -> Sequence[bool]:
        async with self._database.begin(reason="worker status") as work:
            reporters = await self._reporters(work, workers)
            ordered = sorted((one for one in workers if one.key in reporters), key=lambda one: one.key)
            await SQL.run(
                work.connection,
                "note_workers",
                harvester_ids=[one.harvester_id for one in ordered],
                worker_ids=[one.worker_id for one in ordered],
                queues=[one.queue for one in ordered],
                statuses=[one.status for one in ordered],
                subjects=[reporters[one.key] for one in ordered],
                n_cores=[one.n_cores for one in ordered],
                vos=[one.vo for one in ordered],
            )
        return [one.key in reporters for one in workers]

    async def _reporters(self, work: UnitOfWork, workers: Sequence[WorkerStatus]) -> dict[tuple[str, int], str | None]:
        """Read who reported each worker first, for workers that their callers may report.

        A worker belongs to the pilot that reported it first; until then, to none. Others may report it if the
        configuration names them for the worker's queue, or with the role production or operator; factories are such.
        Workers are of the VO that their first reporter acts for: who acts for others reports none of them, unless the
        configuration names them. How many workers a queue has decides how many jobs of all its VOs go there: a factory
        that brings one acts for all of these.
        """
        rows = await SQL.rows(
            work.connection,
            "reporters_of_workers",
            harvester_ids=[one.harvester_id for one in workers],
            worker_ids=[one.worker_id for one in workers],
        )
        known = {(row["harvester_id"], row["worker_id"]): row for row in rows}
        named = self._parameters.read(REPORTERS)
        found: dict[tuple[str, int], str | None] = {}
        for one in workers:
            row = known.get(one.key)
            owner = row["subject"] if row is not None else None
            is_theirs = row is None or one.is_for(row["vo"])
            if is_theirs and not one.of_factory and owner in (None, one.subject):
                found[one.key] = one.subject
                continue
            queue = one.queue if row is None or owner is None else row["queue"]
            brings = row is None or not row["vo"] or row["queue"] != one.queue
            if (is_theirs and one.is_trusted and (one.may_begin or not brings)) or is_named(named, queue, one.subject):
                found[one.key] = owner
        return found

    async def close(self) -> None:
        await self._workers.close()
