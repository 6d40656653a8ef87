"""Answers of /server/panda: flat, without an envelope, never with JSON null.

What a pilot makes of a failure differs from method to method, so each method has a form:

* `always_json`: HTTP 200 and JSON with a StatusCode other than 0, whatever went wrong. Pilots take any JSON object
  without a StatusCode for a job, and end where the answer is no JSON.
* `sent_again`: what is passing is a plain text with its HTTP status, for pilots take any JSON object for a report that
  was delivered, and send one again that was answered by a text. What is final is JSON.
* `as_pair`: [false, reason].
* `as_text`: the reason alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.requests import Request
from starlette.responses import Response

from services.job_dispatch.api.failures import UnansweredRequest

RETRY_AFTER_S = "5"


def flat(data: Mapping[str, Any]) -> Response:
    """One JSON object without the fields that have no value: JSON null ends a pilot's job."""
    body = orjson.dumps({key: value for key, value in data.items() if value is not None})
    return Response(body, media_type="application/json")


def told(request: Request, data: Mapping[str, Any]) -> Response:
    """JSON for callers that accept something, `key=value&key=value` for those that do not say what.

    Lists and objects are JSON in the text.
    """
    if "accept" in request.headers:
        return flat(data)
    pairs = [(key, _text(value)) for key, value in data.items() if value is not None]
    return Response(urlencode(pairs), media_type="text/plain")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def always_json(failure: UnansweredRequest) -> Response:
    """HTTP 200 and JSON; a path or method that does not exist keeps its HTTP status."""
    body = orjson.dumps({"StatusCode": failure.code, "errorDialog": failure.text})
    status = failure.status if failure.status in (404, 405) else 200
    return Response(body, status, media_type="application/json")


def sent_again(failure: UnansweredRequest) -> Response:
    """A text that the caller answers by sending the same once more, or the final refusal as JSON."""
    if not failure.is_passing:
        return always_json(failure)
    wait_s = failure.retry_after_s or (RETRY_AFTER_S if failure.status == 503 else None)
    headers = {"Retry-After": str(wait_s)} if wait_s else None
    return Response(f"{failure.text}\n", failure.status, headers, media_type="text/plain")


def as_pair(failure: UnansweredRequest) -> Response:
    """[false, reason]."""
    return pair(False, failure.text)


def pair(is_done: bool, found: Any) -> Response:
    """[whether it was done, what was found]."""
    return Response(orjson.dumps([is_done, found]), media_type="application/json")


def as_text(failure: UnansweredRequest) -> Response:
    """The reason as a text, which is not "Succeeded"."""
    return Response(f"{failure.text}\n", failure.status, media_type="text/plain")
