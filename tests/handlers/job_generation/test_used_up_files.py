"""What event ranges left in object stores is listed until somebody says that it was deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from services.job_generation.api.used_up_files import used_up_file_routes
from shared.auth import Authority
from shared.db import Database
from shared.web.service import install
from tests.rows import dataset, file, insert, task

LIST, DELETED = "/api/v1/used_up_files/list", "/api/v1/used_up_files/deleted"
Asks = Callable[..., Awaitable[Any]]


@pytest.fixture
async def asks(database: Database, authority: Authority) -> Asks:
    web = FastAPI()
    web.include_router(used_up_file_routes(database))
    install(web, authority, {})

    async def ask(method: str, path: str, name: str, *roles: str, groups: tuple[str, ...] = (), **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {authority.issue(name, roles, groups)}"}
        sent = {"params": given} if method == "GET" else {"json": given}
        transport = httpx.ASGITransport(app=web)
        async with httpx.AsyncClient(transport=transport, base_url="http://one", headers=headers) as client:
            answer = await client.request(method, path, **sent)
        return answer.json() | {"code": answer.status_code}

    return ask


@pytest.fixture
async def task_id(database: Database) -> int:
    """Task 7 of alice: a.zip is merged, of b.zip one range is still to be merged, two ranges have outputs of their own.

    c.zip was written for an earlier job set.
    """
    async with database.read() as connection:
        await task(connection, task_id=7, user_name="alice", vo="demo")
        dataset_id = await dataset(connection, 7)
        file_id = await file(connection, 7, dataset_id)
        for row_id, lfn in ((1, "a.zip"), (2, "b.zip"), (3, "c.zip")):
            row = {"zip_row_id": row_id, "task_id": 7, "job_id": 10 + row_id, "kind": "zip", "lfn": lfn}
            await insert(connection, "event_range_files", row | {"obj_store_id": 5, "size_bytes": 100})
        same = {"task_id": 7, "dataset_id": dataset_id, "file_id": file_id, "attempt_nr": 3}
        for number, (row_id, status, mark) in enumerate(
            [(1, 9, "Y"), (1, 9, "Y"), (2, 9, "Y"), (2, 6, None), (None, 9, "Y"), (None, 6, None), (3, 5, "Y")]
        ):
            found = {"event_range_id": number + 1, "status": status, "job_id": 20, "job_process_id": number}
            found |= {"def_min_event_id": number, "zip_row_id": row_id, "file_not_deleted": mark, "is_jumbo": False}
            found |= {"obj_store_id": None if row_id else 6}
            await insert(connection, "event_ranges_past" if row_id == 3 else "event_ranges", same | found)
        return file_id


async def names(asks: Asks) -> list[str]:
    told = await asks("GET", LIST, "alice", "user", groups=("demo",), task_id=7)
    return [one["name"] for one in told["data"]]


async def test_a_file_is_listed_when_no_range_in_it_is_needed_any_more_with_where_it_is(
    asks: Asks, task_id: int
) -> None:
    told = await asks("GET", LIST, "alice", "user", groups=("demo",), task_id=7)
    shown = [
        (one["name"], one["job_id"], one["obj_store_id"], one["size_bytes"], one["n_ranges"]) for one in told["data"]
    ]
    alone = (f"7-20-{task_id}-4-3", 20, 6, None, 1)
    assert shown == [("a.zip", 11, 5, 100, 2), ("c.zip", 13, 5, 100, 1), alone]


async def test_a_file_whose_deletion_was_reported_is_listed_no_more_and_the_report_may_come_again(
    asks: Asks, task_id: int, database: Database
) -> None:
    files = ["a.zip", "c.zip", f"7-20-{task_id}-4-3"]
    for n_new in (3, 0):
        told = await asks("POST", DELETED, "carl", "production", groups=("demo",), task_id=7, files=files)
        assert told["success"] and told["data"] == {"n_files": n_new}, told
        assert await names(asks) == []
    async with database.read() as connection:
        audited = await connection.fetch("SELECT caller, details FROM audit_log WHERE verb = 'used_up_files.deleted'")
    assert [(row["caller"], sorted(row["details"]["files"])) for row in audited] == [("carl", sorted(files))] * 2


@pytest.mark.parametrize("wrong", ["b.zip", "d.zip"])
async def test_a_report_that_names_a_file_which_is_needed_or_unknown_is_refused_whole(
    asks: Asks, task_id: int, wrong: str
) -> None:
    told = await asks("POST", DELETED, "carl", "production", groups=("demo",), task_id=7, files=["a.zip", wrong])
    assert not told["success"]
    assert [(one["field"], one["value"]) for one in told["problems"]] == [("files", wrong)]
    assert "allowed: files that task 7 has used up" in told["message"] + told["problems"][0]["allowed"]
    assert "a.zip" in await names(asks)


@pytest.mark.parametrize(
    ("name", "roles", "groups", "sees", "reports"),
    [
        ("alice", ("user",), ("demo",), True, False),
        ("bob", ("user",), ("demo",), False, False),
        ("carl", ("production",), ("demo",), True, True),
        ("dora", ("production",), ("other",), False, False),
        ("olga", ("operator",), (), True, True),
    ],
)
async def test_the_owner_production_and_operators_see_the_files_and_production_and_operators_report(
    asks: Asks, task_id: int, name: str, roles: tuple[str, ...], groups: tuple[str, ...], sees: bool, reports: bool
) -> None:
    listed = await asks("GET", LIST, name, *roles, groups=groups, task_id=7)
    told = await asks("POST", DELETED, name, *roles, groups=groups, task_id=7, files=["a.zip"])
    assert (listed.get("success", False), told.get("success", False)) == (sees, reports), (listed, told)
    assert ("a.zip" in await names(asks)) is not reports
