"""Two dispatchers on one database, many acquires in flight: no job twice, none lost, whatever breaks meanwhile."""

from __future__ import annotations

import asyncio
import random

import pytest

from services.job_dispatch.acquire.claims import Granted
from services.job_dispatch.app import Parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from shared.auth import Authority
from shared.db import Database
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.integration.job_dispatch.dispatchers import dispatcher

IN_FLIGHT = 64


@pytest.fixture
async def rows(database: Database) -> Rows:
    rows = Rows(database)
    await rows.grid({"Q1": "SITE-A", "Q2": "SITE-B"})
    await rows.task(1)
    for queue in ("Q1", "Q2"):
        for gshare in ("MC", "Data"):
            await rows.jobs(500, queue=queue, gshare=gshare, priority=100)
            await rows.jobs(250, queue=queue, gshare=gshare, priority=900, shape="large")
    return rows


async def drain(pair: list[Parts], *, keys: bool = False) -> list[tuple[str, Granted]]:
    """64 pilots ask either dispatcher until nothing is left."""
    got: list[tuple[str, Granted]] = []

    async def pilot(number: int) -> None:
        choice = random.Random(number)
        n_asked = 0
        while True:
            queue = choice.choice(("Q1", "Q2"))
            n_asked += 1
            key = f"pilot-{number}-{n_asked}" if keys else None
            granted = await choice.choice(pair).claims.acquire(Offer(queue, PilotKind()), key)
            if granted is not None:
                got.append((queue, granted))
            elif await all_empty(queue):
                return

    async def all_empty(queue: str) -> bool:
        other = "Q2" if queue == "Q1" else "Q1"
        for one in pair:
            while (granted := await one.claims.acquire(Offer(other))) is not None:
                got.append((other, granted))
        return True

    await asyncio.gather(*(pilot(number) for number in range(IN_FLIGHT)))
    return got


async def settle(pair: list[Parts], rows: Rows) -> list[tuple[str, Granted]]:
    """What the second look finds: jobs whose first try was lost to the other dispatcher."""
    found: list[tuple[str, Granted]] = []
    for _ in range(3):
        for one in pair:
            for job_id in list(one.windows._lost):
                one.windows._lost[job_id] = 0.0
            async with rows.database.read() as connection:
                await one.windows.recheck_lost(connection)
        found += await drain(pair)
    return found


async def test_no_job_is_given_twice_and_none_is_left(rows: Rows, pair: list[Parts]) -> None:
    got = [*await drain(pair), *await settle(pair, rows)]
    ids = [granted.job_id for _, granted in got]
    assert len(ids) == len(set(ids)) == 3000
    assert set(await rows.statuses(sorted(ids))) == {"sent"}
    events = await rows.events("jobs.dispatched.v1")
    assert sorted(one for event in events for one in event["job_ids"]) == sorted(ids)
    assert sum(move["n_jobs"] for event in events for move in event["moves"]) == 3000
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM job_claims") == 3000
        assert (
            await connection.fetchval(
                "SELECT sum(coalesce(cardinality(entity_ids), 1)) FROM transition_log WHERE entity = 'job'"
            )
            == 3000
        )


async def test_repeating_a_key_at_the_other_dispatcher_gives_the_same_job(rows: Rows, pair: list[Parts]) -> None:
    """Both are asked at the same moment under the same keys: one claim wins, the other finds it."""
    offer = Offer("Q1")
    keys = [f"key-{number}" for number in range(200)]
    first, second = await asyncio.gather(
        *(asyncio.gather(*(one.claims.acquire(offer, key) for key in keys)) for one in pair)
    )
    assert all(one is not None for one in (*first, *second))
    assert [one.job_id for one in first] == [one.job_id for one in second]
    assert len({one.job_id for one in first}) == 200


async def test_a_key_whose_job_has_ended_gets_one_new_job_however_many_dispatchers_are_asked(
    rows: Rows, pair: list[Parts]
) -> None:
    """Both replace the old claims of 200 keys at the same moment: each key has one job, and no job has two keys."""
    offer, keys = Offer("Q1"), [f"key-{number}" for number in range(200)]
    before = await asyncio.gather(*(pair[0].claims.acquire(offer, key) for key in keys))
    ended = [one.job_id for one in before if one is not None]
    for job_id in ended:
        await rows.becomes(job_id, "failed")
    first, second = await asyncio.gather(
        *(asyncio.gather(*(one.claims.acquire(offer, key) for key in keys)) for one in pair)
    )
    given = [one.job_id for one in first if one is not None]
    assert given == [one.job_id for one in second if one is not None]
    assert len(set(given)) == 200 and not set(given) & set(ended)
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM jobs WHERE status = 'sent'") == 200
        assert sorted(await connection.fetchval("SELECT array_agg(job_id) FROM job_claims")) == sorted(given)


async def test_a_claim_whose_connection_breaks_is_settled_by_its_key(
    rows: Rows, pair: list[Parts], database: Database
) -> None:
    """Claim connections are killed again and again; nobody knows which commits went through, yet all adds up."""
    stop = asyncio.Event()

    async def killer() -> int:
        n_killed = 0
        while not stop.is_set() and n_killed < 20:
            async with database.read() as connection:
                n_killed += await connection.fetchval(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name LIKE 'orrery % claims'"
                )
            await asyncio.sleep(0.04)  # time enough to connect and begin a claim
        return n_killed

    killing = asyncio.create_task(killer())
    try:
        got = await drain(pair)
    finally:
        stop.set()
        n_killed = await killing
    got += await settle(pair, rows)
    ids = [granted.job_id for _, granted in got]
    assert n_killed > 0
    assert len(ids) == len(set(ids)) == 3000
    assert set(await rows.statuses(sorted(ids))) == {"sent"}


async def test_dispatchers_with_the_same_random_seed_never_share_a_key(
    rows: Rows, database: Database, database_url: str, authority: Authority
) -> None:
    """A key that was used before would give a pilot the job of another."""
    granted: list[Granted | None] = []
    for _ in range(3):  # one after the other, as after restarts
        one = dispatcher(database, database_url, authority, seed=7)
        for action in one.service.on_start:
            await action()
        granted += [await one.claims.acquire(Offer("Q1")) for _ in range(5)]
        await one.close()
    assert len({found.job_id for found in granted if found is not None and not found.repeated}) == 15
