"""A number names a worker of one VO: who acts for another one neither reports nor takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.applications import application_of
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl

WORKER = {"workerID": 12, "harvesterID": "H1", "site": "Q1"}


async def told(
    parts: Parts, authority: Authority, who: tuple[str, str, Sequence[str]], status: str, *, factory: bool = False
) -> bool:
    """Whether a report of the worker by this name, role and groups was noted."""
    name, role, groups = who
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch", headers=headers) as caller:
        if factory:
            one = {"workerID": 12, "computingSite": "Q1", "status": status}
            body = {"harvester_id": "H1", "workers": [one]}
            return bool((await caller.post("/api/v1/harvester/update_workers", json=body)).json()["data"][0])
        return bool(
            (await by_curl(caller, "updateWorkerPilotStatus", status=status, **WORKER)).json()["StatusCode"] == 0
        )


async def is_of(rows: Rows, *vos: str) -> None:
    """The record of the queue names these VOs."""
    async with rows.database.read() as connection:
        await connection.execute(
            "UPDATE queues SET data = data || jsonb_build_object('vo_name', $1::text[])", list(vos)
        )


async def stored(rows: Rows) -> list[tuple[Any, ...]]:
    async with rows.database.read() as connection:
        return [tuple(one) for one in await connection.fetch("SELECT status, subject, vo FROM workers ORDER BY vo")]


async def test_production_and_pilots_of_another_vo_say_nothing_of_a_worker_that_a_pilot_began(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    ann = ("ann", "pilot", ["atlas"])
    assert await told(parts, authority, ann, "started")
    for other in (("paul", "production", ["cms"]), ("ben", "pilot", ["cms"])):
        assert not await told(parts, authority, other, "finished", factory=True)
    assert await stored(rows) == [("started", "ann", "atlas")]
    assert await told(parts, authority, ("olga", "operator", ["cms"]), "started")
    assert await told(parts, authority, ("ben", "pilot", ["cms"]), "finished"), "of a worker of his own VO"
    assert not await told(parts, authority, ("paul", "pilot", ["cms"]), "started")
    assert await stored(rows) == [("started", "ann", "atlas"), ("finished", "ben", "cms")]
    assert await told(parts, authority, ("pia", "production", ["atlas"]), "finished", factory=True)
    assert await stored(rows) == [("finished", "ann", "atlas"), ("finished", "ben", "cms")]


@pytest.mark.parametrize("of_queue", [["atlas"], ["atlas", "cms"]])
async def test_a_pilot_of_another_vo_takes_no_number_that_a_factory_uses_next(
    rows: Rows, parts: Parts, authority: Authority, of_queue: list[str]
) -> None:
    """The factory acts for the VOs of its queue; a pilot of cms, who is the first to report, knows how it counts."""
    await is_of(rows, *of_queue)
    factory, thief, ann = ("factory", "production", of_queue), ("ben", "pilot", ["cms"]), ("ann", "pilot", ["atlas"])
    assert await told(parts, authority, thief, "finished")
    assert await told(parts, authority, factory, "submitted", factory=True)
    assert await told(parts, authority, thief, "started")
    assert await told(parts, authority, ann, "started")
    assert ("started", "ann", "atlas") in await stored(rows)
    assert await told(parts, authority, ann, "finished")
    assert await told(parts, authority, factory, "finished", factory=True)
    assert await stored(rows) == [("finished", "ann", "atlas"), ("finished", "ben", "cms")]


async def test_a_worker_of_a_factory_of_several_vos_is_of_the_vo_whose_pilot_begins_it(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await is_of(rows, "atlas", "cms")
    factory = ("factory", "production", ["atlas", "cms"])
    assert await told(parts, authority, factory, "submitted", factory=True)
    assert await stored(rows) == [("submitted", None, "")]
    assert await told(parts, authority, ("ben", "pilot", ["cms"]), "started")
    assert await stored(rows) == [("started", "ben", "cms")]
    assert await told(parts, authority, ("ann", "pilot", ["atlas"]), "started"), "whoever it was for"
    assert await told(parts, authority, factory, "finished", factory=True)
    assert await stored(rows) == [("finished", "ann", "atlas"), ("finished", "ben", "cms")]


async def test_a_worker_that_a_factory_of_a_vo_submitted_is_begun_by_a_pilot_of_that_vo(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await is_of(rows, "atlas")
    assert await told(parts, authority, ("factory", "production", ["atlas"]), "submitted", factory=True)
    assert await told(parts, authority, ("ben", "pilot", ["cms"]), "started"), "one of his own VO"
    assert await stored(rows) == [("submitted", None, "atlas"), ("started", "ben", "cms")]
    assert await told(parts, authority, ("ann", "pilot", ["atlas", "cms"]), "started")
    assert await stored(rows) == [("started", "ann", "atlas"), ("started", "ben", "cms")]


@pytest.mark.parametrize(
    ("vos_of_queue", "role", "groups", "may"),
    [(["atlas"], "production", ["cms"], False), (["atlas", "cms"], "production", ["cms"], False),
     (["atlas", "cms"], "production", ["atlas", "cms"], True), ([], "production", ["cms"], False),
     ([], "production", [], True), (["atlas"], "operator", ["cms"], True), (["cms"], "pilot", ["cms"], False)],
)  # fmt: skip
async def test_a_factory_brings_workers_to_a_queue_for_which_it_is_production_of_all_its_vos(
    rows: Rows, parts: Parts, authority: Authority, vos_of_queue: list[str], role: str, groups: list[str], may: bool
) -> None:
    await is_of(rows, *vos_of_queue)
    assert await told(parts, authority, ("factory", role, groups), "submitted", factory=True) is may
    assert len(await stored(rows)) == may


async def test_a_factory_moves_none_of_its_workers_to_a_queue_of_another_vo(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    factory = ("factory", "production", ["atlas"])
    await is_of(rows, "atlas")
    assert await told(parts, authority, factory, "submitted", factory=True)
    async with rows.database.read() as connection:
        await connection.execute("UPDATE workers SET queue = 'Q2'")
    await is_of(rows, "cms")
    assert not await told(parts, authority, factory, "running", factory=True)


@pytest.mark.parametrize(
    ("name", "role", "groups", "status"),
    [("paul", "production", ["cms"], 403), ("paul", "production", [], 200), ("olga", "operator", ["cms"], 200),
     ("pilot-1", "pilot", ["cms"], 200)],
)  # fmt: skip
async def test_a_site_is_advertised_for_every_vo_by_who_acts_for_all_or_is_named(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, groups: list[str], status: int
) -> None:
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch", headers=headers) as caller:
        answer = await caller.post("/api/v1/site/advertise", json={"Site": "SITE-A", "MaxJobs": 5})
    assert answer.status_code == status, answer.text
