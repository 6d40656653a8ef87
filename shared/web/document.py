"""What every service's OpenAPI document says of answers: the envelope, whatever the HTTP status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.release import RELEASE

API = "/api/v1/"
ENVELOPE: dict[str, Any] = {
    "type": "object",
    "required": ["success", "message", "data"],
    "properties": {
        "success": {"type": "boolean"},
        "message": {"type": "string"},
        "data": {"description": "of a refusal: the API's number"},
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "value", "allowed", "message"],
                "properties": {
                    "field": {"type": "string"},
                    "allowed": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
    },
}
_NAME = "Envelope"
#: the framework's own refusals, which no caller ever sees
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def with_envelopes(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the envelope as the answer of every operation of the API."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas[_NAME] = ENVELOPE
    for name in _NOT_OURS:
        schemas.pop(name, None)
    reference = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_NAME}"}}}
    for path, operations in document.get("paths", {}).items():
        for operation in operations.values():
            operation.get("responses", {}).pop("422", None)
            if path.startswith(API):
                operation["responses"] = {
                    "200": {"description": "done, or refused: `success` tells", "content": reference},
                    "default": {
                        "description": "401, 403: who calls; 4xx: the request; 503: later",
                        "content": reference,
                    },
                }
    return document


def path_of_document(service: str) -> str:
    """Where the one address has the document of a service. Example: /openapi/job-dispatch.json."""
    return f"/openapi/{service}.json"


def list_of_documents(services: Iterable[str]) -> dict[str, dict[str, str]]:
    """What the one address answers at /openapi.json: the path of each service's document."""
    return {"documents": {one: path_of_document(one) for one in sorted(services)}}


def add_document(web: FastAPI, service: str) -> None:
    """Serve the document, which names the release, under a path of its own beside /openapi.json.

    Pages for people, an application without that, have none.
    """
    web.version = RELEASE
    if web.openapi_url is None:
        return

    async def document(request: Request) -> Response:
        return JSONResponse(web.openapi())

    web.router.routes.append(Route(path_of_document(service), document))
