"""Every call that takes a body has a limit, and reads no more of what never ends."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.api.body import LARGEST_REPORT_BYTES
from services.job_dispatch.app import Parts
from shared.auth import Authority
from shared.config.parameters import Parameters
from tests.applications import application_of
from tests.handlers.every_service import ROLES, routes_of
from tests.handlers.job_dispatch.grid_of_jobs import Rows

PART = b'{"job_id": 1, "site_name": "Q1", "more": "' + b"x" * 1_048_000
MOST_BYTES = LARGEST_REPORT_BYTES + len(PART)


async def endless(web: Any, path: str, token: str, content_type: str) -> tuple[int, bytes, int]:
    """HTTP status, answer, and how many bytes were read of a body that does not end."""
    n_read, status, answer = 0, 0, b""

    async def receive() -> dict[str, Any]:
        nonlocal n_read
        n_read += len(PART)
        assert n_read <= MOST_BYTES + len(PART), f"{path} reads without an end"
        return {"type": "http.request", "body": PART, "more_body": True}

    async def send(message: Any) -> None:
        nonlocal status, answer
        status = message.get("status", status)
        answer += message.get("body", b"")

    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", content_type.encode()),
               (b"transfer-encoding", b"chunked"), (b"accept", b"application/json")]  # fmt: skip
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("s", 80), "scheme": "http", "http_version": "1.1",
        "root_path": "", "extensions": {}, "state": {},
    }  # fmt: skip
    await web(scope, receive, send)
    return status, answer, n_read


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded"])
async def test_a_body_that_never_ends_is_refused_by_every_call_and_read_up_to_its_limit_only(
    parts: Parts, authority: Authority, rows: Rows, content_type: str
) -> None:
    await rows.jobs(1)
    before = dict(await rows.row(1))
    web, token = application_of(parts.service, authority), authority.issue("pilot-1", ROLES)
    paths = sorted({one.path for one in routes_of(web) if one.method == "POST"})
    assert len(paths) > 25
    for path in paths:
        status, answer, n_read = await endless(web, path, token, content_type)
        assert status < 500 and (not n_read or b"are not allowed" in answer), (path, status, answer)
        assert b'"success":true' not in answer and n_read <= MOST_BYTES, path
    assert dict(await rows.row(1)) == before


async def test_the_sizes_are_parameters_that_apply_at_once(parts: Parts, pilot: httpx.AsyncClient, rows: Rows) -> None:
    await rows.jobs(2)
    body = {"site_name": "Q1", "node": "n" * 20_000}
    refused = (await pilot.post("/api/v1/pilot/acquire_jobs", json=body)).json()
    assert refused["data"]["StatusCode"] == 30 and "at most 16384 are" in refused["message"]
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            " VALUES ('job_dispatch', 'ACQUIRE_BODY_KB', '32', 'int')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
        await parameters_of(parts).refresh(connection)
    taken = (await pilot.post("/api/v1/pilot/acquire_jobs", json=body)).json()
    assert taken["success"] and len(taken["data"]["jobs"]) == 1


def parameters_of(parts: Parts) -> Parameters:
    """The parameters that the dispatcher reads."""
    return parts.activity._parameters
