"""Production is sent to queues that are nearly empty, and may go anywhere again when they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import filling as policy
from services.watchdog.store import due as store
from services.watchdog.store.filling import SQL
from services.watchdog.sweeping import REQUESTED_BY
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskSiteRequested
from shared.model.grid import Grid
from shared.model.queue import Queue
from shared.model.whole_numbers import LARGEST_INT4
from shared.snapshot import KnownGrid

#: empty queues to which tasks are sent in one turn, and tasks that one slice looks at
QUEUES_AT_ONCE, SLICE = 20, 200
#: before the most urgent task
_BEFORE_ALL = (LARGEST_INT4, 0)
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Round:
    """Where a turn is: of which turn, after which priority and task, and to which queues tasks are sent."""

    turn: datetime | None = None
    after: tuple[int, int] = _BEFORE_ALL
    queues: tuple[str, ...] = ()


@dataclass
class _Place:
    """An empty queue with since when it is, and what it asks of tasks.

    `disks`: storages that it reads. `files_ready`: that a task must have. `n_sent`: tasks by resource type.
    """

    queue: Queue
    since: datetime
    disks: frozenset[str]
    files_ready: int
    most_tasks: int
    n_sent: dict[str, int]

    def misses(self, grid: Grid, task: Mapping[str, Any]) -> policy.Miss | None:
        """Tell why a task cannot be sent there: input, what brokerage asks, room; None where it can."""
        if task["files_ready"] < self.files_ready:
            return policy.Miss.FILES
        if self.disks.isdisjoint(task["storages"]):
            return policy.Miss.INPUT
        missed = policy.misses(self.queue, grid, task)
        has_room = self.n_sent.get(task["resource_type"] or "", 0) < self.most_tasks
        return missed if missed is not None or has_room else policy.Miss.ROOM


class Filling:
    """Fill empty queues; nothing is read while no task may be sent to one.

    What it remembers is where its round is: in each turn all tasks that may go anywhere are looked at, a slice at a
    time, for the empty queues for which that is longest ago.
    """

    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters, self._grid, self._limits = parameters, grid, WatchLimits(parameters)
        self._round = _Round()

    async def watch_empty_queues(self, work: UnitOfWork) -> Looked:
        """Let tasks go whose queue is busy or that have little left, then fill empty queues."""
        period_s = self._limits.periods.filling_period_s
        last = await store.start_run(work.connection, "queue_filler", period_s)
        if last is None:
            return Looked()
        suffixes = {policy.LABEL_SUFFIX: policy.LABEL, f"{policy.LABEL_SUFFIX}_FC": f"{policy.LABEL}_FC"}
        limits = self._parameters.filled(policy.FillLimits, names=suffixes)
        grid = await self._grid.grid(work.connection)
        rows = await SQL.rows(work.connection, "use_of_production")
        use = {row["queue"]: policy.QueueUse(*tuple(row)[1:]) for row in rows}
        n_released = await self._release(work, grid, use, limits)
        at = self._round if self._round.turn == last.at else _Round(last.at)
        n_sent, goes_on = 0, None
        if limits.max_tasks > 0:
            n_sent, goes_on = await self._fill(work, grid, use, limits, at)
        work.after_commit(partial(self._go_on, goes_on or _Round()))
        if goes_on is not None:
            await store.give_back_turn(work.connection, "queue_filler", last.at)
        return Looked(goes_on is not None, n_released + n_sent, n_released + n_sent)

    def _go_on(self, found: _Round) -> None:
        self._round = found

    async def _release(
        self, work: UnitOfWork, grid: Grid, use: Mapping[str, policy.QueueUse], limits: policy.FillLimits
    ) -> int:
        """Let tasks go anywhere again."""
        await SQL.run(work.connection, "forget_released", hours=policy.LEFT_ALONE_H)
        rows = await SQL.rows(
            work.connection, "sent_tasks", files_ready=limits.files_ready, files_remaining=limits.files_remaining
        )
        by_place: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            by_place.setdefault((row["queue"], row["resource_type"]), []).append(row["task_id"])
        released = []
        for row in rows:
            queue, place = row["queue"], (row["queue"], row["resource_type"])
            reason = policy.why_busy(grid.queues.get(queue), use.get(queue, policy.QueueUse()))
            if reason is None and row["task_id"] in policy.surplus(by_place[place], limits.max_tasks):
                reason = f"more than {limits.max_tasks} tasks were sent to the queue"
            if reason is None and not row["has_work"]:
                reason = "it makes no jobs now, or has too few files left"
            if reason is not None:
                released.append(row["task_id"])
                self._ask(work, row["task_id"], "", queue, f"may go to any queue again: {reason}")
        await SQL.run(work.connection, "note_released", task_ids=released)
        return len(released)

    async def _fill(
        self,
        work: UnitOfWork,
        grid: Grid,
        use: Mapping[str, policy.QueueUse],
        limits: policy.FillLimits,
        at: _Round,
    ) -> tuple[int, _Round | None]:
        """Send the next tasks to queues that have been empty for long enough; how many, and where the round goes on."""
        places = await self._places(work, grid, use, limits, at)
        if not places:
            return 0, None
        rows = await SQL.rows(
            work.connection, "fillable_tasks", label=policy.LABEL, files_remaining=limits.files_remaining,
            priority=at.after[0], after_id=at.after[1], most=SLICE,
        )  # fmt: skip
        sent: dict[str, list[tuple[int, str]]] = {}
        missed: dict[int, str] = {}
        for task in map(dict, rows):
            place, miss = _chosen(places, grid, task)
            if place is None:
                missed[task["task_id"]] = miss.told
                continue
            name, kind = place.queue.name, task["resource_type"] or ""
            place.n_sent[kind] = place.n_sent.get(kind, 0) + 1
            sent.setdefault(name, []).append((task["task_id"], kind))
            self._ask(work, task["task_id"], name, "", policy.told(name, place.since))
        for name, tasks in sent.items():
            await SQL.run(
                work.connection, "note_sent", queue=name, task_ids=[task_id for task_id, _ in tasks],
                resource_types=[kind for _, kind in tasks],
            )  # fmt: skip
        chosen = [task_id for tasks in sent.values() for task_id, _ in tasks]
        await store.note_passed_over(work.connection, "queue_filler", missed, chosen)
        names = tuple(place.queue.name for place in places)
        if len(rows) >= SLICE:
            return len(chosen), _Round(at.turn, (rows[-1]["current_priority"], rows[-1]["task_id"]), names)
        await SQL.run(work.connection, "note_tried", queues=names)
        return len(chosen), None

    async def _places(
        self,
        work: UnitOfWork,
        grid: Grid,
        use: Mapping[str, policy.QueueUse],
        limits: policy.FillLimits,
        at: _Round,
    ) -> list[_Place]:
        """Find queues that have been empty for long enough, those that have been so for longest first.

        In the first slice of a round those for which tasks were looked at longest ago, and then the same.
        """
        nothing = policy.QueueUse()
        empty = [name for name, one in grid.queues.items() if policy.is_empty(one, use.get(name, nothing), work.now)]
        rows = await SQL.rows(work.connection, "note_empty", queues=sorted(empty))
        found = [row for row in rows if policy.is_ripe(row["empty_since"], use.get(row["queue"], nothing), work.now)]
        if at.queues:
            found = [row for row in found if row["queue"] in at.queues]
        found.sort(key=lambda row: (row["tried_at"] or _NEVER, row["empty_since"], row["queue"]))
        ripe = sorted((row["empty_since"], row["queue"]) for row in found[:QUEUES_AT_ONCE])
        counts: dict[str, dict[str, int]] = {}
        for row in await SQL.rows(work.connection, "sent_to_queues", queues=[name for _, name in ripe]):
            counts.setdefault(row["queue"], {})[row["resource_type"]] = row["n_tasks"]
        return [_place(grid, name, since, limits, counts.get(name, {})) for since, name in ripe]

    def _ask(self, work: UnitOfWork, task_id: int, site: str, was: str, reason: str) -> None:
        work.emit(TaskSiteRequested(task_id=task_id, site=site, was=was, reason=reason, requested_by=REQUESTED_BY))


def _chosen(places: Sequence[_Place], grid: Grid, task: Mapping[str, Any]) -> tuple[_Place | None, policy.Miss]:
    """The first place that takes a task; None: why the nearest one does not."""
    nearest = policy.Miss.LET_GO
    for place in () if task["was_sent"] else places:
        miss = place.misses(grid, task)
        if miss is None:
            return place, nearest
        nearest = max(nearest, miss)
    return None, nearest


def _place(grid: Grid, name: str, since: datetime, limits: policy.FillLimits, n_sent: dict[str, int]) -> _Place:
    queue = grid.queues[name]
    own = policy.runs_own_containers(queue, grid)
    return _Place(
        queue, since, frozenset(policy.disks_of(queue, grid)),
        limits.files_ready_in_container if own else limits.files_ready, limits.max_tasks, n_sent,
    )  # fmt: skip
