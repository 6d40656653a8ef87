"""Every service with routes, ready to be asked, and what each of its answers must look like."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.routing import Route

from services.cli.one_process import composition_roots
from shared.auth import Authority
from shared.runtime.service import Context
from tests.applications import application_of

ROLES = ("operator", "production", "pilot", "user")
#: the services that have routes of their own
NAMES = ("job-brokerage", "job-dispatch", "job-generation", "share-correction", "task-definition", "watchdog")
#: the interface of published pilots, whose answers have no envelope
LEGACY = "/server/panda/"
PROBLEM = {"field", "value", "allowed", "message"}


@dataclass(frozen=True)
class Asked:
    """One route with one of its methods, and the names of what it takes."""

    method: str
    path: str
    in_path: tuple[str, ...]
    in_query: tuple[str, ...]
    in_body: tuple[str, ...]


async def web_of(context: Context, authority: Authority, name: str) -> FastAPI:
    """A service's application as the runtime serves it."""
    built = composition_roots()[name](dataclasses.replace(context, metrics=CollectorRegistry()))
    web = application_of(built, authority)
    for action in built.on_start:
        await action()
    return web


def client_of(web: FastAPI, token: str | None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(web, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://s", headers=headers, timeout=60)


def routes_of(web: FastAPI) -> Iterator[Asked]:
    """Every route but those of the documentation: what is described, and plain routes with all their methods."""
    document = web.openapi()
    paths = document["paths"].items()
    found = {(path, method.upper()): told for path, methods in paths for method, told in methods.items()}
    for route in web.router.routes:
        if isinstance(route, Route) and route.path.startswith(("/api/", LEGACY)):
            for method in (route.methods or set()) - {"HEAD"}:
                found.setdefault((route.path, method), {})
    for (path, method), told in sorted(found.items()):
        given = told.get("parameters", [])
        yield Asked(
            method,
            path,
            tuple(one["name"] for one in given if one["in"] == "path"),
            tuple(one["name"] for one in given if one["in"] == "query"),
            _fields_of_body(told, document),
        )


def _fields_of_body(told: dict[str, Any], document: dict[str, Any]) -> tuple[str, ...]:
    content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return tuple(schema.get("properties", {}))


def wrong_with(answer: httpx.Response) -> str:
    """What is not as in every answer, or nothing."""
    if answer.status_code >= 500:
        return "an error of ours"
    if answer.request.url.path.startswith(LEGACY):
        return _wrong_with_flat(answer)
    try:
        body = answer.json()
    except ValueError:
        return "no JSON"
    if not isinstance(body, dict) or not {"success", "message", "data"} <= body.keys() or "detail" in body:
        return "no envelope"
    if body["success"]:
        return "" if answer.status_code == 200 else "success with another status"
    listed = body.get("problems", [])
    if not body["message"] and not isinstance(body["data"], list):
        return "a refusal without a reason"
    if any(not isinstance(one, dict) or not one.keys() >= PROBLEM or not one["message"] for one in listed):
        return "a problem that does not name field, value, allowed and message"
    is_pilot = isinstance(body["data"], dict) and "StatusCode" in body["data"]
    if (body["data"] == 5 or (is_pilot and body["data"]["StatusCode"] in (30, 50))) and not listed:
        is_whole = answer.status_code in (401, 404, 405) or _is_of_a_job(body)
        return "" if is_whole else "a refused value without its problem"
    return ""


def _wrong_with_flat(answer: httpx.Response) -> str:
    """What a published pilot could not understand: it takes any JSON object without a StatusCode for a job."""
    if answer.headers["content-type"].startswith("text/plain"):
        return "" if answer.text.strip() else "an empty text"
    try:
        body = answer.json()
    except ValueError:
        return "neither JSON nor a text"
    if isinstance(body, list):
        return "" if len(body) == 2 and isinstance(body[0], bool) else "a list that is no pair"
    if type(body.get("StatusCode")) is not int or None in body.values():
        return "no StatusCode, or a JSON null"
    return "" if body["StatusCode"] in (0, 20) or body.get("errorDialog") else "a refusal without a reason"


def status_of(answer: httpx.Response) -> int:
    """The HTTP status; of an answer to a published pilot what its StatusCode stands for."""
    content_type = answer.headers["content-type"]
    if not answer.request.url.path.startswith(LEGACY) or not content_type.endswith("json"):
        return answer.status_code
    body = answer.json()
    if isinstance(body, list):  # [false, reason]
        return 200 if body[0] else 403 if "needs the role" in body[1] else 401
    return {50: 401, 60: 403}.get(body["StatusCode"], answer.status_code)


def _is_of_a_job(body: dict[str, Any]) -> bool:
    """Each report of many has its own answer."""
    return "command" in body["data"] if isinstance(body["data"], dict) else False
