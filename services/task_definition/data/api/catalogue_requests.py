"""/api/v1/catalogue: what is wanted of catalogues outside, and what they say by themselves.

Members of a VO see its requests; messages about rules are taken from the role production.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.data.policy.outside import request_line
from services.task_definition.data.store.catalogue_requests import SQL
from services.task_definition.data.wishing import Wishes
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.catalogue.messages import rule_of_message
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page, Text

Anyone = Annotated[Caller, Depends(require(access.MEMBERS))]
Producer = Annotated[Caller, Depends(require(access.PRODUCTION, "production", right="modify"))]
MESSAGES_AT_MOST, PROBLEMS_AT_MOST = 10_000, 20
Messages = Annotated[dict[str, Any] | list[dict[str, Any]], Body()]


def _problems(messages: Sequence[Mapping[str, Any]]) -> list[FieldProblem]:
    """What is no message of Rucio's daemon; of many the first."""
    if not 1 <= len(messages) <= MESSAGES_AT_MOST:
        return [FieldProblem("messages", str(len(messages)), f"allowed: 1 to {MESSAGES_AT_MOST} at once")]
    found = []
    for index, one in enumerate(messages):
        if not isinstance(one.get("event_type"), str):
            found.append(FieldProblem(f"{index}.event_type", "", "allowed: a text, as rule_ok"))
        if not isinstance(one.get("payload"), Mapping):
            found.append(FieldProblem(f"{index}.payload", "", "allowed: an object, with rule_id where it is of a rule"))
    return found[:PROBLEMS_AT_MOST]


def request_routes(database: Database, wishes: Wishes) -> APIRouter:
    """Requests, and messages."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/catalogue", tags=["catalogue"])

    @router.get("/requests")
    async def requests(
        caller: Anyone, vo: Text = None, limit: Annotated[int, Page(1000, 100), Query()] = 100
    ) -> Response:
        """What is wanted of catalogues outside and not done yet, the oldest first, with why."""
        vos = [one for one in ([vo] if vo else wishes.vos) if access.MEMBERS.allows(caller, Whose(vo=one))]
        async with database.read() as connection:
            rows = await SQL.rows(connection, "open_requests", vos=vos, at_most=limit)
        return Envelope([{**row, "text": request_line(row)} for row in map(dict, rows)])

    @router.post("/messages")
    async def messages(caller: Producer, content: Messages) -> Response:
        """Messages of a catalogue about its rules: the rules are looked at now, whatever is said of them."""
        given = content if isinstance(content, list) else [content]
        problems = _problems(given)
        if problems:
            return refused(BAD_REQUEST, f"{len(problems)} problems: {problems[0]}", problems)
        rules = sorted({rule for one in given if (rule := rule_of_message(one)) is not None})
        vos = [vo for vo in wishes.vos if access.PRODUCTION.allows(caller, Whose(vo=vo))]
        async with database.begin(reason=f"rules told of by {caller.name}") as work:
            n_waited_for = await wishes.look_sooner(work, rules, vos)
        told: Mapping[str, int] = {"messages": len(given), "rules": len(rules), "waited_for": n_waited_for}
        return Envelope(told, f"{n_waited_for} rules are looked at now")

    return router
