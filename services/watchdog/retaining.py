"""Drops what is older than its rule of retention says: the rules in turn, a slice in each transaction."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from datetime import date, timedelta

import asyncpg
from prometheus_client import CollectorRegistry, Counter, Gauge

from services.watchdog.acting import SLICE_S, Looked
from services.watchdog.parameters import Periods
from services.watchdog.policy.retention import BYTES_OF_GB, RULES, Order, Rule, is_nearly_full, kept
from services.watchdog.store import retention as store
from services.watchdog.store.retention import Slice
from shared.config.parameters import Parameters
from shared.db import partitions
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork

log = logging.getLogger(__name__)

#: of one slice; one that took longer is followed by smaller ones
MOST_ROWS, FEWEST_ROWS = 500, 20
#: between two slices, times as long as the one before took
REST_OF_RETENTION = 4.0
TABLES_BY_DAY = {table.name: table for table in partitions.DAILY_TABLES}


@dataclass
class RetentionMetrics:
    """What rules have, may have and dropped."""

    n_bytes: Gauge
    most_bytes: Gauge
    dropped: Counter

    @classmethod
    def of(cls, registry: CollectorRegistry) -> RetentionMetrics:
        """Register them."""
        return cls(
            Gauge("orrery_retention_bytes", "Size of the tables of a rule of retention", ["rule"], registry=registry),
            Gauge("orrery_retention_most_bytes", "Size that they may have; 0: any", ["rule"], registry=registry),
            Counter("orrery_retention_dropped", "Rows, or days, that a rule dropped", ["rule"], registry=registry),
        )


class Retaining:
    """A round looks at every rule; one that has more to drop comes again after the others."""

    def __init__(self, parameters: Parameters, metrics: RetentionMetrics) -> None:
        self._parameters = parameters
        self._metrics = metrics
        self._due: deque[Rule] = deque()
        self._most: dict[str, int] = {}

    async def drop_old(self, work: UnitOfWork) -> Looked:
        """Drop one slice of the next rule that has something to drop.

        A rule that fails is left to the next round.
        """
        began = work.clock()
        if not self._due:
            period_s = self._parameters.filled(Periods).retention_period_s
            if await take_turn(work.connection, "retention", period_s) is None:
                return Looked()
            await self._measure(work.connection)
            self._due.extend(RULES)
            return Looked(more=True)
        done = Slice(0, more=False)
        while self._due and not (done.n_rows or done.locks) and work.clock() - began < SLICE_S:
            done = await self._drop_next(work)
        return Looked(bool(self._due), done.n_rows, done.n_rows)

    async def _drop_next(self, work: UnitOfWork) -> Slice:
        """Drop one slice of the next rule."""
        rule = self._due.popleft()
        started, most = work.clock(), self._most.get(rule.name, MOST_ROWS)
        done = await self._slice(work, rule, most)
        is_slow = work.clock() - started > SLICE_S
        self._most[rule.name] = max(most // 2, FEWEST_ROWS) if is_slow else min(most * 2, MOST_ROWS)
        work.after_commit(lambda: self._metrics.dropped.labels(rule.name).inc(done.n_rows))
        if done.more:
            self._due.append(rule)
        return done

    async def _slice(self, work: UnitOfWork, rule: Rule, most: int) -> Slice:
        days = kept(rule, self._parameters.read).days
        if days is None:
            return Slice(0, more=False)
        before = work.now - timedelta(days=days)
        match rule.order:
            case Order.DAYS:
                return await self._drop_days(work, rule, before.date(), most)
            case Order.TIMES:
                return await store.slice_by_time(work, rule, before, most)
            case Order.JOBS:
                return await store.slice_by_jobs(work, rule, before.date(), most)
            case Order.TASKS:
                return await store.slice_by_tasks(work, rule, before, most)
            case Order.WHOLE_TASKS:
                return await store.slice_of_whole_tasks(work, rule, before, most)
            case Order.WALK:
                return await store.slice_of_walk(work, rule, before, most)

    async def _drop_days(self, work: UnitOfWork, rule: Rule, first_kept: date, most: int) -> Slice:
        """Empty partitions that are too old, then drop them; one whose lock is not to be had stays for now."""
        table, connection = TABLES_BY_DAY[rule.name], work.connection
        days = await partitions.days_of(connection, table)
        if rule.name == "jobs_archive":
            first_kept = await store.first_day_in_use(connection, first_kept)
        n_outside = await partitions.drop_outside(connection, table, first_kept, most)
        if n_outside:
            return Slice(n_outside, more=True)
        old = [day for day in days if day < first_kept]
        try:
            async with connection.transaction():
                is_dropped = bool(old) and await partitions.empty_or_drop(connection, table, old)
        except asyncpg.LockNotAvailableError:
            log.info("partitions of %s are being read: they are dropped later", table.name)
            return Slice(0, more=False, locks=True)
        if rule.name == "jobs_archive" and (is_dropped or not old):
            until = old[0] + timedelta(days=1) if old else first_kept
            await store.SQL.run(connection, "forget_archive_days", before=until)
        if is_dropped:
            await store.move(connection, rule, store.Position(store.midnight(old[0])), 1)
        return Slice(int(is_dropped), more=bool(old), locks=bool(old))

    async def _measure(self, connection: asyncpg.Connection) -> None:
        for name, n_bytes in (await store.measure(connection)).items():
            rule = next(one for one in RULES if one.name == name)
            most_gb = self._parameters.read(rule.most_gb)
            self._metrics.n_bytes.labels(name).set(n_bytes)
            self._metrics.most_bytes.labels(name).set(most_gb * BYTES_OF_GB)
            if is_nearly_full(n_bytes, most_gb):
                log.warning("%s has %.1f GB of the %d GB that it may have", name, n_bytes / BYTES_OF_GB, most_gb)
