"""What a service is made of.

`services/<name>/app.py` has `build(context) -> Service`; the runtime does the rest.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from shared.auth import Authority
from shared.auth.authentication import Authentication
from shared.auth.revocation import LOOKED_AT_EVERY_S
from shared.cache import Cache
from shared.config.parameters import REFRESH_EVERY_S, Parameters
from shared.config.settings import Settings
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events.base import Event
from shared.events.news import ConfigChanged
from shared.signed_sources import SourceKeys
from shared.web.json_text import BodyLimits

Handler = Callable[[Any, UnitOfWork], Awaitable[None]]
"""Called inside a transaction that already holds the inbox row of the event."""

NewsHandler = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True)
class Periodic:
    """Work done every `every_s` seconds in one transaction; `lease`: by one replica at a time, fenced.

    `partition`: parts of one work have its name, and each a lease of its own.

    Long work is cut into slices: a run that returns True left some, and the next one follows at once, or after `rest`
    times as long as the one before took: what can wait leaves the machine to what cannot.
    """

    name: str
    every_s: float
    run: Callable[[UnitOfWork], Awaitable[bool | None]]
    lease: bool = True
    partition: str = ""
    rest: float = 0.0


@dataclass
class Service:
    """What a service gives the runtime to run.

    `work`: one shared quorum queue per pair, through the inbox; replicas compete.
    `news`: every replica gets it, it may be lost.
    `background`: loops that run until they are cancelled at the stop; one that fails is started again.
    `body_limits`: the paths of `web` that take larger bodies than others.
    `on_news_interrupted`: called when news may have been missed: its connection was lost and is open again.
    `on_stop`: called when the stop begins, for answers that go on until then.
    `drains_dead_queue`: its replicas move the broker's dead letters into `parked_messages` (the watchdog does).
    """

    name: str
    work: Sequence[tuple[type[Event], Handler]] = ()
    news: Sequence[tuple[type[Event], NewsHandler]] = ()
    periodic: Sequence[Periodic] = ()
    web: FastAPI | None = None
    body_limits: Mapping[str, BodyLimits] = field(default_factory=dict)
    background: Sequence[Callable[[], Awaitable[None]]] = ()
    on_start: Sequence[Callable[[], Awaitable[None]]] = ()
    drains_dead_queue: bool = False
    on_news_interrupted: Sequence[Callable[[], None]] = ()
    on_stop: Sequence[Callable[[], None]] = ()


def with_parameters(parameters: Parameters, database: Database, service: Service) -> Service:
    """The service; it reads its parameters at its start, on news of them and periodically."""

    async def read(event: ConfigChanged | None = None) -> None:
        async with database.read() as connection:
            await parameters.refresh(connection)

    async def refresh(work: UnitOfWork) -> None:
        await parameters.refresh(work.connection)

    return replace(
        service,
        news=[*service.news, (ConfigChanged, read)],
        periodic=[Periodic("parameters", REFRESH_EVERY_S, refresh, lease=False), *service.periodic],
        on_start=[read, *service.on_start],
    )


def with_authentication(authentication: Authentication, database: Database, service: Service) -> Service:
    """The service; it learns of revoked tokens by news and periodically, and keeps the issuers' keys."""
    revocations = authentication.revocations

    async def read(event: ConfigChanged | None = None) -> None:
        async with database.read() as connection:
            await revocations.refresh(connection)

    async def refresh(work: UnitOfWork) -> None:
        await revocations.refresh(work.connection)

    return replace(
        service,
        news=[*service.news, (ConfigChanged, read)],
        periodic=[Periodic("revocations", LOOKED_AT_EVERY_S, refresh, lease=False), *service.periodic],
        on_start=[read, *service.on_start],
        background=[authentication.keep_keys, *service.background],
    )


@dataclass(frozen=True)
class Context:
    """What every composition root receives."""

    database: Database
    cache: Cache
    authority: Authority
    random: random.Random
    settings: Settings
    metrics: CollectorRegistry
    source_keys: SourceKeys = field(default_factory=SourceKeys.generate)


Build = Callable[[Context], Service]
