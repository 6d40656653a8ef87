"""The envelope of the field's API: HTTP 200 with {"success", "message", "data"}, refusals included; 401 and 403 for
callers without a token or a role. A refusal that has problems to list carries them under "problems" too."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BeforeValidator
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shared.model.task_spec_problems import problems_of_request

BAD_REQUEST = 5
LARGEST_ID = 2**63 - 1


class Envelope(Response):
    """The reply of every endpoint."""

    media_type = "application/json"

    def __init__(
        self,
        data: Any = None,
        message: str = "",
        *,
        success: bool = True,
        status_code: int = 200,
        problems: Iterable[Any] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        content: dict[str, Any] = {"success": success, "message": message, "data": data}
        listed = [{"field": one.field, "value": one.value, "allowed": one.allowed} for one in problems]
        if listed:
            content["problems"] = listed
        body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS, default=str)
        super().__init__(body, status_code=status_code, headers=headers)


def refused(code: Any, message: str, problems: Iterable[Any] = ()) -> Envelope:
    """A refusal: `code` is the API's number."""
    return Envelope(code, message, success=False, problems=problems)


def _absent(value: Any) -> Any:
    """Clients send Python's None as text."""
    return None if value in ("None", "null", "") else value


def _in_range(value: int) -> int:
    if not 1 <= value <= LARGEST_ID:
        raise ValueError(f"the id is out of range; allowed: 1 to {LARGEST_ID}")
    return value


def _time(value: Any) -> Any:
    """A time as clients write it; without a zone it is UTC."""
    if isinstance(value, str) and _absent(value) is not None:
        at = datetime.fromisoformat(value.strip())
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return _absent(value)


Id = Annotated[int, AfterValidator(_in_range)]
Text = Annotated[str | None, BeforeValidator(_absent)]
Number = Annotated[int | None, BeforeValidator(_absent)]
Truth = Annotated[bool | None, BeforeValidator(_absent)]
Time = Annotated[datetime | None, BeforeValidator(_time)]


def put_into_envelopes(web: FastAPI) -> None:
    """Errors of the framework in the envelope as well."""

    @web.exception_handler(RequestValidationError)
    async def wrong_request(request: Request, error: RequestValidationError) -> Response:
        told = problems_of_request(error.errors())
        return refused(BAD_REQUEST, "; ".join(str(one) for one in told), told)

    @web.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        return Envelope(None, str(error.detail), success=False, status_code=error.status_code, headers=headers)
