"""One way to answer: whatever anybody asks of any route of any service, the envelope and its problems come back."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client import CollectorRegistry

from services.cli.one_process import composition_roots
from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.every_service import (
    LEGACY,
    NAMES,
    ROLES,
    Asked,
    client_of,
    routes_of,
    status_of,
    web_of,
    wrong_with,
)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
TEXTS = [
    "-1",
    "0",
    str(2**70),
    "x",
    "NaN",
    "1e400",
    "\x00",
    "a\x07\x1b\r\n",
    "None",
    "",
    "é" * 3000,
    "true",
    "1_0",
    "٣",
]
VALUES: list[Any] = [
    -1, 2**70, -(2**70), 1.5, math.nan, math.inf, "x", "", "\x00", "\ud800", "a\x07\x1b\r\n", None, True, [], {},
    [None], [[]], {"\x00": 1},
]  # fmt: skip
NO_IDS = ["-1", "0", str(2**70), "x", "NaN", "1.5", "\x00", "true", "1_0", "٣"]
NO_IDS_IN_BODIES: list[Any] = [-1, 0, 2**70, 1.5, "x", "\x00", True, {}, "1_0"]
PILOTS = ("/api/v1/pilot/", LEGACY)  # which say odd things that cost a field, not the report
# where to log in is asked without a token; the latter two take a key in place of one
OPEN = {
    "/api/v1/system/is_alive",
    "/auth/{vo}_auth_config.json",
    f"{LEGACY}get_access_token",
    "/api/v1/creds/get_access_token",
}


def is_id(name: str) -> bool:
    return name in ("task_id", "job_id", "job_ids", "before_id", "parked_ids")


async def test_the_list_of_services_with_routes_is_complete(context: Context) -> None:
    with_routes = {name for name, build in composition_roots().items() if build(_fresh(context)).web is not None}
    assert with_routes == {*NAMES, "console"}, "the pages of the console have tests of their own"


def _fresh(context: Context) -> Context:
    return dataclasses.replace(context, metrics=CollectorRegistry())


@pytest.mark.parametrize("name", NAMES)
async def test_every_value_of_every_question_is_taken_or_refused_in_the_envelope(
    context: Context, authority: Authority, name: str
) -> None:
    web = await web_of(context, authority, name)
    failures = []
    async with client_of(web, authority.issue("somebody", ROLES)) as client:
        for route in routes_of(web):
            for field in (*route.in_query, *route.in_path):
                for value in TEXTS:
                    path, query = _with(route, field, value)
                    answer = await client.request(route.method, path, params=query)
                    wrong = wrong_with(answer)
                    if not wrong and is_id(field) and value in NO_IDS and not route.path.startswith(LEGACY):
                        wrong = "" if field in _fields_told(answer.json()) else "an id that cannot be is not named"
                    if wrong:
                        failures.append((wrong, route.method, route.path, field, value[:20], answer.text[:200]))
    assert not failures, failures


def _with(route: Asked, field: str, value: str) -> tuple[str, dict[str, str]]:
    """The address with one odd value and harmless ones for the others."""
    path = route.path
    for name in route.in_path:
        path = path.replace("{" + name + "}", quote(value if name == field else "1", safe="") or "%20")
    return path, {name: value if name == field else "1" for name in route.in_query if name == field or is_id(name)}


def _fields_told(body: dict[str, Any]) -> set[str]:
    return {part for one in body.get("problems", ()) for part in one["field"].split(".")}


@pytest.mark.parametrize("name", NAMES)
async def test_every_value_of_every_body_is_taken_or_refused_in_the_envelope(
    context: Context, authority: Authority, name: str
) -> None:
    web = await web_of(context, authority, name)
    failures = []
    async with client_of(web, authority.issue("somebody", ROLES)) as client:
        for route in routes_of(web):
            for field in route.in_body:
                for value in NO_IDS_IN_BODIES if is_id(field) else VALUES:
                    content = {**{one: 1 for one in route.in_body if is_id(one)}, field: value}
                    headers = {"Content-Type": "application/json"}
                    answer = await client.request(
                        route.method, route.path, content=json.dumps(content).encode(), headers=headers
                    )
                    wrong = wrong_with(answer)
                    if not wrong and is_id(field) and not route.path.startswith(PILOTS):
                        wrong = "" if field in _fields_told(answer.json()) else "an id that cannot be is not named"
                    if wrong:
                        failures.append((wrong, route.path, field, repr(value)[:20], answer.text[:200]))
    assert not failures, failures


@pytest.mark.parametrize("name", NAMES)
async def test_a_wrong_method_an_unknown_path_and_a_missing_or_false_token_are_told_in_the_envelope(
    context: Context, authority: Authority, name: str
) -> None:
    web = await web_of(context, authority, name)
    failures = []
    routes = list(routes_of(web))
    known = {(route.method, route.path) for route in routes}
    asked = [(405, "right", method, route.path) for route in routes for method in METHODS
             if (method, route.path) not in known]  # fmt: skip
    asked += [(404, "right", "GET", path) for path in ("/", "/api/v1/nothing", "/api/v1/task/kill/1", "/%00")]
    for route in routes:
        if route.path not in OPEN:
            asked += [(401, token, route.method, route.path) for token in ("none", "false", "of another key")]
            asked += [(403, "without a role", route.method, route.path)]
    tokens = {
        "right": authority.issue("somebody", ROLES), "none": None, "false": "x.y.z",
        "of another key": Authority.generate().issue("somebody", ROLES),
        "without a role": authority.issue("nobody", []),
    }  # fmt: skip
    for kind, token in tokens.items():
        async with client_of(web, token) as client:
            for status, _, method, path in (one for one in asked if one[1] == kind):
                answer = await client.request(method, path.replace("{", "").replace("}", ""))
                is_read = status == 403 and status_of(answer) == 200  # some questions are for anybody with a token
                wrong = wrong_with(answer) or ("" if status_of(answer) == status or is_read else "another status")
                if wrong:
                    failures.append((wrong, kind, method, path, answer.status_code, answer.text[:200]))
    assert not failures, failures
