"""The routes that are attacked, read from the applications of the services without starting them."""

from __future__ import annotations

import importlib
import random
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

from prometheus_client import CollectorRegistry

from services.cli.addresses import SERVICES
from shared.auth import Authority, Caller
from shared.auth.access import Whose
from shared.auth.web import Asks
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.runtime.service import Context
from tests.routes import asked_for, routes_of


@dataclass(frozen=True)
class AttackedRoute:
    """One route; `asks` None: it asks nobody who they are."""

    service: str
    methods: tuple[str, ...]
    path: str
    asks: Asks | None

    @property
    def name(self) -> str:
        """As `calls` names it: `GET /api/v1/task/list`, `GET|POST /server/panda/getJob`."""
        return f"{'|'.join(self.methods)} {self.path}"

    def may_call(self, caller: Caller) -> bool:
        """Whether roles and right are enough to ask at all."""
        assert self.asks is not None
        role = not self.asks.roles or caller.may(*self.asks.roles)
        return role and (self.asks.right is None or caller.has_right(self.asks.right))

    def allows(self, caller: Caller, whose: Whose) -> bool:
        """Whether the caller gets what is asked for, where it is about something of `whose`."""
        assert self.asks is not None
        return self.may_call(caller) and self.asks.rule.allows(caller, whose)


def all_routes() -> list[AttackedRoute]:
    """Those of every service, in the order in which the services have them.

    The console asks these with the token of its visitor: its own addresses change nothing and know nothing.
    """
    found = []
    for service in (one for one in SERVICES if one != "console"):
        for route in routes_of(service, _context()):
            methods = tuple(sorted(set(route.methods or ()) - {"HEAD"}))
            found.append(AttackedRoute(service, methods, route.path, asked_for(route)))
    return found


def application_of(service: str) -> Any:
    """The application of a service, for its document; None where it has none."""
    return importlib.import_module(f"services.{service}.app").build(_context()).web


def _context() -> Context:
    """Enough to build an application that nobody calls."""
    return Context(
        database=MagicMock(),
        cache=NullCache(),
        authority=Authority.generate(),
        random=random.Random(1),
        settings=Settings(database_url="postgresql://nowhere"),
        metrics=CollectorRegistry(),
    )
