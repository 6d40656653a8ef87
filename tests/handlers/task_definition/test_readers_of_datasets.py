"""Datasets of a VO are told to its members and read by its tasks; to others they are as if absent, until opened."""

from __future__ import annotations

import pytest

from shared.auth import Authority
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Service
from shared.states.task import TaskStatus
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.two_vos import (
    People,
    a_dataset,
    get,
    imported,
    offer,
    reading,
    take_in,
    with_output,
)

BOX = {"scope": "data23", "name": "data23.box", "datasets": ["data23.a", "data23.b"]}


@pytest.fixture
async def people(service: Service, authority: Authority) -> People:
    people = People(service, authority)
    two = a_dataset("data23.a", "frozen"), a_dataset("data23.b", "frozen")
    await imported(people.atlas_production, *two, containers=[BOX])
    await imported(people.cms_production, a_dataset("run3.a", "frozen"))
    await imported(people.everyone, a_dataset("free.a", "frozen"))
    return people


async def test_lists_have_what_the_caller_s_vos_have_and_what_is_nobody_s(people: People) -> None:
    atlas, cms, free = {"data23.a", "data23.b", "data23.box"}, {"run3.a"}, {"free.a"}
    for client, names in (
        (people.atlas_ada, atlas | free),
        (people.cms_ada, cms | free),
        (people.cms_production, cms | free),
        (people.everyone, atlas | cms | free),
        (people.operator, atlas | cms | free),
        (people.of("chief", "operator", "cms"), atlas | cms | free),
    ):
        listed = {one["name"] for one in (await get(client, "datasets"))["data"]}
        assert listed - {"mc.evnt", "mc.minbias", "data.a", "data.b", "data.growing", "data.all"} == names
    assert (await get(people.cms_ada, "datasets", name="data23.*"))["data"] == []
    assert (await get(people.cms_ada, "datasets", name="data23.a"))["data"] == []
    scopes = {one["scope"]: one["vo"] for one in (await get(people.cms_ada, "scopes"))["data"]}
    assert scopes == {"run3": "cms", "free": ""}


@pytest.mark.parametrize("path", ["dataset", "show"])
async def test_a_dataset_of_another_vo_is_told_like_one_that_does_not_exist(people: People, path: str) -> None:
    for client in (people.cms_ada, people.cms_production):
        for name in ("data23.a", "data23.box/", "x:data23.a"):
            for files in ("True", "False"):
                hidden = await client.get(f"/api/v1/catalogue/{path}", params={"name": name, "include_files": files})
                absent = await client.get(f"/api/v1/catalogue/{path}", params={"name": "zz", "include_files": files})
                assert hidden.status_code == absent.status_code
                assert hidden.text == absent.text.replace("zz", name)
    for client in (people.atlas_ada, people.atlas_bob, people.operator, people.everyone):
        found = (await get(client, path, name="data23.a", include_files="True"))["data"]
        assert (found["vo"], len(found["files"])) == ("atlas", 2)


async def test_no_input_of_another_vo_is_taken_and_it_is_refused_like_what_does_not_exist(
    database: Database, people: People
) -> None:
    for name in ("data23.a", "data23.box/", "data23:data23.a"):
        hidden = await offer(people.cms_production, reading(name))
        absent = await offer(people.cms_production, reading("data23.zz"))
        assert not hidden["success"]
        told = [(one["field"], one["allowed"]) for one in hidden["problems"]]
        assert told == [(one["field"], one["allowed"]) for one in absent["problems"]]
        malformed = await offer(people.cms_production, reading(name, maxAttempt=0))
        assert {one["field"] for one in malformed["problems"]} == {"maxAttempt", "jobParameters.0.dataset"}
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0
    await submit(people.cms_production, reading("run3.a"))
    await submit(people.cms_production, with_output(reading("free.a"), "run3.free"))


async def test_whoever_is_not_of_a_vo_learns_nothing_of_its_datasets_by_naming_the_vo(people: People) -> None:
    for task in (reading("data23.a", "atlas"), reading("data23.zz", "atlas"), reading("data23.zz", "atlas", nFiles=-1)):
        fields = {one["field"] for one in (await offer(people.cms_production, task))["problems"]}
        assert fields in ({"vo"}, {"nFiles"})


async def test_a_task_that_waits_for_its_input_never_gets_that_of_another_vo(
    database: Database, service: Service, people: People
) -> None:
    dialogs = []
    for name in ("data23.a", "data23.zz"):
        task = with_output(reading(name, waitInput=True), f"run3.{name}")
        task_id = await submit(people.cms_production, task)
        await deliver(database, service, TaskRegistered(task_id=task_id))
        row = await task_row(database, task_id)
        assert row["status"] == "pending"
        dialogs.append(row["error_dialog"].replace(name, "it"))
        assert await rows_of(database, "SELECT FROM task_files WHERE task_id = $1", task_id) == []
    assert dialogs[0] == dialogs[1]


