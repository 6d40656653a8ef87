"""The windows of one replica: opened at first use of a queue, refilled by keyset reads and by news.

Everything here may be thrown away at any time; nothing here is believed without the compare-and-set of the claim.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from services.job_dispatch.acquire.lane_facts import LaneFacts
from services.job_dispatch.acquire.lane_reader import LaneReader
from services.job_dispatch.acquire.queue_reads import QueueReads
from services.job_dispatch.acquire.refills import Refills
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.reading import News, WindowLimits
from services.job_dispatch.policy.share_lanes import NeedsRefill, NeedsShares, PickedJob
from shared.db.holders import for_all
from shared.events import LaneJob, ReorderedJob
from shared.order.ranking import Ranks

log = logging.getLogger(__name__)

#: a queue is read again with so many times the shares when those that were read have nothing that fits
MORE_SHARES = 4


@dataclass
class OpenQueue:
    """A queue's window, when it was last used and when it is read again from the start.

    `n_shares`: of so many shares, in rank order, the lanes are read.
    """

    window: QueueWindow
    used_at: float
    sweep_at: float
    n_shares: int


class Windows:
    """`clock` is for time-outs of this process only; `random` spreads sweeps and draws picks by age."""

    def __init__(
        self,
        reader: LaneReader,
        facts: LaneFacts,
        *,
        clock: Callable[[], float],
        random: random.Random,
        limits: WindowLimits,
    ) -> None:
        self.reader = reader
        self.facts, self.shapes, self._task_queues = facts, facts.shapes, facts.task_queues
        self.limits = limits
        self.ranks = Ranks()
        self.in_flight: set[int] = set()
        self._clock = clock
        self._random = random
        self._queues: dict[str, OpenQueue] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._arrived_while_opening: dict[str, list[LaneJob]] = {}
        self._refills = Refills(reader, self.limits, self._read)
        self._reads = QueueReads(reader, facts, self.limits, self._read)
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._held_back: OrderedDict[int, None] = OrderedDict()
        self._news = News()
        self._lost: dict[int, float] = {}
        self._owns: Callable[[int], bool] | None = None

    # -- picking

    def is_open(self, queue: str) -> bool:
        return queue in self._queues

    async def open(self, queue: str) -> None:
        """Read a queue for the first time (concurrent callers share the read)."""
        if queue in self._queues:
            return
        await asyncio.shield(self._start_opening(queue))

    def pick(self, offer: Offer) -> PickedJob | NeedsRefill | NeedsShares | None:
        """Pick the best job for the offer, to be claimed now; None when nothing that is known fits."""
        opened = self._queues.get(offer.queue)
        if opened is None:
            return None
        opened.used_at = self._clock()
        fits = self.shapes.fits(self.shapes.kind_of(offer))
        view = self._task_queues.view(offer, fits)
        how = self.limits.how(opened.window.n_shares, self._random.random)
        found = opened.window.pick(self.ranks, fits, self._unwanted, how, view=view, urgent=self.shapes.urgent)
        if isinstance(found, PickedJob):
            self.in_flight.add(found.job_id)
            try:
                self._task_queues.picked(offer.queue, found.lane.order_key_id, found.job_id)
                if len(found.lane) < self.limits.refill_below and not found.lane.complete:
                    self.refill(offer.queue, found.lane)
            except Exception:
                self.lost(found.job_id)  # its request fails; in flight it would be given to nobody
                raise
        return found

    def take(self, queue: str, candidate: PickedJob) -> bool:
        """Pick a job that was read by itself; False where another request has it, or a limit holds it back."""
        key = candidate.lane.order_key_id
        if candidate.job_id in self.in_flight or self._task_queues.holding(queue, key) is not None:
            return False
        self._task_queues.picked(queue, key, candidate.job_id)
        self.in_flight.add(candidate.job_id)
        return True

    def _unwanted(self, job_id: int) -> bool:
        return job_id in self._gone or job_id in self.in_flight or job_id in self._held_back

    # -- what became of a pick

    def taken(self, job_ids: Iterable[int]) -> None:
        """Forget jobs that were claimed, by this replica or another: they are never offered again."""
        self._task_queues.limits.claimed(job_ids)
        for job_id in job_ids:
            self.in_flight.discard(job_id)
            self._gone[job_id] = None
        shorten(self._gone, self.limits.remembered_ids)

    def lost(self, job_id: int) -> None:
        """Keep a job that was not claimed: it was locked or is no longer activated, or the outcome is unknown.

        Looked at again soon, because the transaction that held it may have rolled back.
        """
        self._lost[job_id] = self._clock() + self.limits.recheck_after_s
        self.set_aside(job_id)

    def set_aside(self, job_id: int) -> None:
        """Let go of a job that is not to be handed out now: it is found again when its queue is read again."""
        self.in_flight.discard(job_id)
        self._task_queues.limits.not_claimed(job_id)

    def unused(self, queue: str, picked: PickedJob) -> None:
        """Put a pick back into the window, whose request had its job already."""
        self.set_aside(picked.job_id)
        opened = self._queues.get(queue)
        if opened is not None:
            opened.window.put_back(picked.lane.key, picked.entry)

    # -- arrivals

    def arrive(self, jobs: Sequence[LaneJob]) -> None:
        """Add activated jobs.

        Those of queues that this replica does not use are ignored: the first use of the queue will read them.
        """
        touched: dict[str, set[Lane]] = {}
        n_news = Counter(job.queue for job in jobs)
        for queue, count in n_news.items():
            if self._is_too_much(queue, count):
                self.forget(queue)
        for job in jobs:
            self._gone.pop(job.job_id, None)
            self._held_back.pop(job.job_id, None)
            self._lost.pop(job.job_id, None)
            self.facts.expect(job.order_key_id, job.shape_id)
            if job.queue in self._arrived_while_opening:
                self._arrived_while_opening[job.queue].append(job)
            opened = self._queues.get(job.queue)
            lane = self._place(opened.window, job) if opened is not None else None
            if lane is not None:
                touched.setdefault(job.queue, set()).add(lane)
        for lanes in touched.values():
            for lane in lanes:
                if len(lane) > self.limits.most_of_lane and not lane.refilling:
                    lane.shorten(self.limits.most_of_lane // 2)

    def reorder(self, jobs: Sequence[ReorderedJob]) -> None:
        """Move jobs that wait and have another order. Those that were taken meanwhile do not come back."""
        for queue, count in Counter(job.queue for job in jobs).items():
            if self._is_too_much(queue, count):
                self.forget(queue)
        for job in jobs:
            self.facts.expect(job.order_key_id, job.shape_id)
            if job.queue in self._arrived_while_opening:
                self._arrived_while_opening[job.queue].append(job)
            opened = self._queues.get(job.queue)
            if opened is None or job.job_id in self._gone:
                continue
            from_key = job.order_key_id if job.from_order_key_id is None else job.from_order_key_id
            opened.window.leave(job.from_gshare, job.shape_id, job.job_id, from_key)
            self._place(opened.window, job)

    def _place(self, window: QueueWindow, job: LaneJob) -> Lane | None:
        """Put an arrival into a window; None where its share was not read. What may come before its turn is read."""
        if self._reads.outdates(window, job):
            self._start_opening(window.queue)
        return window.arrive(job.gshare, job.shape_id, (-job.priority, job.job_id), job.order_key_id)

    def hold_back(self, job_ids: Iterable[int], per_queue: Mapping[str, int]) -> None:
        """Hold back jobs that were throttled, so many `per_queue`, until they are activated again."""
        for queue, count in per_queue.items():
            if self._is_too_much(queue, count):
                self.forget(queue)
        for job_id in job_ids:
            self._held_back[job_id] = None
        shorten(self._held_back, self.limits.remembered_ids)

    def _is_too_much(self, queue: str, count: int) -> bool:
        return self._news.is_too_much(queue, count, now=self._clock(), most=self.limits.most_news)

    def reread(self, queue: str) -> asyncio.Task[None]:
        """Read a queue again from the start, whatever is known of it."""
        return self._start_opening(queue)

    def read_more_shares(self, queue: str) -> asyncio.Task[None]:
        """Read a queue again with more of its shares; a read under way is joined."""
        opened = self._queues.get(queue)
        if opened is not None and queue not in self._opening:
            opened.n_shares *= MORE_SHARES
        return self._start_opening(queue)

    def forget(self, queue: str) -> None:
        """Drop a queue's windows; the next request reads them again."""
        self._queues.pop(queue, None)

    def forget_all(self) -> None:
        """Drop all windows: the news connection broke, and arrivals may have been missed everywhere."""
        self._queues.clear()

    def divide(self, owns: Callable[[int], bool] | None) -> None:
        """Divide the ids anew: the replicas changed."""
        self._owns = owns
        for opened in self._queues.values():
            opened.window.owns = owns
            for lane in opened.window.lanes():
                lane.reclassify(owns)

    # -- reading

    def refill(self, queue: str, lane: Lane) -> asyncio.Task[None]:
        """Read on from the lane's cursor."""
        opened = self._queues.get(queue)
        return self._refills.begin(queue, lane, opened.window if opened is not None else None)

    def _read(self, entries: Iterable[Entry]) -> None:
        """Offer these again: they are activated, whatever news of them was missed."""
        for _, job_id in entries if self._held_back else ():
            self._held_back.pop(job_id, None)

    def _start_opening(self, queue: str) -> asyncio.Task[None]:
        task = self._opening.get(queue)
        if task is None:
            self._arrived_while_opening[queue] = []
            task = for_all(self._open(queue))
            self._opening[queue] = task
            task.add_done_callback(lambda done: self._opening_ended(queue, done))
        return task

    def _opening_ended(self, queue: str, task: asyncio.Task[None]) -> None:
        self._opening.pop(queue, None)
        self._arrived_while_opening.pop(queue, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("queue %s could not be read: %s", queue, task.exception())

    async def _open(self, queue: str) -> None:
        """Build a new window beside the old one and swap it in, with what arrived meanwhile."""
        opened, arrived = self._queues.get(queue), self._arrived_while_opening[queue]
        n_shares = opened.n_shares if opened is not None else self.limits.first_shares
        window = await self._reads.read(
            queue, self.ranks, n_shares, arrived, is_first=opened is None, owns=lambda: self._owns
        )
        now = self._clock()
        previous = self._queues.get(queue)
        spread = self.limits.sweep_spread_s * (2 * self._random.random() - 1)
        used_at = previous.used_at if previous is not None else now
        self._queues[queue] = OpenQueue(window, used_at, now + self.limits.sweep_after_s + spread, n_shares)

    # -- looking again

    async def recheck_lost(self, connection: asyncpg.Connection) -> int:
        """Put lost jobs that are still activated back into their windows; how many."""
        now = self._clock()
        due = sorted(job_id for job_id, at in self._lost.items() if at <= now)
        if not due:
            return 0
        found = await self.reader.still_activated(connection, due)
        for job_id in due:
            self._lost.pop(job_id, None)
        for job in found:
            opened = self._queues.get(job.queue)
            self._held_back.pop(job.job_id, None)
            if opened is not None and job.job_id not in self.in_flight:
                opened.window.put_back((job.gshare, job.order_key_id, job.shape_id), (-job.priority, job.job_id))
        return len(found)

    async def sweep(self) -> int:
        """Read queues that are due again from the start, and forget unused ones; how many were read.

        Those that have waited longest come first. Ends after `sweep_at_most_s`: the others are still due at the next
        sweep.
        """
        now = self._clock()
        n_read = 0
        for queue, opened in sorted(self._queues.items(), key=lambda one: (one[1].sweep_at, one[0])):
            if now - opened.used_at > self.limits.idle_after_s:
                self.forget(queue)
            elif opened.sweep_at <= now and queue not in self._opening:
                if self._clock() - now >= self.limits.sweep_at_most_s:
                    break
                await self._start_opening(queue)
                n_read += 1
        return n_read

    def waiting_shapes(self, queue: str) -> set[int]:
        """The shapes that wait at a queue, as far as is known here."""
        opened = self._queues.get(queue)
        return {lane.shape_id for lane in opened.window.lanes() if len(lane)} if opened is not None else set()

    def why_no_task_queue(self, offer: Offer) -> tuple[str | None, str | None]:
        """The limit that holds task queues back at the queue, and why one does not match; None: nothing does."""
        opened = self._queues.get(offer.queue)
        return self.facts.why_nothing(offer, opened.window if opened is not None else None)

    def sizes(self) -> tuple[int, int]:
        """Open queues and entries in memory, for the metrics."""
        return len(self._queues), sum(len(opened.window) for opened in self._queues.values())

    def open_queues(self) -> Collection[str]:
        return tuple(self._queues)


def shorten(ids: OrderedDict[int, None], most: int) -> None:
    """Drop the oldest ids."""
    while len(ids) > most:
        ids.popitem(last=False)
