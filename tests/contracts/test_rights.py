"""Every endpoint says who may call it, and whoever changes something needs a right that a token can lack."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.addresses import SERVICES
from shared.auth import RIGHTS
from shared.runtime.service import Context
from tests.routes import asked_for, routes_of

#: open to anybody, with the reason
FOR_ANYBODY = {
    "/cache/schedconfig/{file:str}": "queue data, which pilots read before they have a token",
    "/cache/schedconfig.json": "the same for all queues",
    "/cache/ddmendpoints.json": "storages, likewise",
    "/cache/{name:sandbox}": "it looks at its caller itself (rule SOURCES): without a token nothing is there",
    "/signed/{permission}/cache/{name:sandbox}": "payloads have a permission in their source URL, and no token",
    "/auth/{vo}_auth_config.json": "where to log in is asked by who has no token yet",
    "/api/v1/system/is_alive": "clients ask whether somebody is there",
    "/server/panda/get_access_token": "it looks at its caller itself: a key, no token",
    "/api/v1/creds/get_access_token": "likewise",
}
#: pages ask the API with the token of whoever signed in, and the API says who may; forms carry a token of their own
OF_THE_CONSOLE = ("/", "/console", "/console/")
#: what asks for a right of its own, by what is ordered
CHECKED_INSIDE = {
    "/api/v1/job/set_command": "tobekilled needs cancel, debug mode needs modify",
    "/api/v1/job/get_description": "it only reads: the client posts the ids",
    "/api/v1/job/get_description_incl_archive": "likewise",
    "/api/v1/token/revoke": "whoever lost a token may say so with a token of any kind",
}
#: pilots work for others: what they report is fenced by their claim, not by a right
OF_PILOTS = ("/api/v1/pilot/", "/server/panda/", "/api/v1/event/")


def is_of_the_console(service: str, path: str) -> bool:
    return service == "console" and (path in OF_THE_CONSOLE or path.startswith("/console/"))


def right_of(route: Any) -> str | None:
    asked = asked_for(route)
    return None if asked is None else asked.right


@pytest.mark.parametrize("service", SERVICES)
async def test_every_endpoint_says_who_may_call_it(service: str, context: Context) -> None:
    silent = {route.path for route in routes_of(service, context) if asked_for(route) is None}
    silent = {path for path in silent if not is_of_the_console(service, path)}
    assert silent <= set(FOR_ANYBODY), f"say who may call (require, guarded): {silent - set(FOR_ANYBODY)}"


@pytest.mark.parametrize("service", SERVICES)
async def test_what_changes_something_needs_a_right(service: str, context: Context) -> None:
    changing = [one for one in routes_of(service, context) if "POST" in (one.methods or ())]
    without = {
        route.path
        for route in changing
        if not route.path.startswith(OF_PILOTS) and route.path not in CHECKED_INSIDE and right_of(route) not in RIGHTS
        if not is_of_the_console(service, route.path)
    }
    assert without == set(), "name the right: require(..., right='modify')"


async def test_cancelling_and_submitting_need_rights_of_their_own(context: Context) -> None:
    rights = {
        route.path: right_of(route)
        for service in ("task_definition", "job_dispatch")
        for route in routes_of(service, context)
    }
    assert rights["/api/v1/task/submit"] == "submit"
    cancelling = ("/api/v1/task/kill", "/api/v1/task/finish", "/api/v1/job/kill")
    assert {rights[path] for path in cancelling} == {"cancel"}


async def test_the_exceptions_exist(context: Context) -> None:
    paths = {route.path for service in SERVICES for route in routes_of(service, context)}
    assert {*FOR_ANYBODY, *CHECKED_INSIDE} <= paths
