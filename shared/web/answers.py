"""Answers failures of any route in the envelope: wrong requests, HTTP errors, the database, bugs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shared.auth.call_rates import TooManyCalls
from shared.db.database import is_retryable, is_unstorable, unavailable
from shared.db.holders import TooManyOfOne
from shared.db.waits import RowHeld, SessionsBusy
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem, unstorable_values
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.intake import PARSED, Crowded, crowded, put_off
from shared.web.panda_paths import why_not
from shared.web.problems import WrongRequest, problems_of_request

RETRY_AFTER_S = "3"
_DATABASE_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    RowHeld,
    SessionsBusy,
    TimeoutError,
    ConnectionError,
)


def answer_errors(web: Starlette) -> None:
    """Put every error into the envelope; the framework's own forms are gone."""
    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {
        RequestValidationError: _refused_by_the_framework,
        WrongRequest: _wrong_request,
        HTTPException: _http_error,
        Crowded: _crowded,
        TooManyCalls: _put_off,
        TooManyOfOne: _too_many_of_one,
        Exception: _bug,
        **dict.fromkeys(_DATABASE_ERRORS, _database_error),
    }
    for kind, handler in handlers.items():
        web.add_exception_handler(kind, handler)


async def _refused_by_the_framework(request: Request, error: RequestValidationError) -> Response:
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body is not None else None
    return refused(BAD_REQUEST, problems=problems_of_request(error.errors(), model))


async def _wrong_request(request: Request, error: WrongRequest) -> Response:
    return refused(error.data, str(error), error.problems)


async def _http_error(request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    text = str(error.detail)
    if error.status_code in (404, 405):  # raised by the router, which does not say for what
        text = why_not(request.url.path) or f"{request.method} {request.url.path}: {text}"
    return Envelope(None, text, success=False, status_code=error.status_code, headers=headers)


async def _crowded(request: Request, error: Crowded) -> Response:
    return crowded(str(error))


async def _put_off(request: Request, error: TooManyCalls) -> Response:
    return put_off(error)


async def _too_many_of_one(request: Request, error: TooManyOfOne) -> Response:
    headers = {"Retry-After": RETRY_AFTER_S}
    return Envelope(None, unavailable(error), success=False, status_code=429, headers=headers)


async def _database_error(request: Request, error: Exception) -> Response:
    """503 while PostgreSQL is away or a row is held, a refusal for a value that no column takes.

    A 503 says what was waited for, and when to come again. Everything else is a bug.
    """
    if is_retryable(error):
        headers = {"Retry-After": RETRY_AFTER_S}
        return Envelope(None, unavailable(error), success=False, status_code=503, headers=headers)
    if is_unstorable(error):
        text = f"a value cannot be stored: {error}; nothing was changed"
        return refused(BAD_REQUEST, text, _unstorable(request, error))
    raise error


def _unstorable(request: Request, error: Exception) -> list[FieldProblem]:
    """Too large a number, a text with the character NUL: by field where it can be found in the request."""
    found = unstorable_values({**request.path_params, **request.query_params})
    if not isinstance(body := request.scope.get(PARSED), Exception):
        found += unstorable_values(body)
    return found or [problem("request", None, str(error))]


async def _bug(request: Request, error: Exception) -> Response:
    """The server logs it; the caller gets no details."""
    return Envelope(None, "internal error", success=False, status_code=500)
