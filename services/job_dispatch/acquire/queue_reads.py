"""The read of a queue from its start: the shares that come first in rank order, or all lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from services.job_dispatch.acquire.lane_facts import LaneFacts
from services.job_dispatch.acquire.lane_reader import Entries, LaneReader
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.reading import LaneKey, WindowLimits, read_ahead
from shared.events import LaneJob
from shared.order.ranking import Ranks

LANES_TOGETHER = 256
#: queues read at the same time: the first of many is served before the last is read, and refills go between them
QUEUES_TOGETHER = 4


class QueueReads:
    """Makes windows; `were_read` is called with the entries of each lane."""

    def __init__(
        self,
        reader: LaneReader,
        facts: LaneFacts,
        limits: WindowLimits,
        were_read: Callable[[Iterable[Entry]], None],
    ) -> None:
        self._reader = reader
        self._facts = facts
        self._limits = limits
        self._were_read = were_read
        self._places = asyncio.Semaphore(QUEUES_TOGETHER)

    async def read(
        self,
        queue: str,
        ranks: Ranks,
        n_shares: int,
        arrived: list[LaneJob],
        *,
        is_first: bool,
        owns: Callable[[], Callable[[int], bool] | None],
    ) -> QueueWindow:
        """Make a window with the first jobs of `n_shares` shares, and of those that have urgent work.

        Where jobs have order keys all lanes are read: a draw is among all task queues. Of a queue that is in use (not
        `is_first`) more is read of the lanes that are served next. `arrived` are the news of jobs meanwhile; where they
        change what has to be read it is read again.
        """
        while True:
            async with self._places:
                arrived.clear()  # the read that begins now sees them
                lanes, limits, unread = await self._lanes(queue, ranks, n_shares, is_first)
                window = QueueWindow(queue, owns=owns(), unread=unread)
                await self._fill(window, lanes, limits)
                await self._facts.load_unknown()
            if not any(self.outdates(window, job) for job in arrived):
                break
        for job in arrived:
            window.arrive(job.gshare, job.shape_id, (-job.priority, job.job_id), job.order_key_id)
        return window

    def outdates(self, window: QueueWindow, job: LaneJob) -> bool:
        """Whether a job is of a share that was not read, and may have to be served before its turn."""
        is_unread = window.misses(job.gshare, job.order_key_id)
        return is_unread and (job.order_key_id != 0 or self._facts.shapes.may_be_urgent(job.shape_id))

    async def _lanes(
        self, queue: str, ranks: Ranks, n_shares: int, is_first: bool
    ) -> tuple[Entries, dict[LaneKey, int], frozenset[str]]:
        """Read the entries of each lane; how many were asked for, and the shares that were not read."""
        size = self._limits.first_entries
        lanes, unread, has_order_keys = await self._reader.first_lanes(queue, ranks.order, n_shares, size)
        if has_order_keys:
            heads = await self._reader.lanes_of(queue)
            lanes, unread, size = {key: [head] for key, head in heads.items()}, frozenset(), 1
        limits = dict.fromkeys(lanes, size)
        if lanes and (has_order_keys or not is_first):
            chosen, more = read_ahead(list(lanes), ranks, self._limits)
            if more > size:
                lanes.update(await self._reader.read_lanes(queue, dict.fromkeys(chosen), more))
                limits.update(dict.fromkeys(chosen, more))
        return lanes, limits, unread

    async def _fill(self, window: QueueWindow, lanes: Entries, limits: Mapping[LaneKey, int]) -> None:
        for number, (key, entries) in enumerate(lanes.items()):
            if number % LANES_TOGETHER == LANES_TOGETHER - 1:
                await asyncio.sleep(0)
            gshare, order_key_id, shape_id = key
            self._facts.expect(order_key_id, shape_id)
            lane = window.lane(gshare, shape_id, complete=False, order_key_id=order_key_id)
            self._were_read(entries)
            lane.begin_refill()
            lane.end_refill(entries, limits[key])
