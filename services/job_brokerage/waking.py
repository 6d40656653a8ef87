"""Which waiting tasks go on when statistics, the grid, parameters, advertisements or usage change."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from services.job_brokerage.policy.room_left import RoomLeft, room_of
from services.job_brokerage.store.statistics import QueueStatistics
from services.job_brokerage.store.usage import UsageSnapshot
from services.job_brokerage.store.waits import SQL
from shared.brokerage.analysis_facts import share_usage
from shared.brokerage.lifts import Lift
from shared.brokerage.usage import percent_of_shares
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import StatisticsChanged, TasksWoken
from shared.snapshot import Snapshot
from shared.waits.index import DISK_QUOTA, USER, WORKING_GROUP, Group, WaitIndex, owner_name, vo_and_name
from shared.waits.replicas import ReplicaNews
from shared.waits.store import Part, Wake
from shared.waits.waker import AT_ONCE, SLICE, WOKEN_COUNTS_FOR, WakeMetrics, Waker
from shared.waits.wide import Wide, WideChanges

ROOM, CAP, SHARE = "room at a queue", "usage of the user or group", "usage of the share"
LOOK_AT_ALL_EVERY = timedelta(seconds=30)
LOOK_AT_CAPS_EVERY = timedelta(seconds=2)
LOOK_FOR_PILOTS_EVERY = timedelta(seconds=10)
NEEDS_ARE_FRESH_FOR = timedelta(seconds=5)
#: jobs of a placed task that this replica knows nothing of yet take room for so long
UNSEEN_COUNTS_FOR = timedelta(seconds=5)
CHUNKS_REMEMBERED = 5000
_USED = {
    "user_running_jobs": "running_jobs",
    "user_queued_jobs": "queued_jobs",
    "user_running_cores": "running_cores",
    "user_queued_cores": "queued_cores",
    DISK_QUOTA: "disk_used_gb",
}
SHARE_USAGE = "share_usage"


class UsageOfCapped:
    """What users, groups and shares use now, read only of those whose tasks a cap holds."""

    def __init__(self, usage: UsageSnapshot) -> None:
        self._usage = usage
        self._used: dict[str, float] = {}
        self._quotas: dict[str, float] = {}
        self._read_at: datetime | None = None

    async def wakes(
        self, index: WaitIndex, work: UnitOfWork, need: Callable[[str], float], taken: Counter[str]
    ) -> list[Wake]:
        """Wake tasks that caps of users, groups or the share held, as far as these have room now."""
        held = [group for group in index.groups.values() if group.causes.caps]
        if not held:
            return []
        if _is_due(self._read_at, work.now, LOOK_AT_CAPS_EVERY):
            self._read_at = work.now
            await self._read(held, work)
        found: list[Wake] = []
        for owner in sorted({group.owner for group in held}):
            groups, left = [], math.inf
            for group in (one for one in held if one.owner == owner):
                jobs = min((self._left(owner, name, limit) for name, limit in group.causes.caps), default=0.0)
                if jobs > 0:
                    groups.append(group)
                    left = min(left, jobs)
            for one in index.in_order(groups, need):
                if taken[owner] >= min(left, SLICE) or len(found) >= AT_ONCE:
                    break
                cause = SHARE if any(name == SHARE_USAGE for name, _ in one.causes.caps) else CAP
                found.append(Wake(one.key, one.wake_nr, cause, work.now, owner))
                taken[owner] += one.n_jobs
        return found

    def _left(self, owner: str, name: str, limit: float) -> float:
        """How much more is allowed by one cap; at the cap itself there is room for one more decision.

        A quota is the present one: nothing tells when somebody changes it. (Other caps are parameters, whose changes
        wake.)
        """
        limit = self._quotas.get(owner, limit) if name == DISK_QUOTA else limit
        used = self._used.get(name if name == SHARE_USAGE else f"{owner}:{name}")
        if used is None or math.isnan(used):
            return 0.0
        return limit - used + 1 if used <= limit else 0.0

    async def _read(self, held: Iterable[Group], work: UnitOfWork) -> None:
        owners = sorted({group.owner for group in held})
        rows = await _usage_of(work, "usage_of_users", USER, owners)
        self._quotas = {owner: row["disk_quota_gb"] for owner, row in rows.items()}
        rows |= await _usage_of(work, "usage_of_groups", WORKING_GROUP, owners)
        self._used = {f"{owner}:{name}": row[column] for owner, row in rows.items() for name, column in _USED.items()}
        if any(name == SHARE_USAGE for group in held for name, _ in group.causes.caps):
            self._used[SHARE_USAGE] = share_usage(await self._usage.current(work.connection))


class QueueWaking:
    """`look` once a second and after news; the plan reads only what somebody waits for."""

    def __init__(
        self,
        database: Database,
        snapshot: Snapshot,
        usage: UsageSnapshot,
        parameters: Parameters,
        statistics: QueueStatistics,
        metrics: WakeMetrics,
    ) -> None:
        self._database, self._snapshot, self._capped = database, snapshot, UsageOfCapped(usage)
        self._parameters, self._statistics = parameters, statistics
        self._waker = Waker("queue", self._plan, metrics)
        self._wide, self._replicas = WideChanges(), ReplicaNews("queue")
        self._looked_at: dict[str, datetime] = {}
        self._counted_chunks: dict[int, None] = {}
        self._shares: dict[str, tuple[float, float]] = {}

    async def on_statistics_changed(self, event: StatisticsChanged) -> None:
        """Note, by news, that these queues may have room."""
        self._counted_chunks.update(dict.fromkeys(event.chunk_ids))
        for chunk_id in list(self._counted_chunks)[: max(0, len(self._counted_chunks) - CHUNKS_REMEMBERED)]:
            del self._counted_chunks[chunk_id]
        columns, held_at = self._snapshot.world.columns, self._waker.index.held_at
        labels = [columns.labels[row] for queue in event.queues for row in columns.rows_of_queue.get(queue, ())]
        wanted = labels if self._waker.is_behind else [label for label in labels if held_at(label)]
        if not wanted or event.occurred_at is None:
            return
        for label in wanted:
            self._waker.dirty.setdefault(label, event.occurred_at)
        async with self._database.begin(reason="wakes") as work:
            await self.look(work)

    def note(self) -> None:
        """Note that a task of this replica has begun to wait."""
        self._waker.is_behind = True

    async def look(self, work: UnitOfWork) -> None:
        """Wake what has room; periodic, on every replica, and after news."""
        for cause, task_ids in (await self._waker.look(work)).items():
            work.emit(TasksWoken(task_ids=task_ids, cause=cause))

    async def _plan(self, index: WaitIndex, work: UnitOfWork) -> Sequence[Wake]:
        now = work.now
        if self._is_time("all queues", now, LOOK_AT_ALL_EVERY):
            index.forget_empty_groups()
            for label in index.labels():
                self._waker.dirty.setdefault(label, now)
        if self._is_time("pilots", now, LOOK_FOR_PILOTS_EVERY):
            await self._note_pilots(index, work)
        given = Counter[str]()
        need = await self._need(index, work, given)
        left, in_slices = self._left(index, now)
        chosen: dict[Part, Wake] = {}
        for label in sorted(self._waker.dirty):
            if self._choose(label, index, need, left, given, chosen) <= 0:
                del self._waker.dirty[label]
            if len(chosen) >= AT_ONCE:
                break
        for wake in await self._capped.wakes(index, work, need, left.taken):
            chosen.setdefault(wake.key, wake)
        for wake in self._wide.wakes(index, await self._state(index, work), need, now, at_most=SLICE - in_slices):
            chosen.setdefault(wake.key, wake)
        return list(chosen.values())

    def _choose(
        self,
        label: str,
        index: WaitIndex,
        need: Callable[[str], float],
        left: RoomLeft,
        given: Counter[str],
        chosen: dict[Part, Wake],
    ) -> float:
        """Choose tasks for the room of each VO at one row, in order, until it is taken; the most that there was.

        0 if nobody is held.
        """
        since = self._waker.dirty[label]
        groups, most = defaultdict[str, list[Group]](list), defaultdict[str, float](float)
        for held, members in index.held_at(label).items():
            jobs = left.at(label, held) if members else 0.0
            if jobs > 0:
                most[held.vo] = max(most[held.vo], jobs)
                groups[held.vo].extend(members.values())
        n_held = 0
        for vo, of_vo in groups.items():
            where = room_of(label, vo)
            for one in index.in_order(of_vo, need):
                n_held += 1
                if left.taken[where] >= most[vo] or len(chosen) >= AT_ONCE:
                    break
                if one.key not in chosen:
                    chosen[one.key] = Wake(one.key, one.wake_nr, ROOM, since, label)
                    left.take(one, label)
                    given[one.gshare] += one.n_jobs
        return max(most.values()) if n_held else 0.0

    def _left(self, index: WaitIndex, now: datetime) -> tuple[RoomLeft, int]:
        """What is left beside jobs for which tasks were woken and that no statistics have yet.

        And how many tasks of slices are not decided.
        """
        world, in_slices = self._snapshot.world, 0
        left = RoomLeft(world, now)
        for one in list(index.woken.values()):
            at = one.placed_at or one.woken_at
            limit = WOKEN_COUNTS_FOR if one.placed_at is None else UNSEEN_COUNTS_FOR
            is_seen = one.placed_chunk_id is not None and (
                one.placed_chunk_id in self._counted_chunks or self._snapshot.expects(one.placed_chunk_id)
            )
            if at is None or now - at > limit or is_seen:
                index.drop(one.key)
            elif one.woken_for is None:
                in_slices += 1
            elif one.woken_for in world.columns.row_of_label:
                left.take(one, one.woken_for)
            else:
                left.taken[one.woken_for] += one.n_jobs  # of a cap
        return left, in_slices

    async def _need(self, index: WaitIndex, work: UnitOfWork, given: Counter[str]) -> Callable[[str], float]:
        """Read how much a share has of what is due to it.

        Running cores, and what it was just given, by its part.
        """
        n_shares = len({group.gshare for group in index.groups.values()})
        if n_shares > 1 and self._is_time("needs", work.now, NEEDS_ARE_FRESH_FOR):
            rows = await SQL.rows(work.connection, "shares_and_usage")
            due = percent_of_shares([(row["gshare"], row["value"], row["parent"]) for row in rows])
            self._shares = {row["gshare"]: (float(row["cores"]), due.get(row["gshare"], 0.0)) for row in rows}
        shares = self._shares

        def need(gshare: str) -> float:
            cores, part = shares.get(gshare, (0.0, 0.0))
            return (cores + given[gshare]) / part if part > 0 else math.inf

        return need

    async def _state(self, index: WaitIndex, work: UnitOfWork) -> Wide:
        """Read what changed last; asked only for what somebody waits for."""
        wanted = {lift for group in index.groups.values() for lift in group.causes.lifts}
        changed_at = {}
        if Lift.ADVERTISEMENT in wanted:
            at = await SQL.value(work.connection, "advertised_at")
            if at is not None:
                changed_at[Lift.ADVERTISEMENT] = at
        replicas = await self._replicas.read(index, work)
        parameters = self._parameters
        return Wide(self._snapshot.world.version, parameters.version, parameters.changed_since, changed_at, replicas)

    async def _note_pilots(self, index: WaitIndex, work: UnitOfWork) -> None:
        """Note queues that were left out because no pilot asked.

        A request that found no work is no news by itself.
        """
        columns, held_s = self._snapshot.world.columns, dict[str, float]()
        for label in index.labels():
            limits = [
                held.limit for held, members in index.held_at(label).items() if members and held.check == "pilots"
            ]
            if limits and label in columns.row_of_label:
                held_s[columns.queues[columns.row_of_label[label]].name] = min(limits)
        if held_s:
            rows = await SQL.rows(
                work.connection, "queues_with_pilots_again", queues=sorted(held_s), within_s=min(held_s.values())
            )
            self._statistics.mark([row["queue"] for row in rows])

    def _is_time(self, what: str, now: datetime, every: timedelta) -> bool:
        if not _is_due(self._looked_at.get(what), now, every):
            return False
        self._looked_at[what] = now
        return True


def _is_due(at: datetime | None, now: datetime, every: timedelta) -> bool:
    """Whether what was looked at then is to be looked at again; also where the clock went back."""
    return at is None or not timedelta(0) <= now - at < every


async def _usage_of(work: UnitOfWork, query: str, kind: str, owners: Iterable[str]) -> dict[str, Any]:
    """Read what those of the owners use that are of this kind."""
    wanted = [vo_and_name(one, kind) for one in owners if one.startswith(kind)]
    if not wanted:
        return {}
    vos, names = [vo for vo, _ in wanted], [name for _, name in wanted]
    rows = await SQL.rows(work.connection, query, vos=vos, names=names)
    return {owner_name(kind, row["vo"], row["name"]): row for row in rows}
