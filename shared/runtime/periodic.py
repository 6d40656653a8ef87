"""Runs periodic work: each piece in one transaction, by the one replica that holds its lease."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from enum import StrEnum

from shared.db import lease
from shared.db.database import Database, is_retryable
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.service import Periodic

log = logging.getLogger(__name__)

#: however rarely the work is done: a holder that was stopped is succeeded after so long
LEASE_S = 10.0
RENEW_EVERY_S = 3.0
FIRST_RUN_WITHIN_S = 2.0
LONGEST_RETRY_S = 30.0
#: between two slices, however long the one before waited
LONGEST_REST_S = 2.0


class RunOutcome(StrEnum):
    """What became of one run; MORE: it left a part of its work, LOST: another replica has the lease."""

    DONE = "done"
    MORE = "more"
    LOST = "lost"
    FAILED = "failed"


class PeriodicRunner:
    """One loop per piece of work.

    `lease_scope` goes before the lease's name: the service, or one name for all.
    """

    def __init__(
        self, database: Database, metrics: RuntimeMetrics, *, service: str, holder: str, jitter: random.Random
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._service = service
        self._holder = holder
        self._jitter = jitter
        self._held: dict[tuple[str, str], lease.Lease] = {}
        self._stopping = asyncio.Event()

    async def run(self, periodic: Periodic, *, lease_name: str | None = None) -> None:
        """Until `stop`: the first run soon, then every `every_s`."""
        name = lease_name or f"{self._service}.{periodic.name}"
        delay_s = self._jitter.uniform(0.0, min(FIRST_RUN_WITHIN_S, periodic.every_s))
        failures = 0
        while not await self._stopped_within(delay_s):
            started = time.monotonic()
            outcome = await self.run_once(periodic, name)
            if outcome is RunOutcome.MORE:
                failures = 0
                delay_s = min(LONGEST_REST_S, periodic.rest * (time.monotonic() - started))
            elif outcome is RunOutcome.DONE:
                failures = 0
                delay_s = max(0.0, periodic.every_s - (time.monotonic() - started))
            else:
                failures += 1
                delay_s = min(periodic.every_s, 0.5 * 2.0**failures, LONGEST_RETRY_S)

    async def run_once(self, periodic: Periodic, lease_name: str) -> RunOutcome:
        """Take the lease if there is one to take, and do the work if it is ours."""
        held = None
        outcome = RunOutcome.FAILED
        started = time.monotonic()
        try:
            if periodic.lease:
                held = await self._take(lease_name, periodic.partition)
                if held is None:
                    return RunOutcome.DONE
            async with self._database.begin(reason=f"periodic {periodic.name}") as work:
                if held is not None:
                    await held.fence(work.connection)
                more = await periodic.run(work)
            outcome = RunOutcome.MORE if more else RunOutcome.DONE
        except lease.LeaseLost as error:
            log.warning("%s", error)
            outcome = RunOutcome.LOST
        except Exception as error:
            if is_retryable(error):
                log.warning("periodic %s: %s: %s", periodic.name, type(error).__name__, error)
            else:
                log.exception("periodic %s failed", periodic.name)
        self._metrics.periodic_runs.labels(self._service, periodic.name, outcome).inc()
        self._metrics.periodic_seconds.labels(self._service, periodic.name).observe(time.monotonic() - started)
        return outcome

    async def keep_leases(self) -> None:
        """Until `stop`: prolong what is held between two runs of the work."""
        while not await self._stopped_within(RENEW_EVERY_S):
            if not self._held:
                continue
            try:
                names = sorted({name for name, _ in self._held})
                await lease.renew(self._database, names, holder=self._holder, duration_s=LEASE_S)
            except Exception as error:
                if not is_retryable(error):
                    raise
                log.warning("leases could not be prolonged: %s", error)

    async def stop(self) -> None:
        """Begin no further run and give the leases back."""
        self._stopping.set()
        for held in self._held.values():
            try:
                await lease.release(self._database, held)
            except Exception as error:
                log.debug("lease %s runs out by itself: %s", held.name, error)
        self._held.clear()

    def request_stop(self) -> None:
        """Begin no further run."""
        self._stopping.set()

    async def _take(self, name: str, partition: str) -> lease.Lease | None:
        held = await lease.take(self._database, name, holder=self._holder, duration_s=LEASE_S, partition=partition)
        label = f"{name}/{partition}" if partition else name
        self._metrics.lease_held.labels(label).set(0 if held is None else 1)
        if held is None:
            self._held.pop((name, partition), None)
        else:
            self._held[name, partition] = held
        return held

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True
