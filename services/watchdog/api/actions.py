"""/api/v1/watchdog: what the watchdog does every so often, and doing it now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from services.watchdog.acting import Actions
from services.watchdog.store.acting import SQL
from services.watchdog.store.due import SQL as AUDIT
from shared.auth import Caller, access
from shared.auth.web import require
from shared.db.database import Database
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute, add_routes

Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator"))]
Changer = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]


class RunRequest(BaseModel):
    """Which action is run now; `dry_run`: nothing is changed, only told."""

    model_config = ConfigDict(extra="forbid")
    action: Annotated[str, Field(min_length=1, max_length=100)]
    dry_run: bool = False


def add_actions(web: FastAPI, database: Database, made: Callable[[], Actions]) -> None:
    """Add the routes; each run has actions of its own, which know nothing of the turns of others."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/watchdog", tags=["watchdog"])
    routes = ActionRoutes(database, made)
    router.get("/list")(routes.list_all)
    router.post("/run")(routes.run)
    add_routes(web, router)


class ActionRoutes:
    """One method for each path."""

    def __init__(self, database: Database, made: Callable[[], Actions]) -> None:
        self._database, self._made = database, made

    async def list_all(self, caller: Operator) -> Response:
        """Tell each action, or partition of one: its period, its last turn, and what it did last."""
        async with self._database.read() as connection:
            turns = {row["watch"]: dict(row) for row in await SQL.rows(connection, "turns")}
        actions, none = self._made(), dict[str, Any]()
        told = []
        for part in (part for action in actions.declared.values() for part in action.parts()):
            action = part.action
            turn, period_s = turns.get(part.watch, none), actions.period_s(action)
            since_s = turn.get("since_s")
            done = turn.get("last_done") or {}
            told.append(
                {
                    "action": action.name,
                    "partition": part.partition,
                    "does": action.does,
                    "period_s": period_s,
                    "last_run_at": turn.get("last_run_at"),
                    "late_s": None if since_s is None else max(0.0, since_s - period_s),
                    "suspended_until": turn.get("grace_until"),
                    "suspended_because": turn.get("grace_reason"),
                    "last_done_at": turn.get("last_done_at"),
                    "n_done": done.get("n_done", 0),
                    "did": done.get("did", []),
                }
            )
        return Envelope(told)

    async def run(self, caller: Changer, request: RunRequest) -> Response:
        """Run an action now, whatever its period is; `data.did` says of which jobs, tasks and chunks it told."""
        actions = self._made()
        if request.action not in actions.declared:
            allowed = ", ".join(sorted(actions.declared))
            return refused(BAD_REQUEST, problems=[problem("action", request.action, f"allowed: {allowed}")])
        report = await actions.run_now(
            self._database, request.action, reason=f"watchdog run by {caller.name}", dry_run=request.dry_run
        )
        if not request.dry_run:
            async with self._database.begin(reason=f"watchdog run by {caller.name}") as work:
                await AUDIT.run(
                    work.connection,
                    "record_audit",
                    caller=caller.name,
                    roles=sorted(caller.roles),
                    verb="watchdog run",
                    target=f"watchdog {request.action}",
                    outcome="accepted",
                    details={"n_found": report.n_found, "n_done": report.n_done},
                )
        did = f"would have done {report.n_would_do}" if request.dry_run else f"did {report.n_done}"
        rest = "; more is left" if report.more else ""
        return Envelope(asdict(report), f"{report.action} found {report.n_found} and {did}{rest}")
