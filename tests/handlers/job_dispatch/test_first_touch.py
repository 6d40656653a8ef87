"""The first touch of queues: how much is asked and read, however many jobs wait."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.acquire.shapes import Shapes
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.policy.fitting import Shape
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.reading import WindowLimits
from tests.handlers.job_dispatch.grid_of_jobs import Rows

QUEUES = ("Q1", "Q2", "QN")
JOBS_OF_LANE = 30


class CountingReader(DatabaseLaneReader):
    """Counts its reads."""

    reads: Counter[str]

    async def lanes_of(self, queue: str) -> dict[tuple[str, int], Entry]:
        self.reads["lanes"] += 1
        return await super().lanes_of(queue)

    async def read_heads(self, queue: str, lanes: Sequence[tuple[str, int]], size: int) -> list[tuple[str, int, Entry]]:
        self.reads["heads"] += 1
        return await super().read_heads(queue, lanes, size)

    async def read_lane(self, queue: str, gshare: str, shape_id: int, cursor: Entry | None, size: int) -> list[Entry]:
        self.reads["lane"] += 1
        return await super().read_lane(queue, gshare, shape_id, cursor, size)

    async def shapes(self, shape_ids: Sequence[int]) -> list[Shape]:
        self.reads["shapes"] += 1
        return await super().shapes(shape_ids)


@pytest.mark.parametrize(
    ("first_read", "entries_of_queue"),
    [(40, 4 * 10),  # four lanes: ten of each
     (8, 2 * 4 + 2 * 1)],  # too many lanes: four of each of the share that is served first, the first of the others
)  # fmt: skip
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
        reader, Shapes(reader), clock=rows.database.monotonic, random=random.Random(1), limits=limits
    )  # fmt: skip
    for queue in QUEUES:
        await windows.open(queue)
        await windows.open(queue)
    assert windows.sizes() == (len(QUEUES), len(QUEUES) * entries_of_queue)
    assert reader.reads == {"lanes": 3, "heads": 3, "shapes": 1}
