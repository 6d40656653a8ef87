"""One address for pilots and clients beside the services of `make up`: every path of every service.

Paths go where the containers' gateway sends them (`locations`); where the copies of a service listen is read from
run.json, again whenever it changes. A copy that does not take the connection is passed over for the next one. A request
that may have reached a copy is never sent to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from deploy.local.locations import GATEWAY_FILE, Location, documents_of, location_of, read_locations
from deploy.local.services import RECORD_VARIABLE
from shared.auth.certificates import HEADERS as CERTIFICATE_HEADERS
from shared.auth.certificates import is_inside
from shared.auth.configuration import IdentityFile, Network
from shared.runtime.file_limit import raise_file_limit

LOOK_EVERY_S = 1.0
#: bytes: a pilot whose disk is full reports in the address
LONGEST_ADDRESS = 60_000
DOCUMENTS = "/openapi.json"
RETRY_AFTER_S = "5"
CONNECT_TIMEOUT_S = 10.0
#: of one connection, not of the request (RFC 9110)
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_OF_PROXIES = {name.decode() for name in CERTIFICATE_HEADERS}
#: connections to services: when all pilots come at once, the others wait here, where they cost little
MOST_HANDED_ON = 500
#: what an HTTP client adds by itself: whether a pilot sent an Accept decides the form of its answer
_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Copies:
    """Where the copies of each service listen, taken in turn."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._changed_at = 0
        self._urls: dict[str, list[str]] = {}
        self._turns = itertools.count()

    def look(self) -> None:
        """Read the record if it has changed; one that cannot be read changes nothing."""
        try:
            changed_at = self._record.stat().st_mtime_ns
            if changed_at != self._changed_at:
                self._urls = json.loads(self._record.read_text()).get("urls") or {}
                self._changed_at = changed_at
        except (OSError, ValueError):
            return

    def of(self, service: str) -> list[str]:
        """Their addresses; each time another one is the first."""
        urls = self._urls.get(service, [])
        first = next(self._turns) % len(urls) if urls else 0
        return urls[first:] + urls[:first]


class Gateway:
    """Hands requests on and answers back, both as they come."""

    def __init__(
        self, locations: list[Location], copies: Copies, session: aiohttp.ClientSession, proxies: tuple[Network, ...]
    ) -> None:
        self._locations = locations
        self._copies = copies
        self._session = session
        self._proxies = proxies

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer of the service whose path it is, or why there is none."""
        if request.path in ("/livez", "/readyz"):
            return web.Response(text="ok\n")
        if request.path == DOCUMENTS:
            return _json(documents_of(self._locations))
        location = location_of(request.path, self._locations)
        if location is None:
            return _failed(request, 404, f"no service has {request.path}")
        for url in self._copies.of(location.service):
            try:
                return await self._handed_on(request, url)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                continue  # it has seen nothing of the request
            except aiohttp.ClientError as error:
                return _failed(request, 502, f"{location.service} did not answer: {type(error).__name__}")
        return _failed(request, 503, f"{location.service} is not running or takes no connection")

    def _headers(self, request: web.BaseRequest) -> list[tuple[str, str]]:
        """What came, and from where: a certificate is told by TLS proxies only, who else may say what they like."""
        peer = request.remote or ""
        left_out = _HOP_BY_HOP if is_inside(peer, self._proxies) else _HOP_BY_HOP | _OF_PROXIES
        told = [(name, value) for name, value in request.headers.items() if name.lower() not in left_out]
        return [*told, ("X-Forwarded-For", peer)]

    async def _handed_on(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            URL(url + request.raw_path, encoded=True),
            headers=self._headers(request),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
        ) as answer:
            headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in headers:
                response.headers.add(name, value)
            await response.prepare(request)
            try:
                async for part in answer.content.iter_any():
                    await response.write(part)
            except aiohttp.ClientError:
                # the caller has the beginning: nothing else may follow it, and it has to see that the rest is missing
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write_eof()
            return response


def _failed(request: web.BaseRequest, status: int, reason: str) -> web.Response:
    """A failure as its caller understands it, like those of the services.

    Published pilots take any JSON object without a StatusCode for a job, and any JSON object for a report delivered.
    """
    headers = {"Retry-After": RETRY_AFTER_S} if status == 503 else {}
    if request.path == "/server/panda/getJob":
        return _json({"StatusCode": 10, "errorDialog": reason})
    if request.path.startswith("/server/panda/"):
        return web.Response(text=f"{reason}\n", status=status, headers=headers)
    return _json({"success": False, "message": reason, "data": None}, status, headers)


def _json(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(text=json.dumps(content), status=status, headers=headers, content_type="application/json")


async def serve(host: str, port: int, copies: Copies, stop: asyncio.Event, proxies: tuple[Network, ...] = ()) -> None:
    """Run until `stop` is set; `proxies`: whose word on certificates is handed on.

    Raises OSError where the port is taken.
    """
    connector = aiohttp.TCPConnector(limit=MOST_HANDED_ON, keepalive_timeout=15)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=120.0),
        auto_decompress=False,
        skip_auto_headers=_ADDED,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        gateway = Gateway(read_locations(GATEWAY_FILE.read_text()), copies, session, proxies)
        # a body stays as it was packed, and a caller that has gone ends the request at the service too
        server = web.Server(
            gateway.handle,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            max_line_size=LONGEST_ADDRESS,
        )
        runner = web.ServerRunner(server)
        await runner.setup()
        copies.look()
        await web.TCPSite(runner, host, port, backlog=4096).start()
        try:
            while not stop.is_set():
                copies.look()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)
        finally:
            await runner.cleanup()


async def _main() -> int:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    raise_file_limit()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    record = os.environ.get(RECORD_VARIABLE)
    if not record:
        sys.stderr.write(f"{RECORD_VARIABLE}: must name the record of the supervisor, run.json\n")
        return 2
    host, port = os.environ.get("ORRERY_HTTP_HOST", "127.0.0.1"), int(os.environ.get("ORRERY_HTTP_PORT", "8080"))
    try:
        identity = (
            IdentityFile.from_file(Path(file)) if (file := os.environ.get("ORRERY_IDENTITY_FILE")) else IdentityFile()
        )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"ORRERY_IDENTITY_FILE={file}: {error}\n")
        return 2
    proxies = identity.proxies.networks if identity.proxies is not None else ()
    try:
        await serve(host, port, Copies(Path(record)), stop, proxies)
    except OSError as error:
        sys.stderr.write(f"ORRERY_HTTP_PORT: cannot listen on {host}:{port}: {error.strerror}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
