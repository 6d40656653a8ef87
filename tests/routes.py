"""The routes of every service, and what each asks of its caller."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Route

from shared.auth.web import Asks
from shared.runtime.service import Context

DOCUMENTS = ("/docs", "/redoc", "/openapi.json", "/livez", "/readyz", "/metrics")


def routes_of(service: str, context: Context) -> list[Any]:
    """All but those of the documentation and of health."""
    web = importlib.import_module(f"services.{service}.app").build(context).web
    routes = list(_flat(web.routes)) if web is not None else []
    return [one for one in routes if not one.path.startswith(DOCUMENTS)]


def _flat(routes: Any) -> Iterator[Any]:
    for route in routes:
        inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", None)
        if inner:
            yield from _flat(inner)
        elif isinstance(route, Route):
            yield route


def asked_for(route: Any) -> Asks | None:
    """Rule, roles and right that a route asks for; None: it asks nobody who they are."""
    if not isinstance(route, APIRoute):
        return getattr(route.endpoint, "asks_for", None)
    return next(_dependencies(route.dependant), None)


def _dependencies(dependant: Dependant) -> Iterator[Asks]:
    if (found := getattr(dependant.call, "asks_for", None)) is not None:
        yield found
    for one in dependant.dependencies:
        yield from _dependencies(one)
