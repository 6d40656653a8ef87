"""The servers that bench_acquire compares: `python -m tests.performance.acquire_server bare|dispatch`.

`bare` answers every request with a constant; `dispatch` is the dispatcher with its periodic work, without a broker.
Prints its port; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys

import uvloop
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.app import build_parts
from services.job_dispatch.environment import DispatchSettings
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import load_settings
from shared.db import Database
from shared.runtime.collector import tune_collector
from shared.runtime.service import Context, Periodic
from shared.runtime.web import HttpServer
from shared.web.service import install
from tests.performance.arrivals import heard

REPLY = b'{"success":true,"message":"","data":{"StatusCode":20,"jobs":[]}}'


async def serve_bare() -> None:
    async def answer(request: Request) -> Response:
        await request.body()
        return Response(REPLY, media_type="application/json")

    web = Starlette(routes=[Route("/api/v1/pilot/acquire_jobs", answer, methods=["POST"])])
    await serve(web)


async def serve_dispatch() -> None:
    settings = load_settings(DispatchSettings)
    database = await Database.connect(settings.database_url, actor="job-dispatch")
    authority = Authority.from_pem(settings.token_key or "")
    parts = build_parts(Context(database, NullCache(), authority, random.Random(), settings, CollectorRegistry()))
    web = parts.service.web
    assert web is not None
    install(web, authority, parts.service.body_limits)
    for action in parts.service.on_start:
        await action()
    loops = [asyncio.create_task(_repeat(database, one)) for one in parts.service.periodic]
    loops.append(asyncio.create_task(parts.commands.work_off(database)))
    async with heard(settings.database_url, parts.windows.arrive):
        await serve(web)
    for loop in loops:
        loop.cancel()
    await parts.close()
    await database.close()


async def _repeat(database: Database, periodic: Periodic) -> None:
    while True:
        await asyncio.sleep(periodic.every_s)
        async with database.begin(reason=periodic.name) as work:
            await periodic.run(work)


async def serve(web: Starlette) -> None:
    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=1)  # as every service is served
    await server.start()
    tune_collector()
    print(server.port, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.to_thread(sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    uvloop.run(serve_bare() if sys.argv[1] == "bare" else serve_dispatch())
