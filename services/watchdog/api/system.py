"""What operators ask the watchdog: broken invariants, messages put aside, who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from pydantic import BaseModel, Field

from services.watchdog import diagnosing
from services.watchdog.acting import Actions
from services.watchdog.api.actions import add_actions
from services.watchdog.api.retention import add_retention
from services.watchdog.api.timeouts import add_timeouts
from services.watchdog.checking import CHECKS, INVARIANTS, TaskSlices, Violation, general_checks, run_checks, waiting
from services.watchdog.store.due import SQL
from shared.auth import Caller, access
from shared.auth.web import require
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.messaging import ledger
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute
from shared.web.values import Id, MaybeId, Page, Text

#: of one answer to who checks everything
MOST_SECONDS = 20.0

Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator"))]
Repairer = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]


class ReplayRequest(BaseModel):
    """Which parked messages go to their consumers again."""

    parked_ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class DropRequest(ReplayRequest):
    """Which parked messages are forgotten, and why."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


def web_application(database: Database, parameters: Parameters, actions: Callable[[], Actions]) -> FastAPI:
    """Routes under /api/v1; the runtime adds /livez, /readyz and /metrics."""
    web = FastAPI(title="Orrery watchdog")
    web.router.route_class = JsonRoute
    _add_check(web, database)
    _add_condition(web, database)
    _add_bus(web, database)
    _add_audit(web, database)
    add_retention(web, database, parameters)
    add_timeouts(web, database, parameters)
    add_actions(web, database, actions)
    return web


def _add_check(web: FastAPI, database: Database) -> None:
    @web.get("/api/v1/check")
    async def check(
        caller: Operator,
        task_id: Annotated[list[Id] | None, Query(description="only these tasks")] = None,
        after_task_id: Annotated[MaybeId, Query(description="go on: tasks above this")] = None,
    ) -> Envelope:
        """Run the invariants; `data.violations` names each row that breaks one.

        Tasks are checked in slices, by id, for 20 s; `data.after_task_id` says where to go on, null that all were.
        """
        after: int | None = None
        async with database.read() as connection:
            if task_id is not None:
                found = await run_checks(connection, task_id)
            else:
                slices = TaskSlices(after_task_id or 0)
                found = [] if after_task_id else await general_checks(connection)
                found += [] if after_task_id else await waiting.check_waiting(connection)
                found += await slices.run(connection, MOST_SECONDS)
                after = None if slices.is_over else slices.after
        message = "no invariant is broken" if not found else f"{len(found)} rows break an invariant"
        return Envelope({**_report(found), "after_task_id": after}, message)


def _report(found: list[Violation]) -> dict[str, Any]:
    """One line for each invariant, with its checks, and each offending row."""
    broken = Counter(violation.invariant for violation in found)
    invariants = [
        {
            "invariant": name,
            "meaning": meaning,
            "ok": not broken[name],
            "n_violations": broken[name],
            "checks": [
                *({"check": one.name, "title": one.title} for one in CHECKS if one.invariant == name),
                *({"check": waiting.NAME, "title": waiting.TITLE} for _ in range(name == waiting.INVARIANT)),
            ],
        }
        for name, meaning in {**INVARIANTS, waiting.INVARIANT: waiting.MEANING}.items()
    ]
    return {"invariants": invariants, "violations": [{**asdict(one), "text": str(one)} for one in found]}


def _add_condition(web: FastAPI, database: Database) -> None:
    @web.get("/api/v1/condition")
    async def condition(caller: Operator) -> Envelope:
        """Which services run, what is stuck, what is slow, what is large; `data.findings` names what is wrong."""
        async with database.read() as connection:
            found = await diagnosing.condition(connection)
        n_findings = len(found["findings"])
        return Envelope(found, f"{n_findings} things are not as usual" if n_findings else "all is as usual")


def _add_bus(web: FastAPI, database: Database) -> None:
    @web.get("/api/v1/bus/parked")
    async def parked(caller: Operator, limit: Annotated[int, Page(1000)] = 100) -> Envelope:
        """Messages that could not be handled, with the reason, newest first."""
        async with database.read() as connection:
            found = await ledger.parked(connection, limit)
        return Envelope([asdict(message) for message in found])

    @web.post("/api/v1/bus/replay")
    async def replay(caller: Repairer, request: ReplayRequest) -> Envelope:
        """Send parked messages to their consumers again."""
        wanted = sorted(set(request.parked_ids))
        async with database.begin(reason=f"parked messages replayed by {caller.name}") as work:
            sent = sorted(await ledger.replay(work.connection, wanted, by=caller.name))
            await SQL.run(
                work.connection,
                "record_audit",
                caller=caller.name,
                roles=sorted(caller.roles),
                verb="bus replay",
                target="bus",
                outcome="accepted" if sent else "refused",
                details={"parked_ids": wanted, "replayed": sent},
            )
        missing = sorted(set(wanted) - set(sent))
        refused = f"not parked, already replayed or without an event: {', '.join(map(str, missing))}" if missing else ""
        return Envelope({"replayed": sent, "not_replayed": missing}, refused, success=not missing)

    @web.post("/api/v1/bus/drop")
    async def drop(caller: Repairer, request: DropRequest) -> Envelope:
        """Forget parked messages; the audit log keeps what they were and why."""
        wanted = sorted(set(request.parked_ids))
        async with database.begin(reason=f"parked messages dropped by {caller.name}") as work:
            gone = await ledger.drop(work.connection, wanted)
            dropped = [one["parked_id"] for one in gone]
            await SQL.run(
                work.connection,
                "record_audit",
                caller=caller.name,
                roles=sorted(caller.roles),
                verb="bus drop",
                target="bus",
                outcome="accepted" if gone else "refused",
                details={"parked_ids": wanted, "dropped": gone, "reason": request.reason},
            )
        missing = sorted(set(wanted) - set(dropped))
        refused = f"not parked, or already replayed: {', '.join(map(str, missing))}" if missing else ""
        return Envelope({"dropped": dropped, "not_dropped": missing}, refused, success=not missing)


def _add_audit(web: FastAPI, database: Database) -> None:
    @web.get("/api/v1/audit")
    async def audit(
        caller: Operator,
        target: Annotated[Text, Query(description='as recorded, e.g. "task 17"')] = None,
        before_id: Annotated[MaybeId, Query(description="page on: ids below this")] = None,
        limit: Annotated[int, Page(1000)] = 100,
    ) -> Envelope:
        """Commands and who gave them, newest first."""
        async with database.read() as connection:
            rows = await SQL.rows(connection, "audit", target=target, before_id=before_id, most=limit)
            found = [dict(row) for row in rows]
        return Envelope(found)
