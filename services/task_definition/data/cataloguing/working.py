"""Takes requests that are due, carries them out, and applies the result by compare-and-set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from services.task_definition.data.policy.outside import wait_s
from services.task_definition.data.store.catalogue_requests import SQL
from services.task_definition.data.wishing import Wishes
from shared.catalogue.outside import CatalogueTrouble, OutsideCatalogue
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork

log = logging.getLogger(__name__)
#: requests that one worker has at once, and how long it may take for one before others may take it
AT_ONCE, LEASE_S = 8, 1800.0
LOOK_EVERY_S = 1.0
FORGET_AFTER_S, FORGET_AT_ONCE = 7 * 86400.0, 10_000


@dataclass(frozen=True)
class CatalogueRequest:
    """A request that this worker has; `attempts` counts from 1."""

    request_id: int
    vo: str
    task_id: int
    kind: str
    subject: str
    details: Mapping[str, Any]
    status: Literal["open", "moving"]
    attempts: int
    claim: int
    rule_id: str | None
    created_at: datetime


#: what is done in the transaction that says a request is done
Apply = Callable[[UnitOfWork], Awaitable[None]]


@dataclass(frozen=True)
class Done:
    """It was carried out, or is not wanted any more; `is_lost`: it will never be."""

    apply: Apply | None = None
    rule_id: str | None = None
    is_lost: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Later:
    """A rule was made and is looked at again after so long, or sooner if something is said of it."""

    wait_s: float
    rule_id: str | None = None
    reason: str | None = None
    apply: Apply | None = None


CarryOut = Callable[[CatalogueRequest, OutsideCatalogue], Awaitable[Done | Later]]
#: tells a task that waits for its input that it cannot be read now, and why
Hold = Callable[[UnitOfWork, int, str], Awaitable[None]]


class RequestWorker:
    """One for each process; workers of several processes share the requests."""

    def __init__(
        self,
        database: Database,
        catalogues: Mapping[str, OutsideCatalogue],
        wishes: Wishes,
        carry_out: Mapping[str, CarryOut],
        hold: Hold,
        lease_s: float = LEASE_S,
    ) -> None:
        self._database, self._catalogues, self._wishes = database, catalogues, wishes
        self._carry_out, self._hold, self._lease_s = carry_out, hold, lease_s

    async def run(self) -> None:
        """Until it is cancelled: as soon as something is written, and every second."""
        running = set[asyncio.Task[None]]()
        try:
            while True:
                self._wishes.written.clear()
                taken = await self._take(AT_ONCE - len(running))
                running |= {asyncio.create_task(self.work_on(one)) for one in taken}
                wakes = asyncio.create_task(self._wishes.written.wait())
                waits = {wakes, *running}
                await asyncio.wait(waits, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                wakes.cancel()
                running = {one for one in running if not one.done()}
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def work_off(self) -> int:
        """Carry out what is due now, one after another; how many there were."""
        taken = await self._take(AT_ONCE)
        for one in taken:
            await self.work_on(one)
        return len(taken)

    async def _take(self, at_most: int) -> list[CatalogueRequest]:
        if at_most <= 0:
            return []
        async with self._database.begin(reason="catalogue requests taken") as work:
            rows = await SQL.rows(
                work.connection, "claim_requests", vos=sorted(self._catalogues), lease_s=self._lease_s, at_most=at_most
            )
        return sorted((CatalogueRequest(**dict(row)) for row in rows), key=lambda one: one.request_id)

    async def work_on(self, request: CatalogueRequest) -> None:
        """One request: whatever happens, it ends or is put off with a reason."""
        try:
            async with asyncio.timeout(self._lease_s * 0.9):
                outcome = await self._carry_out[request.kind](request, self._catalogues[request.vo])
            await self._settle(request, outcome)
        except CatalogueTrouble as trouble:
            await self._put_off(request, str(trouble))
        except TimeoutError:
            await self._put_off(request, "the catalogue took too long")
        except Exception as error:
            log.exception("catalogue request %s (%s) failed", request.request_id, request.kind)
            await self._put_off(request, f"{type(error).__name__}: {error}")

    async def _settle(self, request: CatalogueRequest, outcome: Done | Later) -> None:
        async with self._database.begin(reason=f"catalogue: {request.kind}") as work:
            same: dict[str, Any] = {"request_id": request.request_id, "claim": request.claim, "reason": outcome.reason}
            if isinstance(outcome, Done):
                status = "failed" if outcome.is_lost else "done"
                mine = await SQL.value(work.connection, "end_request", status=status, rule_id=outcome.rule_id, **same)
            else:
                mine = await SQL.value(
                    work.connection,
                    "put_off_request",
                    status="moving",
                    rule_id=outcome.rule_id,
                    attempts=0,
                    wait_s=outcome.wait_s,
                    **same,
                )
            if mine is not None and outcome.apply is not None:
                await outcome.apply(work)
        self._wishes.written.set()  # those behind it may go on

    async def _put_off(self, request: CatalogueRequest, reason: str) -> None:
        log.warning("catalogue of %s: %s %s: %s", request.vo, request.kind, request.subject, reason)
        async with self._database.begin(reason=f"catalogue: {reason}") as work:
            mine = await SQL.value(
                work.connection,
                "put_off_request",
                request_id=request.request_id,
                claim=request.claim,
                status=request.status,
                reason=reason,
                rule_id=None,
                attempts=request.attempts,
                wait_s=wait_s(request.attempts),
            )
            if mine is None or request.kind != "read":
                return
            for row in await SQL.rows(work.connection, "readers", vo=request.vo, subject=request.subject):
                await self._hold(work, row["task_id"], reason)

    async def forget(self, work: UnitOfWork) -> bool:
        """Periodic: delete what ended long ago, in slices."""
        n = await SQL.run(work.connection, "forget_requests", older_than_s=FORGET_AFTER_S, at_most=FORGET_AT_ONCE)
        return n == FORGET_AT_ONCE
