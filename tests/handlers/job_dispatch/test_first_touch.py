"""The first touch of queues: how much is asked and read, however many jobs wait."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from services.job_dispatch.acquire.lane_facts import LaneFacts
from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader, Entries, FirstLanes
from services.job_dispatch.acquire.shapes import KnownShapes
from services.job_dispatch.acquire.site_limits import SiteLimits
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.policy.fitting import Offer, Shape
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.reading import LaneKey, WindowLimits
from services.job_dispatch.policy.share_lanes import NeedsRefill, NeedsShares, PickedJob
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.events import LaneJob
from shared.order.ranking import Ranks
from shared.snapshot import KnownGrid
from tests.handlers.job_dispatch.grid_of_jobs import SHAPES, Rows

QUEUES = ("Q1", "Q2", "QN")
JOBS_OF_LANE = 30


class CountingReader(DatabaseLaneReader):
    """Counts its reads."""

    reads: Counter[str]

    async def first_lanes(self, queue: str, ranked: Sequence[str], n_shares: int, size: int) -> FirstLanes:
        self.reads["first"] += 1
        return await super().first_lanes(queue, ranked, n_shares, size)

    async def lanes_of(self, queue: str) -> dict[LaneKey, Entry]:
        self.reads["lanes"] += 1
        return await super().lanes_of(queue)

    async def read_lanes(self, queue: str, cursors: Mapping[LaneKey, Entry | None], size: int) -> Entries:
        self.reads["entries"] += 1
        return await super().read_lanes(queue, cursors, size)

    async def shapes(self, shape_ids: Sequence[int]) -> list[Shape]:
        self.reads["shapes"] += 1
        return await super().shapes(shape_ids)


def windows_of(rows: Rows, **limits: int) -> tuple[Windows, CountingReader]:
    """Windows without a dispatcher; MC is served before User Analysis, this before Test."""
    reader = CountingReader(rows.database.read)
    reader.reads = Counter()
    clock, parameters, rng = rows.database.monotonic, Parameters(), random.Random(1)
    grid, limits_of_sites = KnownGrid(NullCache()), SiteLimits(parameters, clock)
    queues = TaskQueues(rows.database.read, parameters, grid, limits_of_sites, random=rng)
    facts = LaneFacts(KnownShapes(reader), queues)
    windows = Windows(reader, facts, clock=clock, random=rng, limits=WindowLimits(**limits))
    windows.ranks = Ranks(("MC", "User Analysis", "Test"))
    return windows, reader


async def make_urgent(rows: Rows, shape_id: int) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE requirement_shapes SET is_urgent = true WHERE shape_id = $1", shape_id)


async def served(windows: Windows, queue: str = "Q1") -> list[PickedJob]:
    """All that an offer gets at a queue, in the order in which it gets it."""
    taken = []
    while (found := windows.pick(Offer(queue))) is not None:
        if isinstance(found, NeedsShares):
            await windows.read_more_shares(queue)
        elif isinstance(found, NeedsRefill):
            await asyncio.gather(*(windows.refill(queue, lane) for lane in found.lanes))
        else:
            taken.append(found)
    return taken


@pytest.mark.parametrize(
    ("first_shares", "first_entries", "entries_of_queue"),
    [(1, 4, 2 * 4), (2, 4, 4 * 4), (9, 50, 4 * JOBS_OF_LANE)],
)
async def test_the_first_touch_of_all_queues_asks_once_for_each_and_reads_some_jobs_of_the_first_shares(
    rows: Rows, first_shares: int, first_entries: int, entries_of_queue: int
) -> None:
    for queue in QUEUES:
        for gshare in ("MC", "User Analysis"):
            for shape in ("small", "large"):
                await rows.jobs(JOBS_OF_LANE, queue=queue, gshare=gshare, shape=shape)
    windows, reader = windows_of(rows, first_shares=first_shares, first_entries=first_entries)
    for queue in QUEUES:
        await windows.open(queue)
        await windows.open(queue)
    assert windows.sizes() == (len(QUEUES), len(QUEUES) * entries_of_queue)
    assert reader.reads == {"first": 3, "shapes": 1}


async def test_shares_are_read_when_it_is_their_turn_and_served_in_rank_order(rows: Rows) -> None:
    jobs = {gshare: await rows.jobs(3, queue="Q1", gshare=gshare) for gshare in ("Test", "User Analysis", "MC")}
    windows, reader = windows_of(rows, first_shares=1)
    await windows.open("Q1")
    window = windows._queues["Q1"].window
    assert window.unread == {"User Analysis", "Test"} and {lane.gshare for lane in window.lanes()} == {"MC"}
    taken = [one.job_id for one in await served(windows)]
    assert taken == [*jobs["MC"], *jobs["User Analysis"], *jobs["Test"]]
    assert reader.reads["first"] == 2, "the second read brings the others"


async def test_a_share_that_is_ranked_first_meanwhile_is_read_before_anything_is_picked(rows: Rows) -> None:
    await rows.jobs(1, queue="Q1", gshare="MC")
    (best,) = await rows.jobs(1, queue="Q1", gshare="Test")
    windows, _ = windows_of(rows, first_shares=1)
    await windows.open("Q1")
    windows.ranks = Ranks(("Test", "MC"))
    assert windows.pick(Offer("Q1")) == NeedsShares()
    assert (await served(windows))[0].job_id == best


async def test_news_of_a_share_that_was_not_read_is_found_by_its_read_once(rows: Rows) -> None:
    first = await rows.jobs(1, queue="Q1", gshare="MC")
    others = await rows.jobs(2, queue="Q1", gshare="Test")
    windows, _ = windows_of(rows, first_shares=1)
    await windows.open("Q1")
    await windows.reread("Q1")
    news = await rows.jobs(1, queue="Q1", gshare="Test")
    shape_id = rows.shapes["small"]
    lane_job = LaneJob(job_id=news[0], queue="Q1", gshare="Test", shape_id=shape_id, priority=100)
    windows.arrive([lane_job])
    assert windows.sizes() == (1, 1)
    assert sorted(one.job_id for one in await served(windows)) == sorted([*first, *others, *news])


async def test_urgent_work_of_a_late_share_is_read_at_the_first_touch(rows: Rows) -> None:
    await make_urgent(rows, rows.shapes["large"])
    (plain,) = await rows.jobs(1, queue="Q1", gshare="MC")
    (urgent,) = await rows.jobs(1, queue="Q1", gshare="Test", shape="large")
    windows, reader = windows_of(rows, first_shares=1)
    await windows.open("Q1")
    assert reader.reads["first"] == 1 and windows._queues["Q1"].window.unread == frozenset()
    assert [one.job_id for one in await served(windows)] == [urgent, plain]


async def test_urgent_work_that_arrives_in_a_share_that_was_not_read_is_read_now(rows: Rows) -> None:
    (plain,) = await rows.jobs(1, queue="Q1", gshare="MC")
    (later,) = await rows.jobs(1, queue="Q1", gshare="Test")
    windows, _ = windows_of(rows, first_shares=1)
    await windows.open("Q1")
    shape_id = rows.shapes["large"]
    await make_urgent(rows, shape_id)
    (urgent,) = await rows.jobs(1, queue="Q1", gshare="Test", shape="large")
    windows.arrive([LaneJob(job_id=urgent, queue="Q1", gshare="Test", shape_id=shape_id, priority=100)])
    await windows._opening["Q1"]
    assert [one.job_id for one in await served(windows)] == [urgent, plain, later]


async def test_lanes_of_a_share_of_which_only_the_first_job_is_known_are_read_together(rows: Rows) -> None:
    for shape in SHAPES:
        await rows.jobs(3, queue="Q1", gshare="MC", shape=shape)
        await rows.jobs(3, queue="Q1", gshare="User Analysis", shape=shape)
    windows, reader = windows_of(rows, first_shares=2, first_entries=1, refill_below=4, refill_size=10)
    await windows.open("Q1")
    n_reads = dict[str, int]()
    taken = list[str]()
    while (found := windows.pick(Offer("Q1"))) is not None:
        if isinstance(found, NeedsRefill):
            await asyncio.gather(*(windows.refill("Q1", lane) for lane in found.lanes))
        elif isinstance(found, PickedJob):
            taken.append(found.lane.gshare)
            n_reads.setdefault(found.lane.gshare, reader.reads["entries"])
    assert taken == ["MC"] * (3 * len(SHAPES)) + ["User Analysis"] * (3 * len(SHAPES))
    assert reader.reads["entries"] - n_reads["User Analysis"] == 1, "one read for all lanes of the second share"
