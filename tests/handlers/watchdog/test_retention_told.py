"""What operators are told of the rules of retention."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.watchdog.app import build
from services.watchdog.policy.retention import RULES
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from tests.applications import application_of
from tests.handlers.events import started
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds


@pytest.fixture
def service(context: Context) -> Service:
    return build(context)


@pytest.fixture
async def client(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    token = authority.issue("olga", ["operator"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)),
        base_url="http://watchdog",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        yield client


async def test_operators_see_what_grows_and_what_goes_next(
    service: Service, client: httpx.AsyncClient, database: Database, authority: Authority
) -> None:
    user = {"Authorization": f"Bearer {authority.issue('ulla', ['user'])}"}
    assert (await client.get("/api/v1/retention", headers=user)).status_code == 403
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO audit_log (at, caller, verb, target, outcome)"
            " VALUES ('2026-01-05 06:00+00', 'a', 'v', 't', 'o')"
        )
        await connection.execute(
            "INSERT INTO retention_sizes VALUES ('audit_log', '2026-01-01', 1000), ('audit_log', '2026-01-11', 6000),"
            " ('transfers', '2026-01-11', 1932735284)"
        )
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type)"
            " VALUES ('orrery', 'maintenance', 'TRANSFERS_MOST_GB', '2', 'int')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    await started(service)
    answer = (await client.get("/api/v1/retention")).json()
    told = {one["rule"]: one for one in answer["data"]}
    assert list(told) == [rule.name for rule in RULES]
    audit = told["audit_log"]
    assert (audit["n_bytes"], audit["bytes_a_day"], audit["keep_days"]) == (6000, 500, 365)
    assert audit["oldest_at"].startswith("2026-01-05T06:00") and audit["next_drop_at"].startswith("2027-01-05T06:00")
    assert told["transfers"]["is_nearly_full"] and answer["message"] == "nearly as large as they may be: transfers"
    assert told["tasks_archive"]["then"] == "other tasks may write datasets of the names that these tasks wrote"
    assert "names that these tasks wrote" in RULES[[*told].index("tasks_archive")].days.means
    assert told["inbox"]["oldest_at"] is not None and told["chunks"]["bytes_a_day"] is None


async def test_the_size_of_a_rule_is_a_metric_beside_what_it_may_have(stage: Stage) -> None:
    rounds = Rounds(stage)
    await stage.set("CHUNKS_MOST_GB", 3, "maintenance", "orrery")
    await rounds.once()
    value = rounds.registry.get_sample_value
    assert value("orrery_retention_most_bytes", {"rule": "chunks"}) == 3 * 2**30
    found = value("orrery_retention_bytes", {"rule": "chunks"})
    assert found == await stage.value("SELECT pg_total_relation_size('chunks')::float8")
    inbox = await stage.value(
        "SELECT sum(pg_total_relation_size(inhrelid))::float8 FROM pg_inherits WHERE inhparent = 'inbox'::regclass"
    )
    assert value("orrery_retention_bytes", {"rule": "inbox"}) == inbox
