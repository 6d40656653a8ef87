"""What if: a decision made again with other numbers, for whom the task is told in full; nothing is stored."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_brokerage import loading
from services.job_brokerage.app import build
from shared.db import Database
from shared.runtime.service import Context
from tests.applications import application_of
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.job_brokerage.test_chunks import an_offer, copy_at

PATH = "/api/v1/grid/what_if"


@pytest.fixture
async def asked(database: Database, context: Context) -> Any:
    """Ask about a chunk whose jobs need more memory than any queue has, as somebody."""
    await load_grid(database)
    service = await started(build(context))
    web = application_of(service, context.authority)
    offer = await an_offer(database, nucleus="ALPHA", ram_count=90_000, user_name="ada", vo="atlas")
    await copy_at(database, offer, "GAMMA_DATADISK")
    await deliver(database, service, offer)

    async def ask(name: str = "ada", roles: tuple[str, ...] = ("user",), vo: str = "atlas", **query: Any) -> Any:
        token = context.authority.issue(name, list(roles), [vo])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://test") as client:
            headers = {"Authorization": f"Bearer {token}"}
            return await client.get(PATH, params={"task_id": offer.task_id, **query}, headers=headers)

    return ask


async def test_less_memory_finds_queues_and_says_which_and_nothing_is_stored(asked: Any, database: Database) -> None:
    found = (await asked(number=["ram_count=1000"])).json()["data"]
    assert (found["before"]["outcome"], found["after"]["outcome"]) == ("none", "chosen")
    assert found["numbers"]["ram_count"] == 90_000 and found["units"]["ram_unit"] == "MB"
    different = {one["name"]: one for one in found["changes"]}
    assert different["Q_ALPHA/SCORE"]["before"]["check"] == "memory_too_large"
    assert different["Q_ALPHA/SCORE"]["after"]["check"] is None
    assert "Q_DELTA/SCORE" not in different, "its status leaves it out either way"
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM brokerage_decisions") == 1
        assert await connection.fetchval("SELECT ram_count FROM tasks") == 90_000


async def test_without_anything_supposed_nothing_differs(asked: Any) -> None:
    found = (await asked()).json()["data"]
    assert found["changes"] == [] and found["before"] == found["after"]


async def test_a_runtime_parameter_is_supposed_for_the_tasks_vo(asked: Any) -> None:
    found = (await asked(number=["ram_count=1000"], parameter=["jobbroker.MAX_CANDIDATES=1"])).json()["data"]
    assert len(found["after"]["chosen"]) == 1
    again = (await asked(number=["ram_count=1000"])).json()["data"]
    assert len(again["after"]["chosen"]) > 1, "it was supposed once"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            {"number": ["ram=1"]},
            "number: value 'ram=1': allowed: NAME=VALUE, a whole number from 0 to 1000000000000, of core_count",
        ),
        ({"number": ["core_count=1.5"]}, "number: value 'core_count=1.5': allowed: NAME=VALUE, a whole number"),
        ({"number": ["ram_count=-1"]}, "number: value 'ram_count=-1': allowed"),
        ({"number": ["ram_count=nan"]}, "number: value 'ram_count=nan': allowed"),
        ({"parameter": ["jobbroker.MAX_CANDIDATE=1"]}, "did you mean jobbroker.MAX_CANDIDATES or "),
        ({"parameter": ["jobbroker.MAX_CANDIDATES=many"]}, "jobbroker.MAX_CANDIDATES: "),
        ({"parameter": ["jobbroker.MAX_CANDIDATES"]}, "allowed: COMPONENT.KEY=VALUE"),
        ({"number": ["core_count=100001"]}, "a whole number from 0 to 100000, of core_count"),
    ],
)
async def test_what_makes_no_sense_names_the_value_and_what_is_allowed(asked: Any, query: Any, told: str) -> None:
    answer = await asked(**query)
    assert answer.json()["success"] is False and told in answer.json()["message"], answer.text


async def test_whoever_is_not_told_of_the_task_is_told_that_there_is_none(asked: Any) -> None:
    ok = [("ada", ("user",), "atlas"), ("eve", ("production",), "atlas"), ("root", ("operator",), "cms")]
    not_ok = [("bob", ("user",), "atlas"), ("eve", ("production",), "cms"), ("ada", ("user",), "cms")]
    assert [(await asked(*who)).json()["success"] for who in ok] == [True] * 3
    for who in not_ok:
        answer = await asked(*who)
        assert answer.json()["success"] is False and "found" in answer.text


async def test_queues_are_named_by_a_part_of_their_names(database: Database, context: Context) -> None:
    await load_grid(database)
    web = application_of(await started(build(context)), context.authority)
    headers = {"Authorization": f"Bearer {context.authority.issue('ada', ['user'], ['atlas'])}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://test", headers=headers) as client:
        found = (await client.get("/api/v1/grid/names", params={"part": "a", "limit": 3})).json()["data"]
        assert found == ["Q_ALPHA", "Q_BETA", "Q_DELTA"]
        assert (await client.get("/api/v1/grid/names", params={"part": "eta"})).json()["data"] == ["Q_BETA"]


@pytest.fixture
async def of_analysis(database: Database, context: Context, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask about analysis whose user has jobs waiting at one of its queues; `read`: what was read for that."""
    read: list[str] = []
    for module, name in ((loading, "read_own"), (loading, "inputs_of_chunk"), (loading.store, "task_history")):
        monkeypatch.setattr(module, name, _noting(getattr(module, name), name, read))
    await load_grid(database)
    web = application_of(await started(build(context)), context.authority)
    offer = await an_offer(database, user_name="ada", vo="atlas", task_type="anal", prod_source_label="user",
                           gshare="User Analysis")  # fmt: skip
    await copy_at(database, offer, "GAMMA_DATADISK", "ALPHA_DATADISK")
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)"
            " VALUES ('Q_GAMMA', 'SCORE', 'User Analysis', 'ada', 'atlas', 'activated', 50, 50)"
        )
    headers = {"Authorization": f"Bearer {context.authority.issue('ada', ['user'], ['atlas'])}"}

    async def ask(**query: Any) -> Any:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(web), base_url="http://test", headers=headers
        ) as client:
            return (await client.get(PATH, params={"task_id": offer.task_id, **query})).json()["data"]

    return ask, read


def _noting(function: Any, name: str, noted: list[str]) -> Any:
    async def called(*arguments: Any, **named: Any) -> Any:
        noted.append(name)
        return await function(*arguments, **named)

    return called


async def test_a_parameter_that_analysis_alone_reads_makes_a_difference(of_analysis: Any) -> None:
    ask, _ = of_analysis
    found = await ask(parameter=["anal_jobbroker.MAX_QUEUED_JOBS_PER_PQ_USER=10"])
    assert [(one["name"], one["what"], one["after"]["check"]) for one in found["changes"]] == [
        ("Q_GAMMA/SCORE", "left out now", "user_queue")
    ]


async def test_whatever_is_supposed_it_is_read_once_what_does_not_depend_on_it(of_analysis: Any) -> None:
    ask, read = of_analysis
    found = await ask(number=["ram_count=900000"])
    assert found["after"]["outcome"] == "none" and sorted(read) == ["inputs_of_chunk", "read_own", "task_history"]
