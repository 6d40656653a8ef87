"""Whatever anybody asks: names, texts and places of a task reach its owner, production of its VO and operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from shared.auth import Authority
from shared.db import Database
from shared.db.queries import Queries
from shared.runtime.service import Context
from tests.handlers.canaries import CANARY, JOB, OWNER, QUEUE, TASK, plant
from tests.handlers.every_service import LEGACY, NAMES, Asked, client_of, routes_of, web_of
from tests.handlers.grids import load_grid

STRANGERS = {
    "a member of the VO": ("bob", ["user"], ["atlas"]),
    "a user of another VO": ("bob", ["user"], ["cms"]),
    "the same name in another VO": (OWNER, ["user"], ["cms"]),
    "production of another VO": ("chief", ["production", "user"], ["cms/production"]),
    "a pilot of another VO": ("factory", ["pilot"], ["cms"]),
    "a pilot of the VO": ("factory", ["pilot"], ["atlas"]),
    "a user of every VO": ("bob", ["user"], []),
}
READERS = {
    "the owner": (OWNER, ["user"], ["atlas"]),
    "production of the VO": ("prodteam", ["production"], ["atlas"]),
    "an operator": ("olga", ["operator"], []),
}


def ids_of(task_id: int, job_id: int) -> dict[str, Any]:
    """Values of the parameters of questions that are ids."""
    pairs = f'[{{"task_id": {task_id}, "job_id": {job_id}}}]'
    return {"task_id": task_id, "job_id": job_id, "job_ids": job_id, "ids": job_id, "job_task_ids": pairs}


IDS, ABSENT = ids_of(TASK, JOB), ids_of(799, 9999)
#: questions that clients send as a body
POSTED = {f"/api/v1/job/{name}" for name in ("get_description", "get_description_incl_archive")} | {
    "/api/v1/pilot/get_job_status",
    f"{LEGACY}getStatus",
}
#: what those who may read a task are told of it, names and texts included
DETAILS = {
    "/api/v1/task/get_details", "/api/v1/task/get_detailed_info", "/api/v1/task/get_task_parameters",
    "/api/v1/task/get_job_descriptions", "/api/v1/task/get_datasets_and_files", "/api/v1/task/list",
    "/api/v1/explain/task", "/api/v1/explain/task/{task_id}", "/api/v1/explain/job", "/api/v1/explain/job/{job_id}",
    "/api/v1/job/list", "/api/v1/job/get_status", "/api/v1/job/get_description",
    "/api/v1/job/get_description_incl_archive", "/api/v1/job/get_stdout", "/api/v1/event/get_event_range_statuses",
}  # fmt: skip
#: what tells others the state: the rest knows of no such task or job where these do
STATE_VIEWS = {
    "/api/v1/task/get_status", "/api/v1/task/get_details", "/api/v1/task/get_detailed_info",
    "/api/v1/explain/task", "/api/v1/explain/task/{task_id}", "/api/v1/explain/job", "/api/v1/explain/job/{job_id}",
    "/api/v1/job/list", "/api/v1/job/get_status", "/api/v1/job/get_description",
    "/api/v1/job/get_description_incl_archive", "/api/v1/pilot/get_job_status", f"{LEGACY}getStatus",
}  # fmt: skip
#: a pilot may know that another one has the job, and how far its ranges are
OF_PILOTS = {"/api/v1/event/get_available_event_range_count", "/api/v1/event/get_event_range_statuses"}
#: their answers say to whom, with a right of their own
OF_OTHER_RULES = ("/api/v1/creds/", "/api/v1/file_server/", "/cache/")


@pytest.fixture
async def planted(database: Database) -> None:
    await load_grid(database)
    async with database.read() as connection:
        await plant(connection)


@pytest.fixture
async def services(context: Context, planted: None, authority: Authority) -> dict[str, Any]:
    return {name: await web_of(context, authority, name) for name in NAMES}


def questions(web: Any, ids: dict[str, Any]) -> Iterator[tuple[Asked, httpx.Request]]:
    """Every route that reads, about these ids."""
    for route in routes_of(web):
        if route.path.startswith(OF_OTHER_RULES) or (route.method != "GET" and route.path not in POSTED):
            continue
        path, query = route.path, {name: ids[name] for name in route.in_query if name in ids}
        for name in route.in_path:
            path = path.replace("{" + name + "}", str(ids.get(name, "1")))
        if route.path.startswith(("/api/v1/pilot/", LEGACY)):
            query = {"job_ids": ids["job_ids"], "ids": ids["ids"]}
        if route.path.endswith("/get_details"):
            query["include_parameters"] = "true"
        body = {"job_ids": [ids["job_ids"]], "ids": str(ids["ids"])} if route.method == "POST" else None
        yield route, httpx.Request(route.method, f"http://s{path}", params=query, json=body)


async def answers(
    services: dict[str, Any], token: str, ids: dict[str, Any]
) -> AsyncIterator[tuple[Asked, httpx.Response]]:
    """What the caller is told by every route that reads."""
    for web in services.values():
        async with client_of(web, token) as client:
            for route, request in questions(web, ids):
                request.headers.update(client.headers)
                yield route, await client.send(request)


@pytest.mark.parametrize("who", STRANGERS)
async def test_no_route_tells_a_stranger_a_word_of_a_task(
    services: dict[str, Any], authority: Authority, who: str
) -> None:
    name, roles, groups = STRANGERS[who]
    told, n_asked = [], 0
    async for route, answer in answers(services, authority.issue(name, roles, groups), IDS):
        n_asked += 1
        assert answer.status_code < 500, (route.path, answer.text)
        text = answer.text.replace(OWNER, "") if name == OWNER else answer.text  # the caller's own name is no news
        if CANARY in text:
            told.append((route.method, route.path, text[max(0, text.index(CANARY) - 80) :][:200]))
    assert told == [] and n_asked > 50


@pytest.mark.parametrize("who", READERS)
async def test_who_may_read_a_task_is_told_its_words(services: dict[str, Any], authority: Authority, who: str) -> None:
    name, roles, groups = READERS[who]
    token = authority.issue(name, roles, groups)
    asked = answers(services, token, IDS)
    told = {route.path async for route, answer in asked if CANARY in answer.text.replace(OWNER, "")}
    assert DETAILS - told == set()


@pytest.mark.parametrize("who", STRANGERS)
async def test_what_may_not_be_seen_is_answered_like_what_does_not_exist_with_as_many_statements(
    services: dict[str, Any], authority: Authority, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    token, ran = authority.issue(*STRANGERS[who]), Counter[str]()
    for kind in ("rows", "row", "value", "run"):
        _count(monkeypatch, kind, ran)

    async def asked(ids: dict[str, Any]) -> dict[tuple[str, str], tuple[int, str, Counter[str]]]:
        found = {}
        ran.clear()
        async for route, answer in answers(services, token, ids):
            if who == "a pilot of the VO" and route.path in OF_PILOTS:
                continue
            if (route.in_path or set(route.in_query) & IDS.keys()) and route.path not in STATE_VIEWS:
                text = answer.text.replace(str(ids["job_id"]), "JOB").replace(str(ids["task_id"]), "TASK")
                found[route.method, route.path] = (answer.status_code, text, Counter(ran))
            ran.clear()
        return found

    await asked(IDS)  # what services read once and keep
    hidden, missing = await asked(IDS), await asked(ABSENT)
    assert hidden == missing and len(hidden) > 5


def _count(monkeypatch: pytest.MonkeyPatch, kind: str, ran: Counter[str]) -> None:
    plain = getattr(Queries, kind)

    async def counted(self: Queries, connection: Any, name: str, **given: Any) -> Any:
        ran[name] += 1
        return await plain(self, connection, name, **given)

    monkeypatch.setattr(Queries, kind, counted)


FILTERS = {
    "/api/v1/task/list": ({"user_name": OWNER}, {"name": f"*{CANARY}*"}),
    "/api/v1/task/get_tasks_modified_since": ({"dn": OWNER},),
    "/api/v1/task/get_tasks_detailed_info_since": (
        {"filters": f'{{"userName": "{OWNER}"}}'}, {"filters": f'{{"taskName": "{CANARY}*", "jediTaskID": {TASK}}}'},
    ),
    "/api/v1/job/list": (
        {"queue": QUEUE}, {"user_name": OWNER}, {"queue": QUEUE, "task_id": TASK}, {"queue": QUEUE, "job_ids": JOB},
    ),
}  # fmt: skip


@pytest.mark.parametrize("who", [*STRANGERS, *READERS])
async def test_filters_by_what_is_hidden_find_nothing_of_others(
    services: dict[str, Any], authority: Authority, who: str
) -> None:
    token = authority.issue(*(STRANGERS | READERS)[who])
    for path, queries in FILTERS.items():
        web = services["job-dispatch" if "/job/" in path else "task-definition"]
        async with client_of(web, token) as client:
            for query in queries:
                answer = (await client.get(path, params=query)).json()
                assert answer["success"] and len(answer["data"]) == (who in READERS), (path, query, answer)
            for query in ({"limit": 10}, {"status": "running", "limit": 10}):
                if path.endswith("/list"):
                    assert len((await client.get(path, params=query)).json()["data"]) == 1, "states are for all"


async def test_pages_of_a_filter_are_full_though_rows_of_others_stand_between(
    services: dict[str, Any], database: Database, authority: Authority
) -> None:
    from tests import rows

    async with database.read() as connection:
        for number in range(6):
            mine = {"user_name": "bob", "vo": "cms"} if number % 2 else {"user_name": "eve", "vo": "atlas"}
            task_id = await rows.task(connection, task_name=f"same.{number}", task_id=800 + number, **mine)
            await rows.job(connection, task_id, queue="Q7", user_name=mine["user_name"])
    token = authority.issue("bob", ["user"], ["cms"])
    async with client_of(services["task-definition"], token) as client:
        for skip, found in ((0, [805, 803]), (2, [801]), (4, [])):
            query = {"name": "same*", "limit": 2, "offset": skip}
            page = (await client.get("/api/v1/task/list", params=query)).json()["data"]
            assert [one["task_id"] for one in page] == found, skip
    for name, roles in (("bob", ["user"]), ("chief", ["production", "user"])):
        async with client_of(services["job-dispatch"], authority.issue(name, roles, ["cms"])) as client:
            page = (await client.get("/api/v1/job/list", params={"queue": "Q7", "limit": 2})).json()["data"]
            assert [one["task_id"] for one in page] == [805, 803]
