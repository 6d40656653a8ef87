"""Slots of queues: set through the API as in the field, known to every replica, counted by resource type, then over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from services.cli.dry_run.world_of_file import world_of
from services.job_brokerage.app import build
from services.job_brokerage.store.worlds import save_world
from shared.auth import Caller
from shared.brokerage.weights import running_number
from shared.brokerage.world import World
from shared.db import Database
from shared.events import ConfigChanged, StatisticsChanged
from shared.runtime.service import Context, Service
from shared.snapshot import Snapshot
from tests.applications import application_of
from tests.handlers.grids import load_grid, small_grid

PATH = "/api/v1/harvester/add_target_slots"
OPERATOR = Caller("o", frozenset({"operator"}), frozenset())
TYPES = ("SCORE", "SCORE_HIMEM", "MCORE", "MCORE_HIMEM")


@pytest.fixture
async def service(context: Context, database: Database) -> Service:
    files = small_grid()
    files["queues"]["Q_BETA"]["status"] = "standby"
    await load_grid(database, files)
    return build(context)


def client_with(service: Service, context: Context, role: str, *groups: str) -> httpx.AsyncClient:
    web = application_of(service, context.authority)
    token = context.authority.issue("harvester", [role], groups)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(web), base_url="http://test", headers={"Authorization": f"Bearer {token}"}
    )


@pytest.fixture
async def client(service: Service, context: Context) -> AsyncIterator[httpx.AsyncClient]:
    async with client_with(service, context, "production") as client:
        yield client


async def set_slots(
    client: httpx.AsyncClient, slots: int | None, queue: str = "Q_ALPHA", **more: Any
) -> dict[str, Any]:
    reply = await client.post(PATH, json={"panda_queue": queue, "slots": slots, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def tick(database: Database, service: Service, name: str) -> tuple[Any, ...]:
    """One run of a periodic work; what it told."""
    periodic = next(one for one in service.periodic if one.name == name)
    async with database.begin(reason="test") as work:
        await periodic.run(work)
        return work.emitted


async def live_world(database: Database, context: Context) -> World:
    """As another replica reads it."""
    snapshot = Snapshot(database, context.cache)
    await snapshot.check()
    return snapshot.world


def of_queue(world: World, numbers: Any, queue: str = "Q_ALPHA") -> list[float]:
    return numbers[world.columns.rows_of_queue[queue]].tolist()


async def test_slots_count_as_running_jobs_of_their_resource_type(database, context, service, client) -> None:
    assert await set_slots(client, 40, resource_type="MCORE") == {"success": True, "message": "", "data": None}
    assert await set_slots(client, 300) == {"success": True, "message": "", "data": None}
    world = await live_world(database, context)
    assert world.columns.resource_types[:4] == TYPES
    assert of_queue(world, running_number(world)) == [100, 100, 40, 100]
    assert of_queue(world, world.load.n_slots, "Q_GAMMA") == [-1, -1, -1, -1]
    async with database.read() as connection:
        dry = world_of(await save_world(connection, OPERATOR))
    assert of_queue(dry, running_number(dry)) == [100, 100, 40, 100], "a dry run of the saved world sees the same"


async def test_zero_slots_count_the_starting_jobs_and_null_takes_a_setting_back(
    database, context, service, client
) -> None:
    await set_slots(client, 0)
    assert of_queue(await live_world(database, context), (await live_world(database, context)).load.n_slots) == [0] * 4
    await set_slots(client, None)
    assert of_queue(await live_world(database, context), (await live_world(database, context)).load.n_slots) == [-1] * 4


async def test_a_standby_queue_is_used_where_slots_are_set(database, context, service, client) -> None:
    await set_slots(client, 10, "Q_BETA", resource_type="SCORE")
    world = await live_world(database, context)
    assert of_queue(world, world.load.n_slots > 0, "Q_BETA") == [True, False, False, False]


async def test_other_replicas_are_told_within_a_second(database, context, service, client) -> None:
    await set_slots(client, 40)
    assert StatisticsChanged(queues=("Q_ALPHA",)) in await tick(database, service, "publish-statistics")


async def test_a_setting_ends_at_its_date(database, context, service, client) -> None:
    async with database.read() as connection:
        now: datetime = await connection.fetchval("SELECT orrery_now()")
    until = now + timedelta(hours=1)
    await set_slots(client, 40, expiration_date=until.astimezone(UTC).replace(tzinfo=None).isoformat())
    assert of_queue(await live_world(database, context), (await live_world(database, context)).load.n_slots) == [10] * 4
    await tick(database, service, "publish-statistics")
    await tick(database, service, "publish-statistics")
    async with database.begin(reason="test") as work:
        await work.connection.execute("UPDATE queue_slots SET valid_until = orrery_now() - interval '1 s'")
    assert of_queue(await live_world(database, context), (await live_world(database, context)).load.n_slots) == [-1] * 4
    await tick(database, service, "forget-slots")
    assert StatisticsChanged(queues=("Q_ALPHA",)) in await tick(database, service, "publish-statistics")
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM queue_slots") == 0
        assert await connection.fetchval("SELECT n_slots FROM queue_activity WHERE queue = 'Q_ALPHA'") is None


async def test_the_sum_of_the_slots_of_a_queue_is_kept_and_who_set_them(database, service, client) -> None:
    await set_slots(client, 40, resource_type="MCORE")
    await set_slots(client, 2, resource_type="SCORE")
    async with database.read() as connection:
        assert await connection.fetchval("SELECT n_slots FROM queue_activity WHERE queue = 'Q_ALPHA'") == 42
        logged = await connection.fetch(
            "SELECT caller, target, details FROM audit_log WHERE verb = 'set slots' ORDER BY 1"
        )
    assert [(row["caller"], row["target"]) for row in logged] == [("harvester", "Q_ALPHA")] * 2
    assert logged[0]["details"] == {"resource_type": "MCORE", "n_slots": 40}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"panda_queue": "Q_NONE"}, "panda_queue 'Q_NONE' is unknown; allowed: a queue of the grid"),
        ({"resource_type": "HUGE"}, "resource_type 'HUGE' is unknown; allowed: SCORE, SCORE_HIMEM, MCORE, MCORE_HIMEM"),
        ({"expiration_date": "2020-01-01T00:00:00"}, "2020-01-01T00:00:00+00:00 is over; allowed: a time after"),
        ({"global_share": "Express"}, "global_share 'Express': allowed: none"),
    ],
)  # fmt: skip
async def test_a_setting_that_cannot_be_is_refused_with_what_is_allowed(database, client, changes, said) -> None:
    reply = (await client.post(PATH, json={"panda_queue": "Q_ALPHA", "slots": 5, **changes})).json()
    assert reply["success"] is False and said in reply["message"]
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM queue_slots") == 0


@pytest.mark.parametrize(
    "body",
    [{"slots": 5}, {"panda_queue": "Q_ALPHA"}, {"panda_queue": "Q_ALPHA", "slots": -1},
     {"panda_queue": "Q_ALPHA", "slots": 2**63}, {"panda_queue": "Q_ALPHA", "slots": "many"},
     {"panda_queue": "Q_ALPHA", "slots": 5, "expiration_date": "tomorrow"}],
)  # fmt: skip
async def test_a_body_that_makes_no_sense_is_refused(client, body) -> None:
    reply = await client.post(PATH, json=body)
    assert reply.status_code == 200 and reply.json()["success"] is False
    assert {"field", "value", "allowed", "message"} <= reply.json()["problems"][0].keys()


@pytest.mark.parametrize(
    ("vo_name", "groups", "may"),
    [
        (None, (), True), (None, ("atlas",), False), (None, ("atlas", "cms"), False), ("", ("cms",), False),
        ("atlas", ("atlas",), True), ("atlas", ("cms",), False), ("atlas", (), True), ("atlas,cms", ("cms",), False),
        ("atlas, cms", ("atlas", "cms"), True), (["atlas", "cms"], ("atlas",), False), (["atlas"], ("atlas",), True),
    ],
)  # fmt: skip
async def test_production_sets_slots_of_queues_of_its_own_vos_only(
    database, context, service, vo_name, groups, may
) -> None:
    files = small_grid()
    files["queues"]["Q_ALPHA"]["vo_name"] = vo_name
    await load_grid(database, files)
    async with client_with(service, context, "operator", "other") as operator:
        assert (await operator.post(PATH, json={"panda_queue": "Q_ALPHA", "slots": 7})).json()["success"]
    async with client_with(service, context, "production", *groups) as production:
        reply = await production.post(PATH, json={"panda_queue": "Q_ALPHA", "slots": 0})
        unknown = await production.post(PATH, json={"panda_queue": "Q_NONE", "slots": 0})
    assert reply.status_code == (200 if may else 403) and unknown.status_code == (403 if groups else 200)
    if not may:
        of = {"": "every VO"}.get(str(vo_name or ""), "atlas and cms" if "cms" in str(vo_name) else "atlas")
        assert f"allowed: production of {of}, and operators" in reply.text
    async with database.read() as connection:
        assert await connection.fetchval("SELECT n_slots FROM queue_slots") == (0 if may else 7)


async def test_users_set_no_slots(service, context) -> None:
    async with client_with(service, context, "user") as client:
        assert (await client.post(PATH, json={"panda_queue": "Q_ALPHA", "slots": 5})).status_code == 403


async def test_a_pilot_s_token_sets_the_slots_only_of_queues_that_the_configuration_names_for_it(
    service: Service, context: Context, database: Database
) -> None:
    body = {"panda_queue": "Q_ALPHA", "slots": 5}
    async with client_with(service, context, "pilot") as harvester:
        refused = await harvester.post(PATH, json=body)
        assert refused.status_code == 403 and "SLOT_SETTERS" in refused.text
        async with database.pool.acquire() as connection:
            await connection.execute(
                "INSERT INTO parameters (component, key, value, type)"
                """ VALUES ('job_brokerage', 'SLOT_SETTERS', '{"Q_ALPHA": ["harvester"]}', 'json')"""
            )
        [changed] = [handler for event, handler in service.news if event is ConfigChanged]
        await changed(ConfigChanged(component="job_brokerage", key="SLOT_SETTERS", config_version=1))
        assert (await harvester.post(PATH, json=body)).json()["success"]
        assert (await harvester.post(PATH, json={**body, "panda_queue": "Q_BETA"})).status_code == 403
