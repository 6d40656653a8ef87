"""The web application: pilots' routes first (they are the many), FastAPI for the rest, one OpenAPI document."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException  # FastAPI's is one of them; the router raises these for 404 and 405
from starlette.requests import Request as StarletteRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from services.job_dispatch.body import BadBody
from services.job_dispatch.job_api import JobApi
from services.job_dispatch.pilot_api import PREFIX, PilotApi, come_again, envelope, refused
from services.job_dispatch.report_fields import UpdateJob
from services.job_dispatch.requests import FAILED, INVALID, ROLE, AcquireJobs, BadRequest, WorkerUpdate
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
    """FastAPI, with a short way for pilots: their routes are looked up in a table and need no middleware, which costs
    more than the answer itself. Their requests have a room of their own: so many at a time, so many bytes."""

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
            await super().__call__(scope, receive, send)
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
            response = envelope(False, "internal error", {"StatusCode": FAILED}, 500)
        await response(scope, receive, send)


def make_web(pilots: PilotApi, jobs: JobApi) -> FastAPI:
    """Routes and the document that describes them."""
    web = DispatchWeb(title=TITLE, docs_url="/docs", redoc_url=None)
    web.include_router(jobs.router())
    web.give_way(pilots.routes())
    web.add_exception_handler(BadRequest, _bad_request)
    web.add_exception_handler(BadBody, _bad_body)
    web.add_exception_handler(Crowded, _crowded)
    web.add_exception_handler(HTTPException, _http_error)
    web.add_exception_handler(RequestValidationError, _invalid)

    def openapi() -> dict[str, Any]:
        if web.openapi_schema is None:
            web.openapi_schema = _document(web)
        return web.openapi_schema

    web.openapi = openapi  # type: ignore[method-assign]
    return web


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return refused(error)


async def _crowded(request: Request, error: Exception) -> Response:
    return come_again(str(error))


async def _bad_body(request: Request, error: Exception) -> Response:
    return envelope(False, str(error), {"StatusCode": FAILED})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {401: INVALID, 403: ROLE}.get(error.status_code, FAILED)
    return envelope(False, str(error.detail), {"StatusCode": code}, error.status_code)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        {
            "field": str(one["loc"][-1]),
            "value": repr(one.get("input"))[:120],
            "message": f"{one['loc'][-1]}: {one['msg']}",
        }
        for one in error.errors()
    ]
    return refused(BadRequest(FAILED, problems))


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
