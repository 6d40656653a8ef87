"""Compares statistics of queues with table jobs, some queues in each transaction, and corrects them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.job_brokerage.policy.folding import Change, Drift, StatisticsKey, confirmed_drift, seen_again
from services.job_brokerage.store.statistics import SQL, QueueStatistics
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot.live_queues import MOST_JOBS, QueueWalk

log = logging.getLogger(__name__)

AUDIT, AUDIT_EVERY_S = "queue_statistics_audit", 180.0
# Corrected rows that a warning names.
MOST_TOLD = 10
# Longer ago than this, a period was left out.
AUDIT_VALID_S = 1.5 * AUDIT_EVERY_S


class Auditing:
    """Compare some queues with the jobs in each slice, on one replica at a time.

    What it remembers are the differences of the last round and of this one so far.
    """

    def __init__(self, statistics: QueueStatistics, metrics: CollectorRegistry, *, most_jobs: int = MOST_JOBS) -> None:
        self._statistics = statistics
        self._walk = QueueWalk(most_jobs=most_jobs)
        self._before: Mapping[StatisticsKey, Drift] = {}
        self._found: Mapping[StatisticsKey, Drift] = {}
        self._audited_at: datetime | None = None
        self._drift = Gauge(
            "orrery_queue_statistics_drift_jobs",
            "Jobs by which the statistics differ from table jobs",
            registry=metrics,
        )
        self._corrected = Counter(
            "orrery_queue_statistics_corrected_jobs", "Jobs by which audits corrected the statistics", registry=metrics
        )

    async def audit(self, work: UnitOfWork) -> bool:
        """Compare the next queues with table jobs; correct what rounds found again and again.

        Whether queues are left of this round. The difference is exported after each.
        """
        goes_on = await self._goes_on(work)
        before, earlier = (self._before, self._found) if goes_on else ({}, {})
        next_ = await self._walk.next(work, anew=not goes_on)
        rows = await SQL.rows(work.connection, "drift", queues=next_.queues)
        now = seen_again(before, {_key(row): _drift(row) for row in rows})
        confirmed = confirmed_drift(before, now)
        await self._statistics.add(work, confirmed)
        self._statistics.mark(change.key[0] for change in confirmed)
        done = {change.key for change in confirmed}
        found = {**earlier, **{key: one for key, one in now.items() if key not in done}}
        work.after_commit(partial(self._keep, before, found, work.now, confirmed, next_.more))
        return next_.more

    async def _goes_on(self, work: UnitOfWork) -> bool:
        """Whether this replica did the slice before this one, and a period ago at most.

        Two differences that happen to be alike, far apart, may be two events on their way.
        """
        turn = await take_turn(work.connection, AUDIT, 0.0)
        last_at = turn.previous_at if turn else None
        is_ours = last_at is not None and last_at == self._audited_at
        return is_ours and last_at is not None and work.now - last_at <= timedelta(seconds=AUDIT_VALID_S)

    def _keep(
        self,
        before: Mapping[StatisticsKey, Drift],
        found: Mapping[StatisticsKey, Drift],
        now: datetime,
        confirmed: Sequence[Change],
        more: bool,
    ) -> None:
        """Remember what was found, once the transaction is committed."""
        self._audited_at = now
        self._before, self._found = (before, found) if more else (found, {})
        if not more:
            self._drift.set(sum(abs(one.n_jobs) for one in found.values()))
        self._corrected.inc(sum(abs(change.n_jobs) for change in confirmed))
        if confirmed:
            log.warning(
                "queue statistics: %d rows differed from table jobs in audit after audit and were corrected: %s",
                len(confirmed),
                "; ".join(f"{'/'.join(one.key)} {one.n_jobs:+d} jobs" for one in confirmed[:MOST_TOLD]),
            )


def _key(row: Any) -> StatisticsKey:
    return row["queue"], row["resource_type"], row["gshare"], row["user_name"], row["status"], row["vo"]


def _drift(row: Any) -> Drift:
    return Drift(row["n_jobs"], row["n_cores"], row["version"])
