"""Reads on in lanes whose windows run low: one read at a time per lane, of a share several lanes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from services.job_dispatch.acquire.lane_reader import LaneReader
from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.reading import WindowLimits
from shared.db.holders import for_all

log = logging.getLogger(__name__)


class Refills:
    """The reads under way; `were_read` is called with the entries of each."""

    def __init__(self, reader: LaneReader, limits: WindowLimits, were_read: Callable[[Iterable[Entry]], None]) -> None:
        self._reader = reader
        self._limits = limits
        self._were_read = were_read
        self._running: dict[Lane, asyncio.Task[None]] = {}

    def begin(self, queue: str, lane: Lane, window: QueueWindow | None) -> asyncio.Task[None]:
        """Read on from the lane's cursor; a read under way is joined.

        Lanes of its share of which next to nothing is known are read with it: they come next.
        """
        running = self._running.get(lane)
        if running is None:
            lanes = [lane, *self._nearly_empty(lane, window)]
            running = for_all(self._read(queue, lanes))
            self._running.update(dict.fromkeys(lanes, running))
            running.add_done_callback(lambda task: self._ended(lanes, task))
        return running

    def _nearly_empty(self, lane: Lane, window: QueueWindow | None) -> list[Lane]:
        others = () if window is None else window.lanes_beside(lane)
        return [
            one
            for one in others
            if one is not lane
            and len(one) <= self._limits.first_entries
            and not one.complete
            and one not in self._running
        ]

    async def _read(self, queue: str, lanes: Sequence[Lane]) -> None:
        size = max(2, min(self._limits.refill_size, self._limits.read_together // len(lanes)))
        cursors = {lane.key: lane.begin_refill() for lane in lanes}
        try:
            found = await self._reader.read_lanes(queue, cursors, size)
        except BaseException:
            for lane in lanes:
                lane.refill_failed()
            raise
        for lane in lanes:
            entries = found[lane.key]
            self._were_read(entries)
            lane.end_refill(entries, size)

    def _ended(self, lanes: Sequence[Lane], task: asyncio.Task[None]) -> None:
        for lane in lanes:
            self._running.pop(lane, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("lanes could not be read: %s", task.exception())
