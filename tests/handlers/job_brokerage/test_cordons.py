"""An operator closes a queue for new work, and opens it again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.job_brokerage.app import build
from services.job_brokerage.store.worlds import save_world
from shared.auth import Caller
from shared.cache import NullCache
from shared.db import Database
from shared.model.queue import QueueStatus
from shared.runtime.service import Context
from shared.snapshot import Snapshot
from tests.applications import application_of
from tests.handlers.grids import load_grid, small_grid

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


def client_of(context: Context, *roles: str) -> httpx.AsyncClient:
    token = context.authority.issue("olga", roles)
    own = replace(context, metrics=CollectorRegistry())
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application_of(build(own), context.authority)),
        base_url="http://test",
        headers={"Authorization": f"Bearer {token}"},
    )


@pytest.fixture
async def operator(context: Context, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    await load_grid(database)
    async with client_of(context, "operator") as client:
        yield client


async def status_of(database: Database, queue: str) -> QueueStatus:
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    return snapshot.world.grid.queues[queue].status


async def listed(operator: httpx.AsyncClient, queue: str) -> dict[str, Any]:
    rows = (await operator.get("/api/v1/grid/queues")).json()["data"]
    return next(row for row in rows if row["queue"] == queue)


async def cordon(operator: httpx.AsyncClient, queue: str) -> httpx.Response:
    return await operator.post("/api/v1/grid/cordon", json={"queue": queue, "reason": "the disk is full"})


async def test_a_cordoned_queue_is_brokeroff_for_brokerage_dry_runs_and_lists_until_it_is_uncordoned(
    operator: httpx.AsyncClient, database: Database
) -> None:
    assert (await cordon(operator, "Q_ALPHA")).json()["success"]
    assert await status_of(database, "Q_ALPHA") == QueueStatus.BROKEROFF
    async with database.read() as connection:
        assert (await save_world(connection, OPERATOR)).queues["Q_ALPHA"]["status"] == "brokeroff"
    row = await listed(operator, "Q_ALPHA")
    assert (row["status"], row["cordon_reason"], row["cordoned_by"]) == ("brokeroff", "the disk is full", "olga")
    assert (await operator.post("/api/v1/grid/uncordon", json={"queue": "Q_ALPHA"})).json()["success"]
    assert await status_of(database, "Q_ALPHA") == QueueStatus.ONLINE
    assert (await listed(operator, "Q_ALPHA"))["cordon_reason"] is None


async def test_a_grid_that_is_loaded_later_does_not_open_a_cordoned_queue(
    operator: httpx.AsyncClient, database: Database
) -> None:
    await cordon(operator, "Q_ALPHA")
    await load_grid(database)
    assert await status_of(database, "Q_ALPHA") == QueueStatus.BROKEROFF


async def test_a_cordon_does_not_open_what_the_grid_closed(operator: httpx.AsyncClient, database: Database) -> None:
    files = small_grid()
    files["queues"]["Q_ALPHA"]["status"] = "offline"
    await load_grid(database, files)
    await cordon(operator, "Q_ALPHA")
    assert await status_of(database, "Q_ALPHA") == QueueStatus.OFFLINE


async def test_every_service_hears_of_a_cordon_as_of_a_new_grid(
    operator: httpx.AsyncClient, database: Database
) -> None:
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    await cordon(operator, "Q_ALPHA")
    async with database.read() as connection:
        told, queues = await connection.fetchrow(
            "SELECT body::json ->> 'grid_version', body::json -> 'queues' ->> 0 FROM outbox"
            " WHERE routing_key = 'grid.changed.v1' ORDER BY event_id DESC LIMIT 1"
        )
        last = "SELECT caller, verb, target, details FROM audit_log ORDER BY at DESC LIMIT 1"
        audited = await connection.fetchrow(last)
    assert (int(told), queues) == (snapshot.world.version + 1, "Q_ALPHA")
    assert tuple(audited) == ("olga", "cordon", "Q_ALPHA", {"reason": "the disk is full"})
    await snapshot.check()
    assert snapshot.world.grid.queues["Q_ALPHA"].status == QueueStatus.BROKEROFF


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        ("cordon", {"queue": "NOWHERE", "reason": "x"}, "queue", "value 'NOWHERE' is unknown"),
        ("cordon", {"queue": "Q_ALPHA"}, "reason", "is needed"),
        ("cordon", {"queue": "Q_ALPHA", "reason": ""}, "reason", "a text that is not empty"),
        ("uncordon", {"queue": "Q_ALPHA"}, "queue", "value 'Q_ALPHA' is not cordoned"),
        ("uncordon", {}, "queue", "is needed"),
    ],
)
async def test_what_cannot_be_closed_or_opened_is_refused_by_field(
    operator: httpx.AsyncClient, database: Database, path: str, body: dict[str, str], field: str, said: str
) -> None:
    reply = (await operator.post(f"/api/v1/grid/{path}", json=body)).json()
    assert not reply["success"] and said in reply["message"], reply
    assert [one["field"] for one in reply["problems"]] == [field], reply
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM queue_cordons") == 0


async def test_only_operators_close_queues(context: Context, database: Database) -> None:
    await load_grid(database)
    for role in ("user", "pilot", "production"):
        async with client_of(context, role) as client:
            assert (await cordon(client, "Q_ALPHA")).status_code == 403
