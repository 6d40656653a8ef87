"""What a service admits: requests and bytes at a time, and per request, counted before parsing."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.auth import Caller, NotAuthenticated, authentication_of, caller_of, identify
from shared.auth.call_rates import TooManyCalls
from shared.db.holders import acting_for
from shared.model.batches import batches
from shared.model.problems import FieldProblem
from shared.model.steps import Steps
from shared.web.envelope import BAD_REQUEST, Envelope
from shared.web.json_text import SMALL_BYTES, BodyLimits, Raw, TooMuch, parse_json
from shared.web.slices import freed, in_slices, without_collections

GZIP_MAGIC = b"\x1f\x8b"
#: where a request carries its parsed body, or the error of the parser
PARSED = "orrery.json"
SEAT = "orrery.seat"
RETRY_AFTER_S = 5
_UNZIPPED_AT_ONCE = 64 * 1024
DEFAULT_LIMITS = BodyLimits()
#: answered whoever asks, and however many others do
HEALTH = frozenset({"/livez", "/readyz", "/metrics"})


class Crowded(Exception):
    """Too many requests or bytes wait: the caller should come again in `RETRY_AFTER_S` seconds."""


class BrokenBody(ValueError):
    """A body that cannot be unpacked, or is no text."""


class Room:
    """How many requests one application works on at a time, and how many bytes of their bodies it keeps."""

    def __init__(self, most_requests: int = 10_000, most_bytes: int = 128 * 1024 * 1024) -> None:
        self.most_requests = most_requests
        self.most_bytes = most_bytes
        self.n_requests = 0
        self.n_bytes = 0

    def seat(self) -> Seat:
        """A place for one request, to be used as a context. Raises Crowded when there is none."""
        if self.n_requests >= self.most_requests:
            raise Crowded(f"{self.n_requests} requests wait here already; come again in {RETRY_AFTER_S} s")
        return Seat(self)


class Seat:
    """One request's place: given back, with the bytes it held, when the request has been answered."""

    __slots__ = ("_n_bytes", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._n_bytes = 0

    def hold(self, n_bytes: int) -> None:
        """So many more bytes of the request's body are kept. Raises Crowded when there is no room for them."""
        if self._room.n_bytes + n_bytes > self._room.most_bytes:
            text = f"the requests that wait here hold {self._room.n_bytes} bytes; come again in {RETRY_AFTER_S} s"
            raise Crowded(text)
        self._room.n_bytes += n_bytes
        self._n_bytes += n_bytes

    def __enter__(self) -> Seat:
        self._room.n_requests += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._room.n_requests -= 1
        self._room.n_bytes -= self._n_bytes


async def read_body(scope: Scope, receive: Receive, limits: BodyLimits, seat: Seat | None = None) -> Raw:
    """The whole body, unpacked if it starts like gzip (pilots do not say so).

    Raises TooMuch before more than the limit is kept, Crowded, BrokenBody for broken gzip, ClientDisconnect when the
    caller has gone. A large one is not copied into other bytes, which would take milliseconds.
    """
    stated = header_of(scope, b"content-length") or b"0"
    if stated.isdigit() and len(stated) < 20 and int(stated) > limits.n_bytes:
        raise TooMuch(f"{int(stated)} bytes are not allowed; at most {limits.n_bytes} are")
    body: Raw = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect()
        part = message.get("body", b"")
        if seat is not None and part:
            seat.hold(len(part))
        if not body and not message.get("more_body", False) and len(part) <= SMALL_BYTES:
            body = part  # as it came
        else:
            body = body if isinstance(body, bytearray) else bytearray(body)
            body += part
        if len(body) > limits.n_bytes:
            raise TooMuch(f"{len(body)} bytes and more are not allowed; at most {limits.n_bytes} are")
        if not message.get("more_body", False):
            break
    if body[:2] != GZIP_MAGIC:
        return body
    unpacked = await in_slices(_unzipped(body, limits.n_bytes))
    if seat is not None:
        seat.hold(len(unpacked))
    return unpacked


def _unzipped(packed: Raw, most_bytes: int) -> Steps[Raw]:
    unpacker, data = zlib.decompressobj(wbits=31), bytearray()
    try:
        for some in batches(packed, _UNZIPPED_AT_ONCE):
            part: Raw = some
            while part and not unpacker.eof and len(data) <= most_bytes:
                data += unpacker.decompress(part, _UNZIPPED_AT_ONCE)
                part = unpacker.unconsumed_tail
                yield
    except zlib.error as error:
        raise BrokenBody(f"broken gzip: {error}") from None
    if len(data) > most_bytes:
        raise TooMuch(f"{len(data)} bytes and more are not allowed; at most {most_bytes} are")
    if not unpacker.eof:
        raise BrokenBody("broken gzip: it ends too early")
    return data


def bound_requests(web: Starlette, larger: Mapping[str, BodyLimits] | None = None, room: Room | None = None) -> None:
    """Put the limits before every route of a service.

    `larger` names the paths that may take more than the default; a body beyond the default is read from callers with a
    token only.
    """
    web.add_middleware(Intake, larger=larger or {}, room=room or Room())


class Intake:
    """Reads the body of a request, counts it, parses it if it is JSON, and hands it on."""

    def __init__(self, app: ASGIApp, *, larger: Mapping[str, BodyLimits], room: Room) -> None:
        self._app = app
        self._larger = larger
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        try:
            with self._room.seat() as seat:
                scope[SEAT] = seat
                await identify(scope)
                with acting_for(authentication_of(scope).count_call(scope, _caller(scope))):
                    await self._answer(scope, receive, send, seat)
        except TooManyCalls as error:
            await put_off(error)(scope, receive, send)
        except TooMuch as error:
            await _refused_body(413, error)(scope, receive, send)
        except BrokenBody as error:
            await _refused_body(400, error)(scope, receive, send)
        except Crowded as error:
            await crowded(str(error))(scope, receive, send)
        except ClientDisconnect:
            return  # nobody listens

    async def _answer(self, scope: Scope, receive: Receive, send: Send, seat: Seat) -> None:
        if not _has_body(scope) or self._larger.get(scope["path"], DEFAULT_LIMITS).streamed:
            await self._app(scope, receive, send)
            return
        with ExitStack() as stack:
            body = await self._take(scope, receive, seat)
            is_large = len(body) > SMALL_BYTES
            if is_large:
                stack.enter_context(without_collections())
            try:
                await self._app(scope, _again(body, receive), send)
            finally:
                if is_large:
                    await in_slices(freed(scope.pop(PARSED, None)))

    async def _take(self, scope: Scope, receive: Receive, seat: Seat) -> Raw:
        limits = self._larger.get(scope["path"], DEFAULT_LIMITS)
        if limits.n_bytes > SMALL_BYTES and _caller(scope) is None:
            limits = DEFAULT_LIMITS
        body = await read_body(scope, receive, limits, seat)
        if b"json" in (header_of(scope, b"content-type") or b""):
            try:
                scope[PARSED] = await parse_json(body, limits)
            except orjson.JSONDecodeError as error:
                scope[PARSED] = error
        elif len(body) > SMALL_BYTES:
            raise TooMuch(f"{len(body)} bytes are not allowed; at most {SMALL_BYTES} of what is not sent as JSON are")
        else:
            try:
                body.decode()
            except UnicodeDecodeError as error:
                raise BrokenBody(f"neither JSON nor a text in UTF-8: {error.reason} at byte {error.start}") from None
        return body


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") and value != b"0" for name, value in scope["headers"])


def header_of(scope: Scope, wanted: bytes) -> bytes | None:
    """The first header of this name (in small letters), as it was sent."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == wanted:
            return value
    return None


def _caller(scope: Scope) -> Caller | None:
    try:
        return caller_of(HTTPConnection(scope))
    except NotAuthenticated:
        return None


def _again(body: Raw, receive: Receive) -> Receive:
    """The body once more, for the application; then whatever comes."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def crowded(reason: str, data: Any = None) -> Envelope:
    """The answer to a caller that should come again."""
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return Envelope(data, reason, success=False, status_code=503, headers=headers)


def put_off(error: TooManyCalls) -> Envelope:
    """The answer to a caller that calls too often."""
    headers = {"Retry-After": str(error.retry_after_s)}
    return Envelope(None, str(error), success=False, status_code=429, headers=headers)


def _refused_body(status: int, error: Exception) -> Response:
    one = FieldProblem("body", "", str(error))
    return Envelope(BAD_REQUEST, str(one), success=False, status_code=status, problems=[one])
