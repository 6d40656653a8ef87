"""Who a pilot is: certificates of TLS proxies, VO and role by `Origin`, told in the form of each method."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from shared.auth.authentication import Authentication
from shared.auth.configuration import IdentityFile
from shared.web.service import install
from tests.handlers.job_dispatch.calls import ACQUIRE, UPDATE
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY

PROXIES = {
    "proxies": {
        "networks": ["10.1.0.0/16"],
        "subjects": {"/O=Grid/CN=factory": {"roles": ["production"], "groups": ["atlas"]}},
    }
}


@pytest.fixture
def authentication(parts: Parts, authority: Authority) -> Authentication:
    found = Authentication(authority, IdentityFile.model_validate(PROXIES))
    assert parts.service.web is not None
    install(parts.service.web, found, parts.service.body_limits)
    return found


def of_address(parts: Parts, address: str, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=parts.service.web, client=(address, 4711))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://dispatch", headers=headers)


@pytest.fixture
async def proxy(parts: Parts, authentication: Authentication) -> AsyncIterator[httpx.AsyncClient]:
    told = {"X-SSL-Client-S-DN": "CN=factory,O=Grid", "X-SSL-Client-Verify": "SUCCESS"}
    async with of_address(parts, "10.1.0.1", **told) as found:
        yield found


async def test_a_pilot_with_a_certificate_gets_and_ends_a_job_through_the_proxy(
    proxy: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.jobs(1)
    job = (await proxy.post(f"{LEGACY}/getJob", data={"siteName": "Q1"}, headers={"Origin": "atlas.production"})).json()
    assert job["StatusCode"] == 0
    ended = {"jobId": "1", "state": "failed", "attemptNr": "1", "pilotErrorCode": "1305"}
    assert (await proxy.post(f"{LEGACY}/updateJob", data=ended)).json()["StatusCode"] == 0
    assert (await rows.row(1))["status"] == "failed"


async def test_the_same_headers_from_elsewhere_are_no_certificate(
    parts: Parts, proxy: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.jobs(1)
    async with of_address(parts, "192.0.2.1", **dict(proxy.headers)) as other:
        assert (await other.post(f"{LEGACY}/getJob", data={"siteName": "Q1"})).json()["StatusCode"] == 50
        report = await other.post(f"{LEGACY}/updateJob", data={"jobId": "1", "state": "running"})
        assert report.status_code == 401 and report.headers["content-type"].startswith("text/plain")
        assert (await other.post(ACQUIRE, json={"site_name": "Q1"})).status_code == 401
        assert (await other.get("/api/v1/job/list")).status_code == 401
    assert (await rows.row(1))["status"] == "activated"


@pytest.mark.parametrize("origin", ["cms", "cms.production", "atlas.pilot", "atlas.operator"])
async def test_a_vo_or_role_that_the_caller_does_not_have_is_refused_with_the_code_for_roles(
    proxy: httpx.AsyncClient, rows: Rows, origin: str
) -> None:
    await rows.jobs(1)
    headers = {"Origin": origin}
    asked = await proxy.post(f"{LEGACY}/getJob", data={"siteName": "Q1"}, headers=headers)
    assert (asked.status_code, asked.json()["StatusCode"]) == (200, 60)
    told = await proxy.post(f"{LEGACY}/updateJob", data={"jobId": "1", "state": "running"}, headers=headers)
    assert (told.status_code, told.json()["StatusCode"]) == (200, 60)
    refused = await proxy.post(UPDATE, json={"job_id": 1, "job_status": "running"}, headers=headers)
    assert refused.status_code == 403 and refused.json()["data"] == {"StatusCode": 60}
    assert (await proxy.get("/api/v1/job/list", headers=headers)).status_code == 403
    assert (await rows.row(1))["status"] == "activated"
