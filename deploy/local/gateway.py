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
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.log import server_logger
from yarl import URL

from deploy.local.gateway_answers import RETRY_AFTER_S, WithoutAddresses, as_json, failed
from deploy.local.gateway_protocol import WatchedServer
from deploy.local.gateway_rooms import (
    READ_WHOLE_BYTES,
    WITHOUT_CREDENTIALS_BYTES,
    Full,
    Held,
    Places,
    Rooms,
    rooms_of_hints,
    rooms_of_others,
    rooms_of_pages,
    rooms_of_pilots,
)
from deploy.local.locations import GATEWAY_FILE, Location, documents_of, location_of, read_locations
from deploy.local.services import CONSOLE, RECORD_VARIABLE
from shared.auth.addresses import Network, Proxies, counted_as
from shared.auth.certificates import HEADERS as CERTIFICATE_HEADERS
from shared.config.settings import ListeningSettings, SettingsError, load_settings
from shared.runtime import logs
from shared.runtime.believed import identity_of
from shared.web.connections import USUAL_PACE, Connections, Pace

LOOK_EVERY_S = 1.0
DOCUMENTS = "/openapi.json"
CONNECT_TIMEOUT_S = 10.0
#: of one connection, not of the request (RFC 9110)
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
               "expect"}  # fmt: skip
_OF_PROXIES = {name.decode() for name in CERTIFICATE_HEADERS}
#: calls that go on while all others wait
OF_PILOTS = ("/api/v1/pilot/", "/server/panda/")
#: answers that go on as long as a page is open
HINTS = "/console/hints"
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


class TooLarge(Exception):
    """A body that no service would read."""


class Gateway:
    """Hands requests on and answers back: small ones when they are whole, large ones as they come."""

    def __init__(
        self,
        locations: list[Location],
        copies: Copies,
        session: aiohttp.ClientSession,
        tls_proxies: Proxies,
        believed: Proxies,
    ) -> None:
        self._locations = locations
        self._copies = copies
        self._session = session
        self._tls_proxies = tls_proxies
        self._believed = believed
        self._pilots, self._pages, self._others = rooms_of_pilots(), rooms_of_pages(), rooms_of_others()
        self._hints = rooms_of_hints()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer of the service whose path it is, or why there is none."""
        watch = request.protocol.watch  # type: ignore[attr-defined]
        watch.in_body()
        if request.path in ("/livez", "/readyz"):
            watch.whole()
            return web.Response(text="ok\n")
        if request.path == DOCUMENTS:
            return as_json(documents_of(self._locations))
        location = location_of(request.path, self._locations)
        if location is None:
            return failed(request, 404, f"no service has {request.path}")
        rooms = self._rooms_of(request.path, location.service)
        address = counted_as(self._address(request))
        try:
            with rooms.memory.held(address) as held:
                body = await self._begun(request, held)
                if isinstance(body, bytes):
                    watch.whole()
                places = rooms.whole if isinstance(body, bytes) else rooms.streamed
                return await self._answered(request, location.service, body, places, address)
        except (Full, TooLarge) as error:
            watch.whole()
            if isinstance(error, TooLarge):
                return failed(request, 413, str(error))
            return failed(request, 503, f"{error}; come again in {RETRY_AFTER_S} s")

    def _rooms_of(self, path: str, service: str) -> Rooms:
        if path.startswith(OF_PILOTS):
            return self._pilots
        if path == HINTS:
            return self._hints
        return self._pages if service == CONSOLE else self._others

    def _address(self, request: web.BaseRequest) -> str:
        return self._believed.address(request.remote or "", ",".join(request.headers.getall("X-Forwarded-For", ())))

    async def _begun(self, request: web.BaseRequest, held: Held) -> bytes | AsyncIterator[bytes]:
        """The body, read before a service hears of it; of a large one what has come, and the rest as it comes.

        Raises TooLarge where no credentials go with more than services read of anybody, Full.
        """
        if not request.can_read_body:
            return b""
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        is_known = "Authorization" in request.headers or self._tls_proxies.trusts(request.remote or "")
        most = READ_WHOLE_BYTES if is_known else WITHOUT_CREDENTIALS_BYTES
        begun, is_large = bytearray(), (request.content_length or 0) > most
        while not is_large and (part := await request.content.readany()):
            held.more(len(part))
            begun += part
            is_large = len(begun) > most
        if not is_large:
            return bytes(begun)
        if not is_known:
            raise TooLarge(f"a body of more than {most} bytes is read with a header 'Authorization' only")
        return _goes_on(bytes(begun), request)

    async def _answered(
        self,
        request: web.BaseRequest,
        service: str,
        body: bytes | AsyncIterator[bytes],
        places: Places,
        address: str,
    ) -> web.StreamResponse:
        """The answer of the first copy that takes the connection."""
        async with places.taken(address):
            for url in self._copies.of(service):
                try:
                    answer = await self._handed_on(request, url, body)
                except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                    continue  # it has seen nothing of the request
                except aiohttp.ClientError as error:
                    return failed(request, 502, f"{service} did not answer: {type(error).__name__}")
                return answer
        return failed(request, 503, f"{service} is not running or takes no connection")

    def _headers(self, request: web.BaseRequest) -> list[tuple[str, str]]:
        """What came, and from where: a certificate is told by TLS proxies only, who else may say what they like."""
        peer = request.remote or ""
        left_out = _HOP_BY_HOP if self._tls_proxies.trusts(peer) else _HOP_BY_HOP | _OF_PROXIES
        told = [(name, value) for name, value in request.headers.items() if name.lower() not in left_out]
        return [*told, ("X-Forwarded-For", peer)]

    async def _handed_on(
        self, request: web.BaseRequest, url: str, body: bytes | AsyncIterator[bytes]
    ) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            URL(url + request.raw_path, encoded=True),
            headers=self._headers(request),
            data=body or None,
            allow_redirects=False,
        ) as answer:
            headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
            begun = bytearray()
            if answer.content_type == "text/event-stream":
                return await _sent_on(request, answer, headers, b"")
            async for part in answer.content.iter_any():
                begun += part
                if len(begun) > READ_WHOLE_BYTES:
                    return await _sent_on(request, answer, headers, bytes(begun))
        # whole: the service is free, however long the caller takes
        response = web.Response(status=answer.status, reason=answer.reason, body=bytes(begun))
        _add(headers, response)
        return response


def _goes_on(begun: bytes, request: web.BaseRequest) -> AsyncIterator[bytes]:
    async def parts() -> AsyncIterator[bytes]:
        if begun:
            yield begun
        while part := await request.content.readany():
            yield part
        request.protocol.watch.whole()  # type: ignore[attr-defined]

    return parts()


async def _sent_on(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: list[tuple[str, str]], begun: bytes
) -> web.StreamResponse:
    """A large answer, or one that goes on, as it comes."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    _add(headers, response)
    await response.prepare(request)
    try:
        await response.write(begun)
        async for part in answer.content.iter_any():
            await response.write(part)
    except aiohttp.ClientError:
        # the caller has the beginning: nothing else may follow it, and it has to see that the rest is missing
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


