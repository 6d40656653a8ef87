"""The first touch of queues: how much is asked and read, however many jobs wait."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from services.job_dispatch.acquire.lane_facts import LaneFacts
from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader, Entries
from services.job_dispatch.acquire.shapes import KnownShapes
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.policy.fitting import Offer, Shape
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.reading import LaneKey, WindowLimits
from services.job_dispatch.policy.share_lanes import NeedsRefill
from shared.order.ranking import Ranks
from tests.handlers.job_dispatch.grid_of_jobs import SHAPES, Rows

QUEUES = ("Q1", "Q2", "QN")
JOBS_OF_LANE = 30


class CountingReader(DatabaseLaneReader):
    """Counts its reads."""

    reads: Counter[str]

    async def lanes_of(self, queue: str) -> dict[tuple[str, int], Entry]:
        self.reads["lanes"] += 1
        return await super().lanes_of(queue)

    async def read_lanes(self, queue: str, cursors: Mapping[LaneKey, Entry | None], size: int) -> Entries:
        self.reads["entries"] += 1
        return await super().read_lanes(queue, cursors, size)

    async def shapes(self, shape_ids: Sequence[int]) -> list[Shape]:
        self.reads["shapes"] += 1
        return await super().shapes(shape_ids)


@pytest.mark.parametrize(
    ("first_read", "entries_of_queue"),
    [
        (40, 4 * 10),  # four lanes: ten of each
        (8, 2 * 4 + 2 * 1),
    ],  # too many lanes: four of each of the share that is served first, the first of the others
)
async def test_the_first_touch_of_all_queues_asks_twice_for_each_and_reads_no_more_than_its_limit(
    rows: Rows, first_read: int, entries_of_queue: int
) -> None:
    for queue in QUEUES:
        for gshare in ("MC", "User Analysis"):
            for shape in ("small", "large"):
                await rows.jobs(JOBS_OF_LANE, queue=queue, gshare=gshare, shape=shape)
    reader = CountingReader(rows.database.read)
    reader.reads = Counter()
    limits = WindowLimits(first_read=first_read, refill_below=4, refill_size=10)
    windows = Windows(
        reader, LaneFacts(KnownShapes(reader)), clock=rows.database.monotonic, random=random.Random(1), limits=limits
    )
    for queue in QUEUES:
        await windows.open(queue)
        await windows.open(queue)
    assert windows.sizes() == (len(QUEUES), len(QUEUES) * entries_of_queue)
    assert reader.reads == {"lanes": 3, "entries": 3, "shapes": 1}


async def test_lanes_of_a_share_of_which_only_the_first_job_is_known_are_read_together(rows: Rows) -> None:
    for shape in SHAPES:
        await rows.jobs(3, queue="Q1", gshare="MC", shape=shape)
        await rows.jobs(3, queue="Q1", gshare="User Analysis", shape=shape)
    reader = CountingReader(rows.database.read)
    reader.reads = Counter()
    limits = WindowLimits(first_read=1, refill_below=4, refill_size=10)
    windows = Windows(
        reader, LaneFacts(KnownShapes(reader)), clock=rows.database.monotonic, random=random.Random(1), limits=limits
    )
    windows.ranks = Ranks(("MC", "User Analysis"))
    await windows.open("Q1")
    served, n_reads = list[str](), dict[str, int]()
    while (found := windows.pick(Offer("Q1"))) is not None:
        if isinstance(found, NeedsRefill):
            await asyncio.gather(*(windows.refill("Q1", lane) for lane in found.lanes))
        else:
            served.append(found.lane.gshare)
            n_reads.setdefault(found.lane.gshare, reader.reads["entries"])
    assert served == ["MC"] * (3 * len(SHAPES)) + ["User Analysis"] * (3 * len(SHAPES))
    assert reader.reads["entries"] - n_reads["User Analysis"] == 1, "one read for all lanes of the second share"
