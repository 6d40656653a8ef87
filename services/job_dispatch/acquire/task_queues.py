"""What this process knows of task queues: their priorities, and which of them fit each kind of pilot.

Priorities are calculated of all groups periodically, and of one group as soon as a job arrives for a task queue that is
not known or had no jobs. They are not stored: every process calculates them from the same jobs by the same rule
(`shared.order.task_queues`). A task queue counts while jobs wait in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from random import Random
from typing import Any

import asyncpg

from services.job_dispatch.acquire.site_limits import SiteLimits
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.task_queue_lanes import KeyPlace, TaskQueueView
from services.job_dispatch.store import task_queues as store
from shared.config.parameters import Parameters
from shared.model.queue import QueueStatus
from shared.order.identity import TaskQueueIdentity, real_priority
from shared.order.matching import TEST_JOBS, TaskQueueOffer, offered_tags, unmatched
from shared.order.parameters import CONSOLIDATION, INSTEAD, TASK_QUEUES
from shared.order.task_queues import (
    LEAST_PRIORITY,
    NO_PROPERTIES,
    Consolidation,
    Corrections,
    GroupName,
    GroupProperties,
    TaskQueuePriority,
    WaitingQueue,
    prioritised,
)
from shared.snapshot import KnownGrid

MOST_VIEWS = 4096
QUEUES_TOGETHER = 2000
NOTHING_OFFERED = TaskQueueOffer()
Read = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]


class TaskQueues:
    """One per process."""

    def __init__(
        self, read: Read, parameters: Parameters, grid: KnownGrid, limits: SiteLimits, *, random: Random
    ) -> None:
        self.limits = limits
        self.version = 0
        self._read = read
        self._parameters = parameters
        self._grid = grid
        self._random = random
        self._queues: dict[int, TaskQueueIdentity] = {}
        self._keys: dict[int, tuple[int, int]] = {}
        self._keys_of_group: dict[GroupName, set[int]] = {}
        self._waiting: dict[int, int] = {}
        self._priorities: dict[int, float] = {}
        self._groups: Mapping[GroupName, GroupProperties] = {}
        self._corrections = Corrections()
        self._missing: set[int] = set()
        self._loading: asyncio.Task[None] | None = None
        self._sites: Mapping[str, str] = {}
        self._masked: frozenset[str] = frozenset()
        self._views: dict[tuple[Any, ...], TaskQueueView] = {}

    # -- what lanes ask

    def place(self, order_key_id: int, gshare: str) -> KeyPlace | None:
        """The task queue and the weights of an order key in a share; None until it is known.

        What the owner used before within the share multiplies the priority, unless its VO does without shares.
        """
        key = self._keys.get(order_key_id)
        if key is None:
            self._missing.add(order_key_id)
            return None
        number, user_priority = key
        identity, priority = self._queues[number], self._priorities.get(number, LEAST_PRIORITY)
        weight = real_priority(user_priority)
        if self._parameters.read(TASK_QUEUES, vo=identity.vo) == INSTEAD:
            return KeyPlace(number, priority, weight, identity.vo)
        properties = self._groups.get((identity.vo, identity.user_group), NO_PROPERTIES)
        correction = self._corrections.within_shares.get((gshare, identity.user_name), 1.0)
        return KeyPlace(number, priority * (1.0 if properties.job_sharing else correction), weight)

    def expect(self, order_key_id: int) -> None:
        """A job with this key waits."""
        if order_key_id and not self._waiting.get(order_key_id):
            self._missing.add(order_key_id)

    @property
    def in_use(self) -> bool:
        """Whether any job that waits has a task queue."""
        return bool(self._keys or self._missing)

    @property
    def has_missing(self) -> bool:
        return bool(self._missing)

    def view(self, offer: Offer) -> TaskQueueView:
        """Order keys as the offer's kind of pilot sees them; the same object for the same kind."""
        kind = (offer.queue, offer.kind, offer.user_name, offer.working_group)
        found = self._views.get(kind)
        if found is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[kind] = TaskQueueView(
                self,
                self._fitting(self.completed(offer)),
                lambda key: self.holding(offer.queue, key) is not None,
                self._random.random,
                self.limits.version,
                offer.is_for_all,
            )
        return found

    def completed(self, offer: Offer) -> TaskQueueOffer:
        """What an offer says to task queues, with what follows from its queue, memory and time."""
        asked, kind = offer.kind.task_queues or NOTHING_OFFERED, offer.kind
        masked = offer.queue in self._masked
        return replace(
            asked,
            sites=frozenset({offer.queue, self._sites.get(offer.queue, offer.queue)}),
            cpu_time_s=asked.cpu_time_s if asked.cpu_time_s is not None else kind.remaining_s or None,
            tags=offered_tags(asked.tags, max_ram_mb=kind.memory_mb),
            job_type=TEST_JOBS if masked else asked.job_type,
            user_name=offer.user_name,
            user_group=offer.working_group,
        )

    def _fitting(self, offered: TaskQueueOffer) -> Callable[[int], bool]:
        known: dict[int, bool] = {}

        def fits(order_key_id: int) -> bool:
            found = known.get(order_key_id)
            if found is None:
                key = self._keys.get(order_key_id)
                if key is None:
                    return False
                found = known[order_key_id] = self.why_not(key[0], offered) is None
            return found

        return fits

    def why_not(self, task_queue_id: int, offered: TaskQueueOffer) -> str | None:
        """Why a task queue does not fit, in words; None if it does."""
        queue = self._queues[task_queue_id]
        properties = self._groups.get((queue.vo, queue.user_group))
        found = unmatched(queue, offered, job_sharing=properties is not None and properties.job_sharing)
        return found.reason if found is not None else None

    def why_nothing(self, offer: Offer, order_key_ids: Iterable[int]) -> tuple[str | None, str | None]:
        """Of the waiting keys: the limit that holds one back, and why one does not match; both in words."""
        held = other = None
        offered = self.completed(offer)
        for key in sorted(self._keys.keys() & set(order_key_ids)):
            other_reason = self.why_not(self._keys[key][0], offered)
            rule = self.holding(offer.queue, key) if other_reason is None else None
            held = held or (rule.text if rule is not None else None)
            other = other or other_reason
        return held, other

    def holding(self, queue: str, order_key_id: int) -> Any:
        """The rule of the site that holds jobs of a key back now, or None.

        None too for a key for which nothing waits any more: draws may have it until they are made again.
        """
        key = self._keys.get(order_key_id) if self.limits.has_rules else None
        return None if key is None else self.limits.held(self._sites, queue, key[0], self._queues[key[0]])

    def picked(self, queue: str, order_key_id: int, job_id: int) -> None:
        """A job is being claimed."""
        key = self._keys.get(order_key_id)
        if key is not None and self.limits.has_rules:
            self.limits.picked(self._sites, queue, key[0], self._queues[key[0]], job_id)

    # -- reading

    async def load_missing(self) -> None:
        """Read the keys that are not known, and order their groups again; callers share a reading."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_missing())
            self._loading.add_done_callback(lambda _: setattr(self, "_loading", None))
        await asyncio.shield(self._loading)

    async def _load_missing(self) -> None:
        wanted = sorted(self._missing)
        if not wanted:
            return
        async with self._read() as connection:
            await self._learn(connection, wanted)
            names = {self._group_of(key) for key in wanted if key in self._keys}
            keys = sorted(key for name in names for key in self._keys_of_group[name])
            found = await store.waiting_jobs(connection, keys)
        for key in keys:
            self._waiting[key] = found.get(key, 0)
        # a job that was announced may not be seen by the reading; its key counts one
        for key in wanted:
            if key in self._keys and not self._waiting.get(key):
                self._waiting[key] = 1
        self._missing.difference_update(wanted)
        await self._calculate(keys)

    async def recalculate(self, connection: asyncpg.Connection) -> None:
        """Order all groups again, by what waits now."""
        self._waiting = await store.waiting_jobs(connection)
        await self._learn(connection, sorted(self._waiting.keys() - self._keys.keys()))
        for key in self._keys.keys() - self._waiting.keys():
            self._forget(key)
        in_use = {number for number, _ in self._keys.values()}
        self._queues = {number: one for number, one in self._queues.items() if number in in_use}
        self._groups = await store.groups_of_users(connection)
        self._corrections = await store.corrections(connection)
        self._views.clear()  # JOB_SHARING decides whom a user's pilot serves
        self._missing.difference_update(self._keys)
        self._priorities = {}
        await self._calculate(list(self._waiting))

    def _forget(self, order_key_id: int) -> None:
        """Nothing waits for the key; should a job come, it is read again."""
        name = self._group_of(order_key_id)
        self._keys_of_group[name].discard(order_key_id)
        if not self._keys_of_group[name]:
            del self._keys_of_group[name]
        del self._keys[order_key_id]

    async def _learn(self, connection: asyncpg.Connection, order_key_ids: Sequence[int]) -> None:
        if not order_key_ids:
            return
        for row in await store.order_keys(connection, order_key_ids):
            number = row["task_queue_id"]
            if number not in self._queues:
                self._queues[number] = TaskQueueIdentity.of(row)
            self._keys[row["order_key_id"]] = (number, row["user_priority"])
            self._keys_of_group.setdefault(self._group_of(row["order_key_id"]), set()).add(row["order_key_id"])

    def _group_of(self, order_key_id: int) -> GroupName:
        identity = self._queues[self._keys[order_key_id][0]]
        return identity.vo, identity.user_group

    async def _calculate(self, order_key_ids: Iterable[int]) -> None:
        """The priorities of the groups that these keys are all keys of."""
        number = 0
        for number, one in enumerate(self.prioritised(order_key_ids), start=1):
            self._priorities[one.task_queue_id] = one.priority
            if number % QUEUES_TOGETHER == 0:
                await asyncio.sleep(0)
        if number or self._priorities:
            self.version += 1

    def of_all(self) -> Iterable[TaskQueuePriority]:
        """All task queues that have waiting jobs, with their terms."""
        return self.prioritised(self._waiting)

    def copy(self) -> TaskQueues:
        """One that knows nothing yet."""
        return TaskQueues(self._read, self._parameters, self._grid, self.limits, random=self._random)

    def prioritised(self, order_key_ids: Iterable[int]) -> Iterable[TaskQueuePriority]:
        """The task queues of these keys that have waiting jobs, with their terms."""
        n_jobs: dict[int, dict[int, int]] = {}
        for key in order_key_ids:
            count = self._waiting.get(key, 0)
            if count and key in self._keys:
                number, user_priority = self._keys[key]
                n_jobs.setdefault(number, {})[user_priority] = count
        by_vo: dict[str, list[WaitingQueue]] = {}
        for number, counts in n_jobs.items():
            identity = self._queues[number]
            by_vo.setdefault(identity.vo, []).append(WaitingQueue(number, identity, counts))
        for vo in sorted(by_vo):
            how: Consolidation = "average" if self._parameters.read(CONSOLIDATION, vo=vo) == "average" else "sum"
            yield from prioritised(by_vo[vo], self._groups, consolidation=how, corrections=self._corrections)

    async def read_limits(self, connection: asyncpg.Connection, clock: Callable[[], float], place: int, n: int) -> None:
        """What runs at the sites, where there are limits."""
        self.limits.configure()
        if not self.limits.has_rules:
            return
        read_at = clock()
        rows = await store.at_pilots(connection)
        await self._learn(connection, sorted({key for _, key, _ in rows} - self._keys.keys()))
        running = [
            (self._sites.get(queue, queue), self._queues[self._keys[key][0]], count)
            for queue, key, count in rows
            if key in self._keys
        ]
        self.limits.were_read(running, read_at, place=place, n_replicas=n)

    async def read_grid(self, connection: asyncpg.Connection) -> None:
        """The site of each queue, and queues that take test jobs only."""
        queues = (await self._grid.grid(connection)).queues
        sites = {name: queue.site for name, queue in queues.items()}
        masked = frozenset(name for name, queue in queues.items() if queue.status is QueueStatus.TEST)
        if (sites, masked) != (self._sites, self._masked):
            self._sites, self._masked = sites, masked
            self.limits.sites_changed()
            self._views.clear()
