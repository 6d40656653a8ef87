"""A VO with task queues: pilots get jobs by the draw, of what matches, and within the limits of their site."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from math import sqrt

import asyncpg
import pytest

from services.job_dispatch.acquire.site_permits import SitePermits
from services.job_dispatch.app import Parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.job_dispatch.store import task_queues as store
from shared.auth import Authority
from shared.db import Database
from shared.events import JobsActivated, LaneJob
from shared.order.matching import TaskQueueOffer
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.integration.job_dispatch.dispatchers import dispatcher
from tests.integration.job_dispatch.task_queues import (
    ended,
    group,
    jobs,
    limits_are_read,
    parameter,
    queues_of,
    started,
    why_nothing,
)

N_DRAWS = 800
Q1 = Offer("Q1")


@pytest.fixture
async def rows(database: Database) -> Rows:
    rows = Rows(database)
    await rows.grid({"Q1": "SITE-A", "Q2": "SITE-B"})
    await rows.task(1)
    await parameter(database, "TASK_QUEUES", "within")
    return rows


@pytest.fixture
async def start(database: Database, database_url: str, authority: Authority) -> AsyncIterator[Callable[[], Parts]]:
    """Starts dispatchers once the jobs are there, each with a fixed seed."""
    made: list[Parts] = []

    async def one() -> Parts:
        made.append(await started(dispatcher(database, database_url, authority, seed=11 + len(made))))
        return made[-1]

    yield one  # type: ignore[misc]
    for parts in made:
        await parts.close()


async def taken(parts: Parts, offer: Offer = Q1, most: int = N_DRAWS) -> list[int]:
    """The jobs that so many pilots get, one after the other."""
    found = []
    for _ in range(most):
        granted = await parts.claims.acquire(offer)
        if granted is None:
            break
        found.append(granted.job_id)
    return found


def bound(probability: float, n: int = N_DRAWS) -> float:
    """Four standard deviations of the number of successes."""
    return 4 * sqrt(n * probability * (1 - probability))


async def test_two_groups_get_jobs_in_proportion_to_their_job_shares(rows: Rows, start) -> None:
    await group(rows, "prod", 3000, job_sharing=True)
    prod = set(await jobs(rows, N_DRAWS, "ann", "prod"))
    other = set(await jobs(rows, N_DRAWS, "bob", "analysis"))
    found = await taken(await start())
    assert len(found) == N_DRAWS and set(found) <= prod | other
    assert abs(len(prod & set(found)) - 0.75 * N_DRAWS) < bound(0.75)


async def test_users_of_a_divided_group_get_the_same_and_those_of_a_sharing_one_by_their_jobs(
    rows: Rows, start, database: Database
) -> None:
    """Of 900 and 300 waiting jobs: half and half divided; three to one shared, as user priorities are summed."""
    await group(rows, "shared", 1000, job_sharing=True)
    of = {
        name: set(await jobs(rows, n, user, group_name))
        for name, n, user, group_name in (
            ("divided-ann", 900, "ann", "divided"), ("divided-bob", 300, "bob", "divided"),
            ("shared-ann", 900, "ann", "shared"), ("shared-bob", 300, "bob", "shared"),
        )
    }  # fmt: skip
    found = set(await taken(await start(), most=400))
    counts = {name: len(ids & found) for name, ids in of.items()}
    expected = {"divided-ann": 0.25, "divided-bob": 0.25, "shared-ann": 0.375, "shared-bob": 0.125}
    for name, probability in expected.items():
        assert abs(counts[name] - 400 * probability) < bound(probability, 400), (name, counts)


async def test_a_class_of_user_priority_is_drawn_by_its_real_priority_and_the_oldest_job_first(
    rows: Rows, start
) -> None:
    low = await jobs(rows, 200, "ann", "analysis", user_priority=1)
    high = await jobs(rows, 400, "ann", "analysis", user_priority=4)
    found = await taken(await start(), most=300)
    assert abs(len(set(high) & set(found)) - 0.8 * 300) < bound(0.8, 300)
    for ids in (low, high):
        got = [one for one in found if one in set(ids)]
        assert got == ids[: len(got)]


async def test_tags_banned_sites_and_time_are_obeyed(rows: Rows, start) -> None:
    gpu = await jobs(rows, 2, "ann", "g", tags=["GPU"])
    await jobs(rows, 2, "ann", "g", banned_sites=["SITE-A"])
    elsewhere = await jobs(rows, 2, "ann", "g", sites=["SITE-B"])
    parts = await start()
    assert await taken(parts) == []
    offers_gpu = PilotKind(task_queues=TaskQueueOffer(tags=frozenset({"GPU"})))
    too_short = replace(offers_gpu, task_queues=replace(offers_gpu.task_queues, cpu_time_s=3599))  # type: ignore[type-var]
    assert await taken(parts, Offer("Q1", too_short)) == []
    assert await taken(parts, Offer("Q1", offers_gpu)) == gpu
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET queue = 'Q2' WHERE job_id = ANY($1)", elsewhere)
    assert await taken(parts, Offer("Q2")) == elsewhere


async def test_a_users_pilot_gets_the_jobs_of_its_owner_and_in_a_sharing_group_of_all(rows: Rows, start) -> None:
    await group(rows, "shared", 1000, job_sharing=True)
    anns = await jobs(rows, 2, "ann", "own")
    bobs = await jobs(rows, 2, "bob", "own")
    shared = await jobs(rows, 2, "bob", "shared")
    parts = await start()
    assert await taken(parts, Offer("Q1", user_name="ann", working_group="own")) == anns
    assert await taken(parts, Offer("Q1", user_name="ann", working_group="shared")) == shared
    assert await taken(parts) == bobs


async def test_a_job_of_a_new_task_queue_is_served_as_soon_as_it_is_announced(rows: Rows, start) -> None:
    parts = await start()
    assert await taken(parts) == []
    first = await jobs(rows, 1, "ann", "new")
    lane = (await parts.claims.windows.reader.lanes_of("Q1")).popitem()[0]
    job = LaneJob(job_id=first[0], queue="Q1", gshare="MC", shape_id=lane[2], priority=100, order_key_id=lane[1])
    await parts.news.on_jobs_activated(JobsActivated(lane_jobs=(job,)))
    assert await taken(parts) == first


@pytest.mark.parametrize(
    "limits",
    [{"SITE-A": {"JobType": {"evgen": 3}}}, {"*": {"Owner = 'ann' AND JobType LIKE 'ev%'": 3}}],
)
async def test_a_running_limit_holds_and_is_lifted_when_a_job_has_ended(
    rows: Rows, start, database: Database, limits: dict[str, object]
) -> None:
    await parameter(database, "RUNNING_LIMITS", limits)
    limited = await jobs(rows, 6, "ann", "g", job_types=["evgen"])
    free = await jobs(rows, 2, "ann", "g", job_types=["simul"])
    parts = await start()
    got = await taken(parts)
    assert sorted(got) == sorted([*limited[:3], *free])
    why = why_nothing(parts, Q1)
    assert why.why == "limit" and why.retry_after_s == 10, why
    await limits_are_read(parts, database)
    assert await taken(parts) == []
    await ended(rows, limited[0])
    await limits_are_read(parts, database)
    assert await taken(parts) == [limited[3]]


async def test_a_matching_delay_keeps_a_second_match_away_until_it_is_over(
    rows: Rows, start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parameter(database, "MATCHING_DELAYS", {"SITE-A": {"OwnerGroup": {"g": 30}}})
    ids = await jobs(rows, 3, "ann", "g")
    parts = await start()
    assert await taken(parts) == ids[:1]
    limits = queues_of(parts).limits
    later = limits._clock() + 31
    monkeypatch.setattr(limits, "_clock", lambda: later)
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE site_delays SET ends_at = orrery_now()")
    assert await taken(parts) == ids[1:2]


async def at_once(dispatchers: list[Parts], n_each: int) -> list[int]:
    """The jobs that so many pilots get which ask all dispatchers at the same time."""
    asked = [parts.claims.acquire(Q1) for _ in range(n_each) for parts in dispatchers]
    return sorted(one.job_id for one in await asyncio.gather(*asked) if one is not None)


@pytest.mark.parametrize("n_running", [0, 2])
async def test_two_dispatchers_together_never_pass_a_running_limit_and_use_all_of_it(
    rows: Rows, start, database: Database, n_running: int
) -> None:
    await parameter(database, "RUNNING_LIMITS", {"SITE-A": {"OwnerGroup": {"g": 7}}})
    limited = await jobs(rows, 60, "ann", "g")
    free = await jobs(rows, 6, "ann", "other")
    dispatchers = [await start(), await start()]
    if n_running:
        async with database.pool.acquire() as connection:
            await connection.execute("UPDATE jobs SET status = 'sent' WHERE job_id = ANY($1)", limited[-n_running:])
    got = await at_once(dispatchers, 20)
    assert len(set(limited) & set(got)) == 7 - n_running and set(free) <= set(got)
    assert await at_once(dispatchers, 5) == []
    await ended(rows, next(one for one in got if one in limited))
    for parts in dispatchers:
        await limits_are_read(parts, database)
    assert len(await at_once(dispatchers, 5)) == 1


async def test_two_dispatchers_keep_one_delay_between_two_matches(rows: Rows, start, database: Database) -> None:
    await parameter(database, "MATCHING_DELAYS", {"SITE-A": {"OwnerGroup": {"g": 30}}})
    await jobs(rows, 10, "ann", "g")
    dispatchers = [await start(), await start()]
    assert len(await at_once(dispatchers, 3)) == 1
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE site_delays SET ends_at = orrery_now()")
    for parts in dispatchers:
        queues_of(parts).limits._until.clear()
        queues_of(parts).limits._version += 1
    assert len(await at_once(dispatchers, 3)) == 1


async def test_without_limits_no_claim_asks_for_a_permit(rows: Rows, start, database: Database) -> None:
    ids = await jobs(rows, 3, "ann", "g")
    assert sorted(await taken(await start())) == ids
    async with database.pool.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM site_limit_permits") == 0


async def test_a_pick_while_priorities_are_calculated_passes_over_a_task_queue_whose_last_job_was_claimed(
    rows: Rows, start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parameter(database, "RUNNING_LIMITS", {"SITE-A": {"OwnerGroup": {"g": 5}}})
    ids = await jobs(rows, 1, "ann", "g")
    parts = await start()
    assert await taken(parts, most=1) == ids
    found: list[object] = []
    read = store.groups_of_users

    async def with_a_pick(connection: asyncpg.Connection) -> object:
        found.append(await asyncio.wait_for(parts.claims.acquire(Q1), 10))
        return await read(connection)

    monkeypatch.setattr(store, "groups_of_users", with_a_pick)
    async with database.begin(reason="test") as work:
        await queues_of(parts).recalculate(work.connection)
    assert found == [None]


async def test_an_empty_task_queue_is_deleted_after_its_time_and_not_before(rows: Rows, start) -> None:
    (job_id,) = await jobs(rows, 1, "ann", "g")
    parts = await start()

    async def forget_later(seconds: int) -> int:
        async with rows.database.begin(reason="test") as work:
            await work.connection.execute(
                "UPDATE task_queues SET used_at = used_at - make_interval(secs => $1),"
                " empty_since = empty_since - make_interval(secs => $1)", float(seconds),
            )  # fmt: skip
            await parts.upkeep.forget(work)
            return int(await work.connection.fetchval("SELECT count(*) FROM task_queues"))

    assert await forget_later(1000) == 1  # its job is there
    await ended(rows, job_id)
    assert await forget_later(0) == 1
    assert await forget_later(299) == 1
    assert await forget_later(2) == 0


async def test_task_queues_instead_of_shares_are_drawn_whatever_share_their_jobs_have(
    rows: Rows, start, database: Database
) -> None:
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE parameters SET value = 'instead' WHERE key = 'TASK_QUEUES'")
    one = set(await jobs(rows, 300, "ann", "g1", gshare="MC"))
    other = set(await jobs(rows, 300, "bob", "g2", gshare="Data"))
    found = set(await taken(await start(), most=200))
    assert abs(len(one & found) - 100) < bound(0.5, 200) and found <= one | other


async def test_two_dispatchers_give_no_job_of_task_queues_twice(rows: Rows, start) -> None:
    every = []
    for user in ("ann", "bob", "cid"):
        for tag in ("", "GPU"):
            every += await jobs(rows, 60, user, "g", tags=[tag] if tag else [])
    pair = [await start(), await start()]
    offer = Offer("Q1", PilotKind(task_queues=TaskQueueOffer(tags=frozenset({"GPU"}))))

    async def pilot(number: int) -> list[int]:
        return await taken(pair[number % 2], offer)

    found = [one for some in await asyncio.gather(*(pilot(number) for number in range(16))) for one in some]
    assert max(Counter(found).values()) == 1 and sorted(found) == sorted(every)


async def test_the_listing_gives_priorities_to_users_and_names_to_who_may_read_them(
    rows: Rows, start, authority: Authority
) -> None:
    await group(rows, "prod", 3000, job_sharing=True)
    await jobs(rows, 3, "ann", "prod")
    await jobs(rows, 1, "bob", "prod", tags=["GPU"])
    await jobs(rows, 1, "cid", "analysis")
    async with client(await start(), authority, "dan", "user") as user:
        answer = (await user.get("/api/v1/job/task_queues")).json()["data"]
        hidden = (await user.get("/api/v1/job/task_queues", params={"group": "prod"})).json()["data"]
        refused = await user.get("/api/v1/job/task_queues", params={"limit": 0})
    async with client(await start(), authority, "prodteam", "production") as producer:
        whole = (await producer.get("/api/v1/job/task_queues")).json()["data"]
        narrowed = (await producer.get("/api/v1/job/task_queues", params={"group": "prod", "limit": 1})).json()["data"]
    assert [(one["user_name"], one["priority"]) for one in answer["task_queues"]] == [
        (None, 2250.0), (None, 1000.0), (None, 750.0),
    ]  # fmt: skip
    assert [one["user_name"] for one in whole["task_queues"]] == ["ann", "cid", "bob"]
    assert whole["task_queues"][2]["tags"] == ["GPU"] and answer["task_queues"][0]["entity_share"] == 3000.0
    assert answer["task_queues"][2]["tags"] is None and answer["task_queues"][2]["withheld"]
    assert hidden["n_task_queues"] == 0, "a filter does not tell whose groups others' jobs have"
    assert {one["user_group"] for one in answer["task_queues"]} == {None}
    assert narrowed["n_task_queues"] == 2 and len(narrowed["task_queues"]) == 1
    assert not refused.json()["success"]


async def test_a_job_that_two_dispatchers_picked_takes_the_room_of_one(rows: Rows, start, database: Database) -> None:
    """The second one asks for it beside another job, while the first one's claim is on its way."""
    await parameter(database, "RUNNING_LIMITS", {"SITE-A": {"OwnerGroup": {"g": 1}}})
    first, second = await jobs(rows, 2, "ann", "g")
    answers = []
    for asked in ([second], [first, second]):
        parts = await start()
        await parts.windows.open("Q1")
        for job_id in (first, second):
            limits = queues_of(parts).limits
            limits._grants.pop(job_id, None)
            key = next(iter(queues_of(parts).orders.keys))
            queues_of(parts).picked("Q1", key, job_id)
        answers.append(await SitePermits(database, queues_of(parts)).ask(asked))
    assert answers == [{second}, {second}]
