"""The reads that fill the windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import asyncpg

from services.job_dispatch.policy.fitting import Offer, Shape
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.reading import LaneKey
from services.job_dispatch.store.lanes import SQL
from shared.brokerage.matchmaking import JobFacts
from shared.events import LaneJob
from shared.model.whole_numbers import LARGEST_INT4

#: what was read of each lane, in the order in which it is served
Entries = dict[LaneKey, list[Entry]]


class FirstLanes(NamedTuple):
    """The first jobs of the lanes of some shares of a queue, and the shares of which nothing was read.

    `has_order_keys`: some job has one; then the shares behind it were not looked for.
    """

    entries: Entries
    unread: frozenset[str]
    has_order_keys: bool


class LaneReader(Protocol):
    """Reads that fill the windows."""

    async def first_lanes(self, queue: str, ranked: Sequence[str], n_shares: int, size: int) -> FirstLanes: ...

    async def lanes_of(self, queue: str) -> dict[LaneKey, Entry]: ...

    async def read_lanes(self, queue: str, cursors: Mapping[LaneKey, Entry | None], size: int) -> Entries: ...

    async def still_activated(self, connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[LaneJob]: ...

    async def shapes(self, shape_ids: Sequence[int]) -> list[Shape]: ...


#: before every entry: a cursor for a read from the start
FIRST: Entry = (-LARGEST_INT4 - 1, 0)


class DatabaseLaneReader:
    """Reads lanes, each on a connection in autocommit from `read`.

    These are connections whose plans follow the lane index, or in a simulation the database itself.
    """

    def __init__(self, read: Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]) -> None:
        self._read = read

    async def first_lanes(self, queue: str, ranked: Sequence[str], n_shares: int, size: int) -> FirstLanes:
        """Read the first `size` jobs of each lane of the first `n_shares` shares of the order `ranked`.

        Shares that have urgent work are read too, wherever they stand.
        """
        async with self._read() as connection:
            rows = await SQL.rows(
                connection, "first_lanes", queue=queue, ranked=list(ranked), n_shares=n_shares, size=size
            )
        entries: Entries = {}
        unread = set[str]()
        has_order_keys = False
        for gshare, order_key_id, is_read, shape_id, negated_priority, job_id in rows:
            has_order_keys = has_order_keys or order_key_id != 0
            if not is_read:
                unread.add(gshare)
            elif shape_id is not None:
                entries.setdefault((gshare, order_key_id, shape_id), []).append((negated_priority, job_id))
        return FirstLanes(entries, frozenset(unread), has_order_keys)

    async def lanes_of(self, queue: str) -> dict[LaneKey, Entry]:
        """Read all lanes of a queue, each with its first job."""
        async with self._read() as connection:
            rows = await SQL.rows(connection, "lanes_of", queue=queue)
        return {
            (row["gshare"], row["order_key_id"], row["shape_id"]): (row["negated_priority"], row["job_id"])
            for row in rows
        }

    async def read_lanes(self, queue: str, cursors: Mapping[LaneKey, Entry | None], size: int) -> Entries:
        """Read the next entries of some lanes, at most `size` of each; a cursor of None reads from the start."""
        after = [cursor or FIRST for cursor in cursors.values()]
        async with self._read() as connection:
            rows = await SQL.rows(
                connection,
                "read_lanes",
                queue=queue,
                gshares=[gshare for gshare, _, _ in cursors],
                order_key_ids=[order_key_id for _, order_key_id, _ in cursors],
                shape_ids=[shape_id for _, _, shape_id in cursors],
                after_priorities=[priority for priority, _ in after],
                after_ids=[job_id for _, job_id in after],
                size=size,
            )
        found: Entries = {key: [] for key in cursors}
        for gshare, order_key_id, shape_id, negated_priority, job_id in rows:
            found[gshare, order_key_id, shape_id].append((negated_priority, job_id))
        return found

    async def still_activated(self, connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[LaneJob]:
        rows = await SQL.rows(connection, "still_activated", job_ids=list(job_ids))
        return [LaneJob(**dict(row)) for row in rows]

    async def orders(self, job_ids: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Read share and priority of live jobs by their ids."""
        async with self._read() as connection:
            rows = await SQL.rows(connection, "orders", job_ids=list(job_ids))
        return {row["job_id"]: (row["gshare"], row["priority"]) for row in rows}

    async def shapes(self, shape_ids: Sequence[int]) -> list[Shape]:
        async with self._read() as connection:
            rows = await SQL.rows(connection, "shapes", shape_ids=list(shape_ids))
        return [Shape(**dict(row)) for row in rows]

    async def job_facts(self, job_ids: Sequence[int]) -> dict[int, JobFacts]:
        """Read what Requirements of sites may ask of these jobs, by their ids."""
        async with self._read() as connection:
            rows = await SQL.rows(connection, "job_facts", job_ids=list(job_ids))
        return {
            row["job_id"]: JobFacts.of(dict(row), core_count=row["core_count"], ram_mb=row["ram_mb"]) for row in rows
        }

    async def candidates(self, offer: Offer, size: int) -> list[tuple[LaneKey, Entry]]:
        """Read the best activated jobs of the task, user or group that the offer asks for, at its queue.

        Of a user or group only those without a task queue.
        """
        async with self._read() as connection:
            if offer.task_id is not None:
                rows = await SQL.rows(
                    connection,
                    "candidates_of_task",
                    task_id=offer.task_id,
                    user_name=offer.user_name,
                    working_group=offer.working_group,
                    queue=offer.queue,
                    size=size,
                )
            elif offer.user_name is not None:
                rows = await SQL.rows(
                    connection,
                    "candidates_of_user",
                    user_name=offer.user_name,
                    working_group=offer.working_group,
                    queue=offer.queue,
                    size=size,
                )
            else:
                rows = await SQL.rows(
                    connection, "candidates_of_group", working_group=offer.working_group, queue=offer.queue, size=size
                )
        return [
            ((row["gshare"], row["order_key_id"], row["shape_id"]), (row["negated_priority"], row["job_id"]))
            for row in rows
        ]
