"""What this process knows of order keys: their task queues, what waits in them, and their priorities.

Priorities are calculated of all groups periodically, and of one group as soon as a job arrives for a task queue that is
not known or had no jobs; of a large group those of the new task queues alone. They are not stored: every process
calculates them from the same jobs by the same rule (`shared.order.task_queues`). A task queue counts while jobs wait in
it. Which keys have another place since is kept, so that draws follow changes instead of being made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager

import asyncpg

from services.job_dispatch.acquire.order_rules import OrderRules
from services.job_dispatch.policy.new_task_queues import NewTaskQueues
from services.job_dispatch.policy.order_changes import OrderChanges
from services.job_dispatch.policy.queues_of_share import KeyPlace
from services.job_dispatch.store import task_queues as store
from shared.config.parameters import Parameters
from shared.db.holders import for_all
from shared.order.identity import TaskQueueIdentity, real_priority
from shared.order.parameters import INSTEAD
from shared.order.task_queues import (
    LEAST_PRIORITY,
    Entity,
    GroupName,
    TaskQueuePriority,
    WaitingQueue,
)

QUEUES_TOGETHER = 2000
#: a group of more keys is not calculated for each new task queue (`NewTaskQueues`)
LARGE_GROUP_KEYS = 100
Read = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]


class TaskQueueOrders:
    """One per process. `keys`: task queue and user priority of each order key; `queues`: their identities."""

    def __init__(self, read: Read, parameters: Parameters) -> None:
        self.keys: dict[int, tuple[int, int]] = {}
        self.queues: dict[int, TaskQueueIdentity] = {}
        self.rules = OrderRules(parameters)
        self.n_forgotten = 0
        self._read = read
        self._parameters = parameters
        self._changes = OrderChanges()
        self._keys_of_group: dict[GroupName, set[int]] = {}
        self._waiting: dict[int, int] = {}
        self._priorities: dict[int, float] = {}
        self._divided = NewTaskQueues()
        self._missing: set[int] = set()
        self._loading: asyncio.Task[None] | None = None

    # -- what lanes ask

    @property
    def version(self) -> int:
        """Another number after each change of any key."""
        return self._changes.version

    def changed_since(self, version: int) -> set[int] | None:
        """The keys whose place changed since a version; None: any may have."""
        return self._changes.since(version)

    def place(self, order_key_id: int, gshare: str) -> KeyPlace | None:
        """The task queue and the weights of an order key in a share; None until it is known.

        What the owner used before within the share multiplies the priority, unless its VO does without shares.
        """
        key = self.keys.get(order_key_id)
        if key is None:
            self._missing.add(order_key_id)
            return None
        number, user_priority = key
        identity, priority = self.queues[number], self._priorities.get(number, LEAST_PRIORITY)
        weight = real_priority(user_priority)
        if self.rules.mode(identity.vo) == INSTEAD:
            return KeyPlace(number, priority, weight, identity.vo)
        properties = self.rules.of_group((identity.vo, identity.user_group))
        correction = self.rules.corrections.within_shares.get((gshare, identity.user_name), 1.0)
        return KeyPlace(number, priority * (1.0 if properties.job_sharing else correction), weight)

    def expect(self, order_key_id: int) -> None:
        """Note that a job with this key waits."""
        if order_key_id and not self._waiting.get(order_key_id):
            self._missing.add(order_key_id)

    @property
    def in_use(self) -> bool:
        """Whether any job that waits has a task queue."""
        return bool(self.keys or self._missing)

    @property
    def has_missing(self) -> bool:
        return bool(self._missing)

    # -- reading

    async def load_missing(self) -> None:
        """Read the keys that are not known, and order their groups again; callers share a reading."""
        if self._loading is None:
            self._loading = for_all(self._load_missing())
            self._loading.add_done_callback(lambda _: setattr(self, "_loading", None))
        await asyncio.shield(self._loading)

    async def _load_missing(self) -> None:
        wanted = sorted(self._missing)
        if not wanted:
            return
        async with self._read() as connection:
            await self.learn(connection, wanted)
            of_group: dict[GroupName, list[int]] = {}
            for key in wanted:
                if key in self.keys:
                    of_group.setdefault(self._group_of(key), []).append(key)
            large = [key for name, keys in of_group.items() if self._is_large(name, keys) for key in keys]
            await self._count(connection, large, wanted)
            whole = [name for name, keys in of_group.items() if not self._is_large(name, keys) or not self._price(keys)]
            keys = sorted(key for name in whole for key in self._keys_of_group[name])
            await self._count(connection, keys, wanted)
        self._missing.difference_update(wanted)
        await self._calculate(keys)

    async def _count(self, connection: asyncpg.Connection, order_key_ids: Sequence[int], wanted: Sequence[int]) -> None:
        """Read how many jobs wait; one that was announced may not be seen: its key, which is `wanted`, counts one."""
        found = await store.waiting_jobs(connection, order_key_ids) if order_key_ids else {}
        announced = set(wanted)
        for key in order_key_ids:
            self._waiting[key] = found.get(key, 0) or (1 if key in announced else 0)

    def _is_large(self, name: GroupName, order_key_ids: Sequence[int]) -> bool:
        """Whether a group is too large to be calculated for these keys; all of them are of new task queues then."""
        return len(self._keys_of_group[name]) > LARGE_GROUP_KEYS and not any(
            self.keys[key][0] in self._priorities for key in order_key_ids
        )

    def _price(self, order_key_ids: Sequence[int]) -> bool:
        """Give new task queues of one group, with these keys, their priorities; whether that will do."""
        n_jobs: dict[int, dict[int, int]] = {}
        for key in order_key_ids:
            number, user_priority = self.keys[key]
            n_jobs.setdefault(number, {})[user_priority] = self._waiting[key]
        queues = [WaitingQueue(number, self.queues[number], counts) for number, counts in n_jobs.items()]
        name = queues[0].identity.group
        properties, how = self.rules.of_group(name), self.rules.consolidation(name[0])
        found = self._divided.priced(name, queues, properties, self.rules.corrections, how)
        if found is not None:
            self._priorities.update(found)
            self._changes.note(order_key_ids)
        return found is not None

    async def recalculate(self, connection: asyncpg.Connection) -> bool:
        """Order all groups again, by what waits now; whether groups themselves have changed."""
        known = set(self._priorities)
        self._waiting = await store.waiting_jobs(connection)
        await self.learn(connection, sorted(self._waiting.keys() - self.keys.keys()))
        gone = self.keys.keys() - self._waiting.keys()
        for key in gone:
            self._forget(key)
        in_use = {number for number, _ in self.keys.values()}
        self.queues = {number: one for number, one in self.queues.items() if number in in_use}
        has_other_groups, has_other_rules = await self.rules.read(connection)
        if has_other_rules:
            self._changes.note_all()  # any key may have another place
        self._missing.difference_update(self.keys)
        self._divided = NewTaskQueues()
        await self._calculate(list(self._waiting), known)
        self._changes.note(gone)
        return has_other_groups

    def _forget(self, order_key_id: int) -> None:
        """Forget a key for which nothing waits; should a job come, it is read again."""
        name = self._group_of(order_key_id)
        self._keys_of_group[name].discard(order_key_id)
        if not self._keys_of_group[name]:
            del self._keys_of_group[name]
        del self.keys[order_key_id]
        self.n_forgotten += 1

    async def learn(self, connection: asyncpg.Connection, order_key_ids: Sequence[int]) -> None:
        """Read the task queues of keys."""
        if not order_key_ids:
            return
        learnt = []
        for row in await store.order_keys(connection, order_key_ids):
            key, number = row["order_key_id"], row["task_queue_id"]
            if number not in self.queues:
                self.queues[number] = TaskQueueIdentity.of(row)
            self.keys[key] = (number, row["user_priority"])
            self._keys_of_group.setdefault(self._group_of(key), set()).add(key)
            learnt.append(key)
        self._changes.note(learnt)

    def _group_of(self, order_key_id: int) -> GroupName:
        identity = self.queues[self.keys[order_key_id][0]]
        return identity.vo, identity.user_group

    async def _calculate(self, order_key_ids: Collection[int], known: AbstractSet[int] = frozenset()) -> None:
        """Order the groups that these keys are all keys of; others of those that were `known` are gone."""
        found: dict[int, float] = {}
        of_entities: dict[Entity, TaskQueuePriority] = {}
        for number, one in enumerate(self.prioritised(order_key_ids), start=1):
            found[one.task_queue_id] = one.priority
            of_entities[one.identity.vo, one.identity.user_group, one.identity.user_name] = one
            if number % QUEUES_TOGETHER == 0:
                await asyncio.sleep(0)
        self._divided.calculated(of_entities.values(), self.rules.groups)
        for gone in known - found.keys():
            self._priorities.pop(gone, None)
        changed = {number for number, priority in found.items() if self._priorities.get(number) != priority}
        self._priorities.update(found)
        places = ((key, self.keys.get(key)) for key in order_key_ids)
        self._changes.note(key for key, place in places if place is not None and place[0] in changed)

    def of_all(self) -> Iterable[TaskQueuePriority]:
        """All task queues that have waiting jobs, with their terms."""
        return self.prioritised(self._waiting)

    def copy(self) -> TaskQueueOrders:
        """One that knows nothing yet."""
        return TaskQueueOrders(self._read, self._parameters)

    def prioritised(self, order_key_ids: Iterable[int]) -> Iterable[TaskQueuePriority]:
        """The task queues of these keys that have waiting jobs, with their terms."""
        n_jobs: dict[int, dict[int, int]] = {}
        for key in order_key_ids:
            count = self._waiting.get(key, 0)
            if count and key in self.keys:
                number, user_priority = self.keys[key]
                n_jobs.setdefault(number, {})[user_priority] = count
        by_vo: dict[str, list[WaitingQueue]] = {}
        for number, counts in n_jobs.items():
            identity = self.queues[number]
            by_vo.setdefault(identity.vo, []).append(WaitingQueue(number, identity, counts))
        return self.rules.prioritised(by_vo)
