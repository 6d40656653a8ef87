"""The gateway's own answers, in the form of each caller's protocol, and what it logs."""

from __future__ import annotations

import json
import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

RETRY_AFTER_S = "5"


def failed(request: web.BaseRequest, status: int, reason: str) -> web.Response:
    """A failure as its caller understands it, like those of the services.

    Published pilots take any JSON object without a StatusCode for a job, and any JSON object for a report delivered.
    """
    headers = {"Retry-After": RETRY_AFTER_S} if status == 503 else {}
    if request.path == "/server/panda/getJob":
        return as_json({"StatusCode": 10, "errorDialog": reason})
    if request.path.startswith("/server/panda/"):
        return web.Response(text=f"{reason}\n", status=status, headers=headers)
    return as_json({"success": False, "message": reason, "data": None}, status, headers)


def as_json(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A response."""
    return web.Response(text=json.dumps(content), status=status, headers=headers, content_type="application/json")


class WithoutAddresses(logging.Filter):
    """Of a request that is no HTTP the log says so, not what it was: keys of pilots stand in addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record is let through."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.exc_info, record.exc_text = None, None
            record.msg, record.args = f"{record.getMessage()}: {type(error).__name__}", ()
        return True
