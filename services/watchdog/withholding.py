"""Production whose input is beside busy queues alone is withheld until they are not busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import withholding as policy
from services.watchdog.policy.rebrokerage import RUNNING, WAITING
from services.watchdog.store import due as store
from shared.brokerage.limits import JobLimits
from shared.config.parameter import SHARE
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model.grid import Grid
from shared.model.whole_numbers import LARGEST_INT4
from shared.snapshot import KnownGrid

#: tasks that one slice looks at
SLICE = 500
#: before the first task of a share
_BEFORE_ALL = (-LARGEST_INT4 - 1, 0)


@dataclass(frozen=True)
class _Round:
    """Where a turn is: of which turn, in which share, after which priority and task."""

    turn: datetime | None = None
    gshare: str = ""
    after: tuple[int, int] = _BEFORE_ALL


@dataclass(frozen=True)
class _Looked:
    """The last task that was looked at (None: there was none), how many were, and how many are withheld."""

    last: tuple[int, int] | None = None
    n_looked: int = 0
    n_withheld: int = 0


class Withholding:
    """Find tasks to withhold, share by share; nothing is read while no limit is set.

    What it remembers is where its round is: all tasks are looked at in each turn, a slice at a time.
    """

    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters, self._grid, self._limits = parameters, grid, WatchLimits(parameters)
        self._round = _Round()

    async def watch_busy_sites(self, work: UnitOfWork) -> Looked:
        """Withhold a slice of the tasks whose input is beside busy queues alone.

        Those that name such queues alone are, too. One that is withheld already is withheld for longer; else its time
        ends by itself.
        """
        limits = self._parameters.filled(policy.WithholdLimits, names={policy.LABEL_SUFFIX: policy.LABEL})
        last = await store.start_run(work.connection, "withheld", self._limits.periods.withhold_period_s)
        if last is None or not limits.is_on:
            return Looked()
        grid, counts = await self._grid.grid(work.connection), await _use_of_shares(work)
        at = self._round if self._round.turn == last.at else _Round()
        n_looked = n_withheld = 0
        goes_on = _Round()
        for gshare in sorted(one for one in counts if one >= at.gshare):
            after = at.after if gshare == at.gshare else _BEFORE_ALL
            found = await self._withhold(work, grid, gshare, counts[gshare], limits, after, SLICE - n_looked)
            if found.last is None:
                continue
            n_looked, n_withheld = n_looked + found.n_looked, n_withheld + found.n_withheld
            if n_looked >= SLICE:
                goes_on = _Round(last.at, gshare, found.last)
                break
        work.after_commit(partial(self._go_on, goes_on))
        if n_looked >= SLICE:
            await store.give_back_turn(work.connection, "withheld", last.at)
        return Looked(n_looked >= SLICE, n_looked, n_withheld)

    def _go_on(self, found: _Round) -> None:
        self._round = found

    async def _withhold(
        self,
        work: UnitOfWork,
        grid: Grid,
        gshare: str,
        counts: Sequence[policy.ShareAt],
        limits: policy.WithholdLimits,
        after: tuple[int, int],
        most: int,
    ) -> _Looked:
        """Look at the next tasks of a share, unless nothing is closed to it."""
        least = self._parameters.filled(JobLimits, names={SHARE: gshare}).queued_jobs_floor
        busy = policy.busy_queues(counts, least)
        closed = policy.closed_storages(grid, busy)
        if not busy and not closed:
            return _Looked()
        tasks = await store.SQL.rows(
            work.connection, "withholdable_tasks", gshare=gshare, label=policy.LABEL, priority=limits.priority,
            io_intensity=limits.io_intensity_kb_s, after_priority=after[0], after_id=after[1], most=most,
            closed=sorted(closed),
        )  # fmt: skip
        if not tasks:
            return _Looked()
        names_closed = {
            one: policy.names_closed_queues(grid, busy, one) for one in {row["site"] for row in tasks} if one
        }
        named = [row["task_id"] for row in tasks if names_closed.get(row["site"])]
        chosen = sorted({*named, *(row["task_id"] for row in tasks if row["is_closed"])})
        others = [row["task_id"] for row in tasks if row["task_id"] not in chosen]
        reason = policy.told(limits, least)
        await work.because(reason)
        n_withheld = await store.SQL.run(
            work.connection, "withhold_tasks", task_ids=chosen, named=named, minutes=policy.WITHHELD_MIN,
            reason=reason, reason_of_named=policy.told_of_named(least), allowed=store.THROTTLEABLE,
        )  # fmt: skip
        await store.note_passed_over(work.connection, "withheld", dict.fromkeys(others, policy.NOT_WITHHELD), chosen)
        return _Looked((tasks[-1]["priority"], tasks[-1]["task_id"]), len(tasks), n_withheld)


async def _use_of_shares(work: UnitOfWork) -> dict[str, list[policy.ShareAt]]:
    """Waiting and running jobs of each share, by queue."""
    counts: dict[str, list[policy.ShareAt]] = {}
    for row in await store.SQL.rows(work.connection, "use_of_shares", waiting=WAITING, running=RUNNING):
        counts.setdefault(row["gshare"], []).append(policy.ShareAt(row["queue"], row["n_queued"], row["n_running"]))
    return counts
