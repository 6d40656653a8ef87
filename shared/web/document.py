"""What every service's OpenAPI document says of answers: the envelope, whatever the HTTP status."""

from __future__ import annotations

from typing import Any

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
