"""Embedded, one process answers every path of every service, as the gateway does elsewhere."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from deploy.local.locations import GATEWAY_FILE, documents_of, location_of, read_locations
from services.cli.one_process import OneFront
from shared.auth import Authority
from shared.release import RELEASE
from shared.runtime.service import Context
from tests.handlers.every_service import NAMES, ROLES, routes_of, web_of


@pytest.fixture
async def webs(context: Context, authority: Authority) -> dict[str, Any]:
    return {name: await web_of(context, authority, name) for name in NAMES}


async def test_pilots_and_clients_reach_every_service_at_the_one_address(
    webs: dict[str, Any], authority: Authority
) -> None:
    transport = httpx.ASGITransport(OneFront(list(webs.values())))  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {authority.issue('pilot-1', ROLES)}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://one", headers=headers) as client:
        assert (await client.post("/server/panda/getJob", data={"siteName": "NOWHERE"})).json()["StatusCode"] == 20
        assert (await client.get("/server/panda/getJob")).json()["StatusCode"] == 30
        assert (await client.get("/cache/schedconfig.json")).json() == {}
        assert "error" in (await client.get("/cache/schedconfig/NOWHERE.all.json")).json()
        for path in ("/api/v1/system/is_alive", "/api/v1/grid/status", "/api/v1/job/list", "/api/v1/share/list"):
            assert (await client.get(path)).status_code == 200, path
        assert (await client.get("/nothing")).status_code == 404


async def test_no_path_belongs_to_two_services_and_the_gateway_knows_each(webs: dict[str, Any]) -> None:
    locations, owners = read_locations(GATEWAY_FILE.read_text()), dict[str, str]()
    for name, web in webs.items():
        for route in routes_of(web):
            assert owners.setdefault(route.path, name) == name
            found = location_of(route.path, locations)
            assert found is not None and found.service == name, route.path


async def test_the_one_address_names_a_document_of_each_service_and_together_they_have_every_path(
    webs: dict[str, Any], authority: Authority
) -> None:
    front = OneFront(list(webs.values()), list(webs))
    described = set[str]()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(front),  # type: ignore[arg-type]
        base_url="http://one",
    ) as client:
        listed = (await client.get("/openapi.json")).json()
        assert listed["documents"].keys() == set(NAMES)
        for name, path in listed["documents"].items():
            document = (await client.get(path)).json()
            assert document["openapi"].startswith("3.") and document["paths"]
            assert document["info"]["version"] == RELEASE
            described |= document["paths"].keys()
            found = location_of(path, read_locations(GATEWAY_FILE.read_text()))
            assert found is not None and found.service == name
        assert (await client.get("/docs")).status_code == 404
    assert {route.path for web in webs.values() for route in routes_of(web)} <= described
    assert documents_of(read_locations(GATEWAY_FILE.read_text())) == listed
    (told,) = re.findall(r"location = /openapi.json {[^']*'(.*)'", GATEWAY_FILE.read_text())
    assert json.loads(told) == listed
