"""The envelope of every answer: {"success", "message", "data"}, and "problems" of refused values.

Users get refusals with HTTP 200, as PanDA's clients expect; 401 and 403 are for callers without a token or a role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shared.web.refusals import causes_of, count_refused

#: the API's numbers, the data of a refusal (PanDA client: task/kill and others)
NOT_FOUND, BAD_REQUEST = 2, 5
#: problems whose sentences make the message; all of them are listed
MOST_IN_MESSAGE = 20


class ListedProblem(Protocol):
    """What is wrong with one value; `as_sent` has field, value, allowed and message."""

    @property
    def field(self) -> str: ...

    def as_sent(self) -> dict[str, Any]: ...


class Envelope(Response):
    """The answer of every endpoint."""

    media_type = "application/json"

    def __init__(
        self,
        data: Any = None,
        message: str = "",
        *,
        success: bool = True,
        status_code: int = 200,
        problems: Iterable[ListedProblem] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        content: dict[str, Any] = {"success": success, "message": message, "data": data}
        found = list(problems)
        if found:
            content["problems"] = [one.as_sent() for one in found]
        self._refusal = None if success else (data, found)
        super().__init__(_json(content), status_code=status_code, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._refusal is not None:
            count_refused(scope, causes_of(self.status_code, *self._refusal))
        await super().__call__(scope, receive, send)


def refused(data: Any, message: str = "", problems: Iterable[ListedProblem] = ()) -> Envelope:
    """A refusal: `data` is the API's number. Without a message the problems are the message."""
    found = list(problems)
    return Envelope(data, message or sentences(found), success=False, problems=found)


def sentences(problems: Iterable[ListedProblem]) -> str:
    """The problems as one message."""
    found = [str(one) for one in problems]
    more = len(found) - MOST_IN_MESSAGE
    return "; ".join(found[:MOST_IN_MESSAGE]) + (f"; and {more} more" if more > 0 else "")


def _json(content: Any) -> bytes:
    try:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS, default=_as_json)
    except TypeError:  # half a surrogate pair or a whole number of more than 8 bytes, which only a refusal repeats
        return json.dumps(content, default=_as_json).encode()


def _as_json(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)
