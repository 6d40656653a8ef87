"""The web application: pilots' routes first, because most requests are theirs, FastAPI for the rest.

There is one OpenAPI document.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.requests import Request as StarletteRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from services.job_dispatch.api.job import JobApi
from services.job_dispatch.api.pilot import PREFIX, PilotApi, come_again
from services.job_dispatch.api.report_fields import UpdateJob
from services.job_dispatch.api.requests import FAILED, AcquireJobs, WorkerUpdate
from shared.web.envelope import Envelope
from shared.web.intake import SEAT, Crowded, Room

log = logging.getLogger(__name__)

TITLE = "Orrery job-dispatch"
_ENVELOPE = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}, "message": {"type": "string"}, "data": {}},
}
_PILOT_METHODS: tuple[tuple[str, str, type[BaseModel] | None, str], ...] = (
    (
        "acquire_jobs",
        "post",
        AcquireJobs,
        "Take the best jobs that fit; none: StatusCode 20, a reason, a hint when to ask",
    ),
    ("update_job", "post", UpdateJob, 'Report a job\'s state; the reply carries a command, "NULL" for none'),
    ("update_jobs_bulk", "post", None, "Many reports as `job_list`, each with its own answer"),
    ("get_job_status", "get", None, "Status and attempt of `job_ids`"),
    ("update_worker_status", "post", WorkerUpdate, "A worker started or finished"),
)


class DispatchWeb(FastAPI):
    """FastAPI with pilots' routes in a table, without middleware, which costs more than the answer itself.

    Their requests have limits of their own: so many at a time, so many bytes.
    """

    def give_way(self, routes: Sequence[Route]) -> None:
        """Serve these routes by the short way; they stay in the routing table for whoever looks there."""
        self.router.routes[:0] = routes
        self._room = Room()
        self._short = {
            (method, route.path): route.endpoint for route in routes for method in sorted(route.methods or ())
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._short.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            is_pilot = scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/")
            await (self._no_such_method if is_pilot else super().__call__)(scope, receive, send)
            return
        scope["app"] = self
        try:
            with self._room.seat() as seat:
                scope[SEAT] = seat
                response = await endpoint(StarletteRequest(scope, receive, send))
        except Crowded as error:
            response = come_again(str(error))
        except Exception:
            log.exception("%s failed", scope["path"])
            response = Envelope({"StatusCode": FAILED}, "internal error", success=False, status_code=500)
        await response(scope, receive, send)

    async def _no_such_method(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What pilots call and this version does not have: told with a status code of their protocol."""
        allowed = sorted(method for method, path in self._short if path == scope["path"])
        status, headers = (405, {"Allow": ", ".join(allowed)}) if allowed else (404, {})
        text = f"{scope['method']} {scope['path']}: {'Method Not Allowed' if allowed else 'Not Found'}"
        data = {"StatusCode": FAILED}
        response = Envelope(data, text, success=False, status_code=status, headers=headers)
        await response(scope, receive, send)


def make_web(pilots: PilotApi, jobs: JobApi) -> FastAPI:
    """Routes and the document that describes them."""
    web = DispatchWeb(title=TITLE, docs_url="/docs", redoc_url=None)
    web.include_router(jobs.router())
    web.give_way(pilots.routes())

    def openapi() -> dict[str, Any]:
        if web.openapi_schema is None:
            web.openapi_schema = _document(web)
        return web.openapi_schema

    web.openapi = openapi  # type: ignore[method-assign]
    return web


def _document(web: FastAPI) -> dict[str, Any]:
    """FastAPI's document with the pilots' methods, whose plain routes it cannot see, added from their models."""
    document = get_openapi(title=TITLE, version="1", routes=web.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, method, model, summary in _PILOT_METHODS:
        operation: dict[str, Any] = {
            "summary": summary,
            "tags": ["pilots"],
            "operationId": name,
            "responses": {"200": {"description": "envelope", "content": {"application/json": {"schema": _ENVELOPE}}}},
        }
        if method == "get":
            ids = {"type": "array", "items": {"type": "integer"}}
            operation["parameters"] = [{"name": "job_ids", "in": "query", "required": True, "schema": ids}]
        else:
            operation["requestBody"] = {"required": True, "content": _content(model, schemas)}
        if name == "acquire_jobs":
            operation["parameters"] = [
                {
                    "name": "Idempotency-Key",
                    "in": "header",
                    "required": False,
                    "schema": {"type": "string", "maxLength": 200},
                    "description": "repeating a request with the same key, queue and worker or node gets the same job "
                    "while the job is sent, starting or running",
                }
            ]
        document["paths"].setdefault(f"{PREFIX}/{name}", {})[method] = operation
    return document


def _content(model: type[BaseModel] | None, schemas: dict[str, Any]) -> dict[str, Any]:
    if model is None:
        item = {"$ref": f"#/components/schemas/{UpdateJob.__name__}"}
        reports = {
            "type": "object",
            "properties": {"job_list": {"type": "array", "items": item}},
            "required": ["job_list"],
        }
        return {"application/json": {"schema": reports}}
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema
    reference = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    return {"application/json": reference, "application/x-www-form-urlencoded": reference}
