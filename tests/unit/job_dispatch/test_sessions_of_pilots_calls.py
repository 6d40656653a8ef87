"""For whom calls on the paths of pilots use the database: who reads has a part, pilots have all for the rest."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.api.failures import enveloped, guarded
from shared.auth import Authority, access
from shared.auth.web import give_authority
from shared.db.holders import Turns

ROLES = ("user", "pilot", "production")


@pytest.mark.parametrize(
    ("role", "path", "is_bounded"),
    [
        ("pilot", "/read", True),
        ("production", "/read", True),
        ("operator", "/read", True),
        ("user", "/read", True),
        ("user", "/change", True),
        ("pilot", "/change", False),
        ("production", "/change", False),
    ],
)
async def test_reads_and_users_own_pilots_have_turns_and_pilots_of_everybody_have_none(
    role: str, path: str, is_bounded: bool
) -> None:
    turns, may_end, n_here = Turns(2, "reads", wait_s=0.01), asyncio.Event(), 0

    async def asked(request: Request) -> Response:
        nonlocal n_here
        async with turns.taken():
            n_here += 1
            await may_end.wait()
        return Response("done")

    authority = Authority.generate()
    read, change = (guarded(enveloped, access.PILOTS, *ROLES, right=right) for right in (None, "modify"))
    web = Starlette(routes=[Route("/read", read(asked)), Route("/change", change(asked))])
    give_authority(web, authority)
    headers = {"Authorization": f"Bearer {authority.issue('ada', [role])}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://d", headers=headers) as client:
        first, second = (asyncio.create_task(client.get(path)) for _ in range(2))
        async with asyncio.timeout(5):
            while n_here < 1 or (n_here < 2 and not first.done() and not second.done()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        may_end.set()
        codes = sorted([(await first).status_code, (await second).status_code])
    assert codes == ([200, 503] if is_bounded else [200, 200])
