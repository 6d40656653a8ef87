"""The watchdog as its service has it, one transaction per run, and what it announced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.expiring import ExpiringJobs
from services.watchdog.handlers import Watchdog
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.db import Database, UnitOfWork
from shared.events import BY_ROUTING_KEY, Event
from shared.snapshot import KnownGrid

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """The database's clock of the test; starts at START."""

    now: datetime = START

    def forward(self, **duration: float) -> None:
        self.now += timedelta(**duration)


@dataclass
class Stage:
    """The watchdog on a database with the test's clock."""

    database: Database
    watchdog: Watchdog
    expiring: ExpiringJobs
    clock: Clock
    metrics: CollectorRegistry
    parameters: Parameters

    async def run(self, watch: Callable[[UnitOfWork], Awaitable[None]]) -> list[Event]:
        """One periodic run; the events that it announced."""
        async with self.database.begin(reason="periodic") as work:
            await watch(work)
        return await self.announced()

    async def sweep(self) -> list[Event]:
        """One whole round of the sweep, each slice in a transaction of its own; the events that it announced."""
        for sweep in (self.watchdog.sweep_tasks, self.watchdog.sweep_work):
            more = True
            while more:
                async with self.database.begin(reason="periodic") as work:
                    more = bool(await sweep(work))
        return await self.announced()

    async def announced(self) -> list[Event]:
        """Take what is in the outbox."""
        async with self.database.read() as connection:
            rows = await connection.fetch("DELETE FROM outbox RETURNING event_id, routing_key, body")
        return [
            BY_ROUTING_KEY[row["routing_key"]].event.model_validate(orjson.loads(row["body"]))
            for row in sorted(rows, key=lambda row: row["event_id"])
        ]

    async def set(self, key: str, value: object, component: str = "watchdog", app: str = "jedi") -> None:
        """Change a runtime parameter as an operator would, and let the watchdog know."""
        kind = {str: "str", int: "int", float: "float", bool: "bool"}[type(value)]
        async with self.database.read() as connection:
            await connection.execute(
                "INSERT INTO parameters (app, component, key, value, type) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (app, component, key, vo) DO UPDATE SET value = excluded.value, type = excluded.type",
                app,
                component,
                key,
                str(value),
                kind,
            )
            await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
            await self.parameters.refresh(connection)

    async def value(self, statement: str, *arguments: Any) -> Any:
        async with self.database.read() as connection:
            return await connection.fetchval(statement, *arguments)


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    clock = Clock()
    database = await Database.connect(database_url, actor="watchdog", now=lambda: clock.now)
    metrics = CollectorRegistry()
    parameters = Parameters()
    grid = KnownGrid(NullCache())
    watchdog = Watchdog(parameters, grid, Counter("swept", "", ["kind"], registry=metrics))
    expired, skipped = (
        Counter(name, "", [label], registry=metrics) for name, label in (("expired", "rule"), ("skipped", "vo"))
    )
    expiring = ExpiringJobs(parameters, grid, expired, skipped)
    yield Stage(database, watchdog, expiring, clock, metrics, parameters)
    await database.close()


@pytest.fixture
async def connection(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    async with stage.database.read() as connection:
        yield connection
