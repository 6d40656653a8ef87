"""The OpenAPI document: FastAPI's, with the methods of pilots, whose plain routes it cannot see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.job_dispatch.api.debugging import SetDebugMode
from services.job_dispatch.api.legacy_credentials import GetKeyPair, GetProxy, GetUserSecrets
from services.job_dispatch.api.legacy_methods import PREFIX as LEGACY
from services.job_dispatch.api.legacy_names import legacy_name
from services.job_dispatch.api.pilot import PREFIX
from services.job_dispatch.api.range_reports import AcquireEventRanges, UpdateEventRanges
from services.job_dispatch.api.relays import relays
from services.job_dispatch.api.report_fields import UpdateJob
from services.job_dispatch.api.requests import AcquireJobs, RequestFields, WorkerUpdate
from services.job_dispatch.api.worker_nodes import WorkerNode, WorkerNodeGpu
from shared.web.document import ENVELOPE

_FLAT = {
    "type": "object",
    "required": ["StatusCode"],
    "properties": {"StatusCode": {"type": "integer"}, "errorDialog": {"type": "string"}},
}
_PAIR = {"type": "array", "minItems": 2, "maxItems": 2}


@dataclass(frozen=True)
class Method:
    """One method of pilots: its fields are those of a model, or the ids or texts in its query.

    `flat`: the JSON that it answers; `may_be_text`: where a text may come instead.
    """

    path: str
    summary: str
    model: type[RequestFields] | None = None
    ids: str | None = None
    texts: tuple[str, ...] | None = None
    flat: dict[str, Any] = field(default_factory=lambda: _FLAT)
    may_be_text: bool = True

    @property
    def is_legacy(self) -> bool:
        return self.path.startswith(LEGACY)


METHODS = (
    Method(
        f"{PREFIX}/acquire_jobs",
        "Take the best jobs that fit; none: StatusCode 20, a reason, a hint when to ask",
        AcquireJobs,
    ),
    Method(
        f"{PREFIX}/update_job",
        'Report a job\'s state; the reply carries a command, "NULL" for none',
        UpdateJob,
    ),
    Method(f"{PREFIX}/update_jobs_bulk", "Many reports as `job_list`, each with its own answer"),
    Method(f"{PREFIX}/get_job_status", "Status and attempt of `job_ids`", ids="job_ids"),
    Method(f"{PREFIX}/update_worker_status", "A worker started or finished", WorkerUpdate),
    Method(f"{PREFIX}/update_worker_node", "Processors, memory and disk of a machine", WorkerNode),
    Method(f"{PREFIX}/update_worker_node_gpu", "One kind of GPU in a machine", WorkerNodeGpu),
    Method(f"{LEGACY}/getJob", "Take the best job that fits: its fields beside StatusCode, or 20", AcquireJobs),
    Method(f"{LEGACY}/updateJob", "Report a job's state; the reply carries a command", UpdateJob),
    Method(f"{LEGACY}/updateWorkerPilotStatus", "A worker started or finished", WorkerUpdate),
    Method(f"{LEGACY}/setDebugMode", 'Debug mode on or off: the text "Succeeded", or the reason', SetDebugMode),
    Method(f"{LEGACY}/getProxy", "A proxy certificate for those whom the configuration names", GetProxy),
    Method(f"{LEGACY}/getKeyPair", "A key pair for those whom the configuration names", GetKeyPair),
    Method(f"{LEGACY}/get_user_secrets", "[true, values by key] of what the caller keeps", GetUserSecrets, flat=_PAIR),
    *(
        Method(one.path, "Why there is none here: [false, reason], or a text", RequestFields, flat=_PAIR)
        for one in relays()
    ),
    Method(f"{LEGACY}/getEventRanges", "Take ranges of events of a job's input", AcquireEventRanges),
    Method(f"{LEGACY}/updateEventRanges", "Report ranges: `Returns` for each, `Command` by job", UpdateEventRanges),
    Method(f"{LEGACY}/get_access_token", "A fresh token for the key of one", texts=("token_key", "client_name")),
    Method(f"{LEGACY}/getResourceTypes", "The classes of cores and memory", texts=()),
    Method(f"{LEGACY}/getStatus", "States and attempts of `ids`, joined by commas", ids="ids"),
)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "repeating a request with the same key, queue and worker or node gets the same job while the job is "
    "sent, starting or running",
}


def document_of(web: FastAPI, title: str) -> dict[str, Any]:
    """FastAPI's document with the methods of pilots."""
    document = get_openapi(title=title, version=web.version, routes=web.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for method in METHODS:
        verb = "post" if method.ids is None and method.texts is None else "get"
        document["paths"].setdefault(method.path, {})[verb] = _operation(method, schemas)
    return document


def _operation(method: Method, schemas: dict[str, Any]) -> dict[str, Any]:
    answer = {"application/json": {"schema": ENVELOPE}}
    if method.is_legacy:
        answer = {"application/json": {"schema": method.flat}}
        if method.may_be_text:
            answer["text/plain"] = {"schema": {"type": "string"}}
    operation: dict[str, Any] = {
        "summary": method.summary,
        "tags": ["published pilots" if method.is_legacy else "pilots"],
        "operationId": method.path.rpartition("/")[2],
        "responses": {"default": {"description": "flat" if method.is_legacy else "envelope", "content": answer}},
    }
    if method.ids:
        ids = {"type": "array", "items": {"type": "integer"}}
        operation["parameters"] = [{"name": method.ids, "in": "query", "required": True, "schema": ids}]
    elif method.texts is not None:
        text = {"type": "string"}
        operation["parameters"] = [{"name": one, "in": "query", "schema": text} for one in method.texts]
    else:
        operation["requestBody"] = {"required": True, "content": _content(method, schemas)}
    if method.model is AcquireJobs:
        operation["parameters"] = [_KEY]
    return operation


def _content(method: Method, schemas: dict[str, Any]) -> dict[str, Any]:
    if method.model is None:
        item = {"$ref": f"#/components/schemas/{UpdateJob.__name__}"}
        reports = {
            "type": "object",
            "properties": {"job_list": {"type": "array", "items": item}},
            "required": ["job_list"],
        }
        return {"application/json": {"schema": reports}}
    schema = method.model.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    name = method.model.__name__
    if method.is_legacy:
        name, called = f"Legacy{name}", method.path.rpartition("/")[2]
        schema["properties"] = {legacy_name(called, key): one for key, one in schema["properties"].items()}
        schema["required"] = [legacy_name(called, key) for key in schema.get("required", ())]
    schemas[name] = schema
    reference = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    return {"application/json": reference, "application/x-www-form-urlencoded": reference}
