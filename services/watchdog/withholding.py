"""Production whose input is beside busy queues alone is withheld until they are not busy."""

from __future__ import annotations

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import withholding as policy
from services.watchdog.policy.rebrokerage import RUNNING, WAITING
from services.watchdog.store import due as store
from shared.brokerage.limits import JobLimits
from shared.config.parameter import SHARE
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot import KnownGrid


class Withholding:
    """Find tasks to withhold, share by share; nothing is read while no limit is set."""

    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters, self._grid, self._limits = parameters, grid, WatchLimits(parameters)

    async def watch_busy_sites(self, work: UnitOfWork) -> Looked:
        """Withhold a slice of the tasks whose input is beside busy queues alone.

        One that is withheld already is withheld for longer; else its time ends by itself.
        """
        limits = self._parameters.filled(policy.WithholdLimits, names={policy.LABEL_SUFFIX: policy.LABEL})
        period_s = self._limits.periods.withhold_period_s
        if await store.start_run(work.connection, "withheld", period_s) is None or not limits.is_on:
            return Looked()
        grid, n_withheld = await self._grid.grid(work.connection), 0
        counts: dict[str, list[policy.ShareAt]] = {}
        for row in await store.SQL.rows(work.connection, "use_of_shares", waiting=WAITING, running=RUNNING):
            one = policy.ShareAt(row["queue"], row["n_queued"], row["n_running"])
            counts.setdefault(row["gshare"], []).append(one)
        for gshare in sorted(counts):
            least = self._parameters.filled(JobLimits, names={SHARE: gshare}).queued_jobs_floor
            busy = policy.busy_queues(counts[gshare], least)
            closed = policy.closed_storages(grid, busy)
            if closed:
                n_withheld += await self._withhold(work, gshare, sorted(closed), limits, policy.told(limits, least))
        return Looked(False, n_withheld, n_withheld)

    async def _withhold(
        self, work: UnitOfWork, gshare: str, closed: list[str], limits: policy.WithholdLimits, reason: str
    ) -> int:
        await work.because(reason)
        rows = await store.SQL.rows(
            work.connection, "withhold_tasks", gshare=gshare, label=policy.LABEL, closed=closed,
            io_intensity=limits.io_intensity_kb_s, priority=limits.priority, minutes=policy.WITHHELD_MIN,
            reason=reason, allowed=store.THROTTLEABLE, most=store.MOST_TASKS,
        )  # fmt: skip
        return len(rows)
