"""Simulated pilots against a real HTTP server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from services.cli.simulated_pilots.connection import Connection, NotAllowed
from services.cli.simulated_pilots.fleet import Fleet, FleetOptions, Tally
from services.cli.simulated_pilots.profile import Fault, Profile
from shared.auth import Authority
from tests.integration.job_dispatch.conftest import Served


def options(count: int, *, rates: dict[Fault, float] | None = None, **more: object) -> FleetOptions:
    profile = Profile(seed=5, rates=rates or {}, walltime_s=1800.0)
    return FleetOptions(count=count, speed_up=20_000.0, profile=profile, fleet_id="test", **more)  # type: ignore[arg-type]


def urls(served: Served) -> dict[str, list[str]]:
    return {"job_dispatch": [served.url], "job_brokerage": [served.url]}


async def wait_until_ended(served: Served, ids: list[int]) -> Counter[str]:
    """Until no job is with a pilot or waits for one."""
    while True:
        states = Counter(await served.rows.statuses(ids))
        if not set(states) & {"activated", "sent", "starting", "running"}:
            return states
        await asyncio.sleep(0.05)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look every few milliseconds; the time limit is the test's own."""
    for _ in range(6000):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def _true(value: bool) -> bool:
    return value


async def _all_in(served: Served, ids: list[int], status: str) -> bool:
    return set(await served.rows.statuses(ids)) == {status}


async def let_work(
    served: Served,
    authority: Authority,
    chosen: FleetOptions,
    ids: list[int],
    until: Callable[[Tally], bool] = lambda _: True,
) -> tuple[Tally, Counter]:
    """Until all jobs have ended and the tally is as wanted."""
    token = authority.issue("simulated-pilots", ["pilot"])
    async with Connection(urls(served), token) as connection:
        fleet = Fleet(chosen, connection)
        running = asyncio.create_task(fleet.run())
        states = await asyncio.wait_for(wait_until_ended(served, ids), 60)
        await eventually(lambda: _true(until(fleet.tally)))
        fleet.stop()
        return await asyncio.wait_for(running, 60), states


async def test_every_job_at_every_queue_is_run_and_reported(served: Served, authority: Authority) -> None:
    ids = [one for queue in ("Q1", "Q2", "Q3") for one in await served.rows.jobs(20, queue=queue)]
    tally, states = await let_work(
        served, authority, options(20), ids, until=lambda tally: tally.pilots > tally.pilots_with_jobs
    )
    assert states == {"holding": 60}
    assert tally.jobs == 60 and tally.outcomes["finished"] == 60
    async with served.rows.database.read() as connection:
        workers = await connection.fetch("SELECT status FROM workers")
        reports = await connection.fetch("SELECT report FROM job_reports")
    assert len(workers) == tally.pilots_with_jobs > 0 and len(reports) == 60
    assert f"60 jobs taken by {len(workers)} of {tally.pilots} pilots, 20 at a time" in tally.line(20)
    assert all(row["report"]["max_pss"] > 0 and row["report"]["pilot_timing"].count("|") == 5 for row in reports)


async def test_failures_come_at_their_rates_and_oddities_harm_nobody(served: Served, authority: Authority) -> None:
    ids = await served.rows.jobs(120)
    rates = {Fault.PAYLOAD: 0.2, Fault.MEMORY: 0.1, Fault.STAGE_OUT: 0.1, Fault.DUPLICATE: 0.3, Fault.BAD_REPORT: 0.3}
    tally, states = await let_work(served, authority, options(30, rates=rates, queues={"Q1": 30}), ids)
    assert set(states) == {"holding", "failed"} and 25 <= states["failed"] <= 75
    assert sum(tally.outcomes.values()) == 120
    async with served.rows.database.read() as connection:
        sources = Counter(
            row[0] for row in await connection.fetch("SELECT error_source FROM jobs WHERE status = 'failed'")
        )
    assert sources["payload"] == tally.outcomes["payload"] + tally.outcomes["memory"]
    assert sources["pilot"] == tally.outcomes["stage_out"] > 0


async def test_pilots_outlive_a_restart_of_the_dispatcher(served: Served, authority: Authority) -> None:
    """The server is stopped for a moment in the middle: acquires are repeated with their keys, reports until heard."""
    ids = await served.rows.jobs(80)
    token = authority.issue("simulated-pilots", ["pilot"])
    async with Connection(urls(served), token) as connection:
        fleet = Fleet(options(20, queues={"Q1": 20}), connection)
        running = asyncio.create_task(fleet.run())
        await eventually(lambda: _true(fleet.tally.jobs >= 25))
        port = served.server.port
        await served.server.stop()
        await eventually(lambda: _true(connection.n_unanswered > 0))
        again = type(served.server)(served.parts.service.web, host="127.0.0.1", port=port, graceful_stop_s=5)
        await again.start()
        states = await asyncio.wait_for(wait_until_ended(served, ids), 60)
        fleet.stop()
        tally = await asyncio.wait_for(running, 60)
        await again.stop()
    assert states == {"holding": 80} and tally.jobs == 80


async def test_a_stop_gives_running_jobs_back_without_blaming_the_payload(served: Served, authority: Authority) -> None:
    ids = await served.rows.jobs(10)
    slow = FleetOptions(10, 1.0, Profile(rates={}), "slow", {"Q1": 10})
    async with Connection(urls(served), authority.issue("simulated-pilots", ["pilot"])) as connection:
        fleet = Fleet(slow, connection)
        running = asyncio.create_task(fleet.run())
        await eventually(lambda: _all_in(served, ids, "running"))
        fleet.stop()
        await asyncio.wait_for(running, 60)
    assert Counter(await served.rows.statuses(ids)) == {"failed": 10}
    assert {(await served.rows.row(one))["error_code"] for one in ids} == {1201}
    assert {(await served.rows.row(one))["error_source"] for one in ids} == {"pilot"}


async def test_pilots_whose_token_is_refused_say_so(served: Served, authority: Authority) -> None:
    await served.rows.jobs(1)
    async with Connection(urls(served), authority.issue("alice", [])) as connection:
        with pytest.raises(NotAllowed, match="needs the role"):
            await Fleet(options(2, queues={"Q1": 2}), connection).run()
