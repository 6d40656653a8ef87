"""Asks Requirements of sites and jobs once more when a pilot asks for jobs (SAM-Grid).

Nothing is counted.

They are asked only at queues whose site has an advertisement; for all others that is one look-up in a dictionary.
What a site says is read every two seconds, and at once by the replica that took the advertisement; an answer about a
job is kept until its site advertises again. A job that does not match stays activated, outside the window of its
queue, which is read again when the site's advertisement changes or is not believed any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

import asyncpg

from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.store.adverts import live_adverts
from shared.brokerage.matchmaking import Advert, JobFacts, Mismatch, at_dispatch, refusal
from shared.db.holders import for_all
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot import KnownGrid

log = logging.getLogger(__name__)

MOST_ANSWERS = 100_000  # of one queue: with more, they are asked again


class Answer(Enum):
    """Whether a job may be handed out."""

    HOLDS = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass
class _AtQueue:
    """What the site of a queue said, until when it is believed (process's clock), and what followed."""

    advert: Advert
    advertised_at: datetime
    until: float
    refusals: dict[Entry, Mismatch | None] = field(default_factory=dict)
    n_refused: int = 0
    latest: str = ""


class SiteRequirements:
    """One per process. `clock` is the monotonic clock of the process."""

    def __init__(
        self,
        reader: DatabaseLaneReader,
        windows: Windows,
        metrics: DispatchMetrics,
        grid: KnownGrid,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._windows = windows
        self._metrics = metrics
        self._grid = grid
        self._clock = clock
        self._queues: dict[str, _AtQueue] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._reading = asyncio.Lock()

    async def look(self, work: UnitOfWork) -> None:
        """Read what sites say now, periodically."""
        await self.refresh(work.connection)

    async def refresh(self, connection: asyncpg.Connection) -> None:
        """Read what sites say now; where that is new, jobs that were refused get another chance."""
        async with self._reading:  # what was read earlier must not come after what was read later
            read_at = self._clock()
            rows = await live_adverts(connection)
            queues_of_site = (await self._grid.grid(connection)).queues_of_site
            before, now = self._queues, {}
            for row in rows:
                advert, until = at_dispatch(Advert.of(dict(row))), read_at + row["left_s"]
                for queue in queues_of_site.get(row["site"], ()):
                    known = before.get(queue)
                    if known is None or (known.advert.site, known.advertised_at) != (advert.site, row["advertised_at"]):
                        known = _AtQueue(advert, row["advertised_at"], until)
                    known.until = until
                    now[queue] = known
            self._queues = now
        again = [queue for queue, known in before.items() if known.n_refused and now.get(queue) is not known]
        await asyncio.gather(*(self._windows.reread(queue) for queue in again if self._windows.is_open(queue)))

    def asks(self, queue: str) -> bool:
        """Whether the site of the queue advertises at all."""
        return queue in self._queues

    def answer(self, queue: str, entry: Entry) -> Answer:
        """Whether this job may be handed out at the queue; UNKNOWN until it was asked (`ask`)."""
        known = self._believed(queue)
        if known is None:
            return Answer.HOLDS
        if entry not in known.refusals:
            return Answer.UNKNOWN
        if known.refusals[entry] is not None:
            return Answer.REFUSED
        del known.refusals[entry]  # it leaves the window; should it come back, it is asked about again
        return Answer.HOLDS

    def ask(self, queue: str, entries: Sequence[Entry]) -> asyncio.Task[None]:
        """Find the answers for these jobs.

        One question at a time for a queue, so look again when it has ended.
        """
        running = self._asking.get(queue)
        if running is None:
            running = for_all(self._ask(queue, entries))
            self._asking[queue] = running
            running.add_done_callback(lambda task: self._asked(queue, task))
        return running

    async def _ask(self, queue: str, entries: Sequence[Entry]) -> None:
        known = self._believed(queue)
        if known is None:
            return
        unknown = [entry for entry in entries if entry not in known.refusals]
        jobs = await self._reader.job_facts([job_id for _, job_id in unknown])
        if len(known.refusals) > MOST_ANSWERS:
            known.refusals.clear()
        answers: dict[JobFacts | None, Mismatch | None] = {None: None}  # a job that has gone: its claim will be lost
        for entry in unknown:
            job = jobs.get(entry[1])
            if job is not None and job not in answers:
                answers[job] = refusal(known.advert, job)
            known.refusals[entry] = found = answers[job]
            self._metrics.requirements.labels("hold" if found is None else found.whose).inc()
            if found is not None:
                known.n_refused += 1
                known.latest = found.reason

    def _asked(self, queue: str, task: asyncio.Task[None]) -> None:
        self._asking.pop(queue, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("jobs of queue %s could not be matched with their site: %s", queue, task.exception())

    def refused(self, queue: str) -> str | None:
        """In words, what was kept back at the queue since its site advertised; None if nothing was."""
        known = self._believed(queue)
        if known is None or not known.n_refused:
            return None
        return (
            f"jobs are waiting at {queue} but {known.n_refused} do not match what site {known.advert.site} advertises:"
            f" {known.latest}"
        )

    def _believed(self, queue: str) -> _AtQueue | None:
        known = self._queues.get(queue)
        return known if known is not None and self._clock() < known.until else None
