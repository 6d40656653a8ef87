"""The template every run is copied from: schema, grid and catalogue, loaded once through the services' own routes."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import asyncpg
import orjson
from prometheus_client import CollectorRegistry

from shared.auth import Authority
from shared.db.partitions import DAILY_TABLES, days_of
from shared.messaging.in_process import InProcessTransport
from shared.messaging.metrics import MessagingMetrics
from tests import servers
from tests.simulation import scenario
from tests.simulation.clock import VirtualClock
from tests.simulation.crashes import Crashes, SimulatedDatabase, open_pool
from tests.simulation.services import Services

_LOCK = 0x73696D75
_ready: dict[str, str] = {}
_TABLES = """
SELECT oid::regclass::text AS name FROM pg_class
 WHERE relkind = 'r' AND oid >= 16384 ORDER BY oid
"""


async def ensure_world(server_url: str, authority: Authority) -> str:
    """The name of the template; made by whichever process comes first, looked for once by each."""
    if server_url in _ready:
        return _ready[server_url]
    schema = await servers.ensure_template(server_url)
    name = f"orrery_world_{schema[-8:]}_{_digest()}"
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        ready = await connection.fetchval("SELECT NOT datallowconn FROM pg_database WHERE datname = $1", name)
        if ready:
            _ready[server_url] = name
            return name
        if ready is not None:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{schema}" {servers.COPIED}')
        for setting in ("synchronous_commit = off", "plan_cache_mode = force_generic_plan"):
            await connection.execute(f'ALTER DATABASE "{name}" SET {setting}')
        await _drop_days(servers.with_database(server_url, name))
        await _load(servers.with_database(server_url, name), authority)
        await _keep_statistics(servers.with_database(server_url, name))
        await connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        return name
    finally:
        await connection.close()


async def _drop_days(url: str) -> None:
    """The virtual clock is years later: the retention of the first run would change the schema of the world."""
    connection = await asyncpg.connect(url)
    try:
        for table in DAILY_TABLES:
            for day in await days_of(connection, table):
                await connection.execute(f"DROP TABLE {table.child(day)}")
    finally:
        await connection.close()


async def _load(url: str, authority: Authority) -> None:
    clock = VirtualClock()
    pool = await open_pool(url, name="prepared world")
    database = SimulatedDatabase(pool, actor="simulation", now=clock, crashes=Crashes(random.Random(0)))
    transport = InProcessTransport(database, MessagingMetrics(CollectorRegistry()))
    services = Services(random.Random(0), database, url, transport, authority, seed=0)
    token = authority.issue("operator", ["operator"])
    grid = scenario.small_grid()
    try:
        wanted = [("job-brokerage", "grid/load", {"files": grid})]
        wanted += [("task-definition", "catalogue/import", scenario.catalogue(grid))]
        wanted += [("task-definition", "config/set", parameter) for parameter in scenario.PARAMETERS]
        for service, path, body in wanted:
            reply = await services.client(service, token).post(f"/api/v1/{path}", body)
            assert reply.json()["success"], reply.text
        while await transport.load() or transport.waiting:
            await transport.step()
        await transport.delete_settled()
    finally:
        await database.close()


async def _keep_statistics(url: str) -> None:
    """Plans must not depend on when the server last found time to count rows."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ANALYZE")
        for table in await connection.fetch(_TABLES):
            await connection.execute(f"ALTER TABLE {table['name']} SET (autovacuum_enabled = false)")
    finally:
        await connection.close()


def _digest() -> str:
    grid = scenario.small_grid()
    content = orjson.dumps([grid, scenario.catalogue(grid), scenario.PARAMETERS], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content + Path(__file__).read_bytes()).hexdigest()[:8]