async def test_what_production_opens_is_read_by_other_vos_until_it_is_closed(
    database: Database, service: Service, people: People
) -> None:
    path = "/api/v1/catalogue/readable"
    for client in (people.cms_production, people.of("p", "production", "cms/production")):
        refused = (await client.post(path, json={"names": ["data23.a"]})).json()
        absent = (await client.post(path, json={"names": ["data23.zz"]})).json()
        assert not refused["success"] and str(refused).replace("data23.a", "data23.zz") == str(absent)
    assert (await people.atlas_ada.post(path, json={"names": ["data23.a"]})).status_code == 403
    opened = await people.atlas_production.post(path, json={"names": ["data23.a", "data23.box/"]})
    assert opened.json()["success"]
    assert {one["name"] for one in (await get(people.cms_ada, "datasets", name="data23.*"))["data"]} == {
        "data23.a", "data23.box",
    }  # fmt: skip
    box = (await get(people.cms_ada, "show", name="data23.box"))["data"]
    assert [one["name"] for one in box["datasets"]] == ["data23.a"], "what is in it and not open is left out"
    task_id = await submit(people.cms_production, reading("data23.box/"))
    await deliver(database, service, TaskRegistered(task_id=task_id))
    used = (
        "SELECT DISTINCT d.dataset_name FROM task_files JOIN task_datasets d USING (dataset_id) WHERE d.type = 'input'"
    )
    assert [row["dataset_name"] for row in await rows_of(database, used)] == ["data23.a"]
    assert not (await take_in(people.cms_production, a_dataset("data23.a", n_files=9)))["success"], "read, not written"
    await people.atlas_production.post(path, json={"names": ["data23.a", "data23.box"], "by_all": False})
    assert (await get(people.cms_ada, "datasets", name="data23.*"))["data"] == []


async def test_a_container_names_no_dataset_that_its_vo_may_not_read(database: Database, people: People) -> None:
    def with_box(name: str) -> list[dict]:
        return [{"scope": "run3", "name": "run3.box", "datasets": ["run3.a", name]}]

    hidden = await take_in(people.cms_production, containers=with_box("data23.a"))
    absent = await take_in(people.cms_production, containers=with_box("data23.zz"))
    assert not hidden["success"] and str(hidden).replace("data23.a", "data23.zz") == str(absent)
    assert await rows_of(database, "SELECT FROM catalogue.datasets WHERE name = 'run3.box'") == []
    await imported(people.cms_production, containers=with_box("free.a"))


async def test_a_container_filled_by_others_gives_a_vo_only_what_it_may_read(
    database: Database, service: Service, people: People
) -> None:
    await imported(
        people.everyone, containers=[{"scope": "free", "name": "free.box", "datasets": ["free.a", "data23.a"]}]
    )
    assert [one["name"] for one in (await get(people.cms_ada, "show", name="free.box"))["data"]["datasets"]] == [
        "free.a"
    ]
    task_id = await submit(people.cms_production, reading("free.box/"))
    await deliver(database, service, TaskRegistered(task_id=task_id))
    used = "SELECT dataset_name FROM task_datasets WHERE task_id = $1 AND type = 'input'"
    assert [row["dataset_name"] for row in await rows_of(database, used, task_id)] == ["free.a"]


async def test_a_retry_of_a_task_of_another_vo_gives_nothing_out_of_a_dataset_that_was_closed(
    database: Database, service: Service, people: People
) -> None:
    task_id = await a_reader_of_a_closed_dataset(database, service, people, "aborted")
    reply = (await people.cms_production.post("/api/v1/task/retry", json={"task_id": task_id})).json()
    assert reply["success"], reply
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    said = "input datasets unknown to the catalogue: data23.a"
    assert (row["status"], row["error_dialog"]) == ("broken", said)


@pytest.mark.parametrize("status", ["running", "paused"])
async def test_unread_files_of_a_dataset_that_was_closed_are_lost_to_tasks_that_live(
    database: Database, service: Service, people: People, status: str
) -> None:
    task_id = await a_reader_of_a_closed_dataset(database, service, people, status)
    for name in ("input-checks", "contents", "contents"):
        [run] = [one.run for one in service.periodic if one.name == name]
        async with database.begin(reason="test") as work:
            await run(work)
    files = await rows_of(database, "SELECT lfn, status FROM task_files WHERE task_id = $1 ORDER BY lfn", task_id)
    assert [one["status"] for one in files] == ["lost", "running"]
    assert (await task_row(database, task_id))["status"] == status


async def test_no_more_attempts_are_given_to_files_of_a_dataset_that_was_closed(
    database: Database, service: Service, people: People
) -> None:
    task_id = await a_reader_of_a_closed_dataset(database, service, people, "running")
    path, body = "/api/v1/task/increase_attempts", {"task_id": task_id, "increase": 3}
    reply = (await people.cms_production.post(path, json=body)).json()
    assert not reply["success"]
    assert reply["message"] == f"task {task_id}: tasks of cms may not read data23.a any more"


async def a_reader_of_a_closed_dataset(database: Database, service: Service, people: People, status: TaskStatus) -> int:
    """A task of cms over the two files of a dataset of atlas that was open: a job has the second one."""
    path = "/api/v1/catalogue/readable"
    assert (await people.atlas_production.post(path, json={"names": ["data23.a"]})).json()["success"]
    task_id = await submit(people.cms_production, reading("data23.a", nucleus="ALPHA"))
    await deliver(database, service, TaskRegistered(task_id=task_id))
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE task_files SET status = 'running' WHERE task_id = $1 AND lfn = 'data23.a._2'", task_id
        )
    await put(database, task_id, status)
    closed = await people.atlas_production.post(path, json={"names": ["data23.a"], "by_all": False})
    assert closed.json()["success"]
    return task_id
