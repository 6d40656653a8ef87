"""The HTTP side of every service: /livez, /readyz, /metrics, and uvicorn inside our event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shared.web.connections import Connections
from shared.web.half_open import protocol_with

Problems = Callable[[], Awaitable[Sequence[str]]]


def add_health(web: Starlette, *, ready: Problems, registries: Sequence[CollectorRegistry]) -> None:
    """Put the three routes before the application's own. `ready` lists what is wrong; empty means ready."""

    async def livez(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        problems = list(await ready())
        return JSONResponse({"ready": not problems, "problems": problems}, status_code=503 if problems else 200)

    async def metrics(request: Request) -> Response:
        text = b"".join(generate_latest(registry) for registry in registries)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    web.router.routes[:0] = [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the runtime decides when it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpServer:
    """One application on one port."""

    def __init__(
        self, web: Starlette, *, host: str, port: int, graceful_stop_s: float, connections: Connections | None = None
    ) -> None:
        self._host, self._wanted_port = host, port
        config = uvicorn.Config(
            web,
            http=protocol_with(connections or Connections()),
            log_config=None,
            access_log=False,
            server_header=False,
            # who is a proxy is said by ORRERY_IDENTITY_FILE alone: uvicorn would believe whoever calls from 127.0.0.1
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, int(graceful_stop_s)),
            timeout_keep_alive=75,
            backlog=4096,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None
        self.port = port

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._wanted_port))
        except OSError:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name=f"http {self.port}")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise OSError(f"the HTTP server on port {self.port} ended while it was starting")
            await asyncio.sleep(0.01)

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        """Accept nothing more and let the requests under way finish."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)