def _add(headers: list[tuple[str, str]], response: web.StreamResponse) -> None:
    for name, value in headers:
        response.headers.add(name, value)


async def serve(
    host: str,
    port: int,
    copies: Copies,
    stop: asyncio.Event,
    proxies: tuple[Network, ...] = (),
    *,
    connections: Connections | None = None,
    forwarders: tuple[Network, ...] = (),
    pace: Pace = USUAL_PACE,
) -> None:
    """Run until `stop` is set.

    `proxies`: whose word on certificates is handed on, and believed on addresses; `forwarders`: on addresses alone.
    Raises OSError where the port is taken.
    """
    believed = Proxies((*proxies, *forwarders))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),  # rooms bound it
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=120.0),
        auto_decompress=False,
        skip_auto_headers=_ADDED,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        gateway = Gateway(read_locations(GATEWAY_FILE.read_text()), copies, session, Proxies(proxies), believed)
        server_logger.addFilter(WithoutAddresses())
        runner = web.ServerRunner(WatchedServer(gateway.handle, connections or Connections(proxies=believed), pace))
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
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    record = os.environ.get(RECORD_VARIABLE)
    if not record:
        sys.stderr.write(f"{RECORD_VARIABLE}: must name the record of the supervisor, run.json\n")
        return 2
    try:
        settings = load_settings(ListeningSettings)
        identity = identity_of(settings)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs.configure("gateway", form=settings.log_format, level=settings.log_level)
    proxies = identity.proxies.networks if identity.proxies is not None else ()
    forwarders = settings.forwarding_networks
    connections = Connections(
        most_of_one=settings.connections_per_address,
        most_slow=settings.slow_requests_per_address,
        proxies=Proxies((*proxies, *forwarders)),
    )
    host, port = settings.http_host, settings.http_port
    try:
        await serve(host, port, Copies(Path(record)), stop, proxies, connections=connections, forwarders=forwarders)
    except OSError as error:
        sys.stderr.write(f"ORRERY_HTTP_PORT: cannot listen on {host}:{port}: {error.strerror}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
