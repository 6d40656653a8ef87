"""What stands behind the ? of a question and is no parameter of it is refused: the answer would be to another one."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.testclient import TestClient

from shared.auth import Authority
from shared.web.json_route import JsonRoute
from shared.web.service import install


def page(limit: int = 10) -> int:
    return limit


@pytest.fixture
def client() -> TestClient:
    web, routes = FastAPI(), APIRouter(route_class=JsonRoute)

    @routes.get("/tasks/{kind}")
    def tasks(
        kind: str, limit: Annotated[int, Depends(page)], status: Annotated[list[str] | None, Query()] = None
    ) -> dict[str, Any]:
        return {"kind": kind, "status": status, "limit": limit}

    @routes.get("/raw")
    def raw(request: Request) -> dict[str, str]:
        return dict(request.query_params)

    @routes.post("/tasks")
    def submit() -> dict[str, str]:
        return {}

    web.include_router(routes)
    install(web, Authority.generate())
    return TestClient(web)


def test_known_parameters_of_a_route_and_of_what_it_depends_on_are_taken(client: TestClient) -> None:
    answer = client.get("/tasks/all", params={"status": ["done", "failed"], "limit": 3}).json()
    assert answer == {"kind": "all", "status": ["done", "failed"], "limit": 3}


def test_an_unknown_parameter_is_refused_with_the_nearest_and_all_that_are_known(client: TestClient) -> None:
    answer = client.get("/tasks/all", params={"statsu": "done", "zone": "x", "kind": "all", "limit": 3}).json()
    assert answer["success"] is False and answer["data"] == 5
    told = {one["field"]: one["allowed"] for one in answer["problems"]}
    assert told == {
        "statsu": "unknown parameter; did you mean status?; allowed: kind, limit, status",
        "zone": "unknown parameter; allowed: kind, limit, status",
    }


def test_a_route_that_reads_its_request_itself_and_a_change_take_what_they_are_given(client: TestClient) -> None:
    assert client.get("/raw", params={"anything": "1"}).json() == {"anything": "1"}
    assert client.post("/tasks", params={"anything": "1"}).json() == {}
