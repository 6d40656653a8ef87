"""Names of datasets belong to VOs and people: nobody else writes them, by an import or a task, then or later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.auth import Authority
from shared.db import Database
from shared.events import OutputsProduced, OutputsRegistered, TaskRegistered
from shared.model.names import owning_scope
from shared.runtime.service import Context, Service
from tests.handlers.events import deliver
from tests.handlers.task_definition import test_periodic_tasks as periodic
from tests.handlers.task_definition.steps import put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.test_data import a_holding_job, reported
from tests.handlers.task_definition.test_preprocessing import begun, returned
from tests.handlers.task_definition.two_vos import (
    NOT_PERMITTED,
    People,
    a_dataset,
    analysing,
    contents,
    get,
    imported,
    offer,
    owner_of,
    take_in,
    writing,
)
from tests.handlers.task_definition.world import output


@pytest.fixture
async def people(service: Service, authority: Authority) -> People:
    """Each VO's production has loaded data of its VO."""
    people = People(service, authority)
    await imported(people.atlas_production, a_dataset("data23.a"), a_dataset("data23.frozen", "frozen"))
    await imported(people.cms_production, a_dataset("run3.a"))
    return people


ATTACKS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "files into an open dataset": ([a_dataset("data23.a", n_files=5)], {}),
    "a copy of an open dataset": ([a_dataset("data23.a", replicas=[{"storage": "BETA_DATADISK"}])], {}),
    "a copy of a frozen dataset": (
        [a_dataset("data23.frozen", "frozen", replicas=[{"storage": "BETA_DATADISK"}])], {}),
    "freezing an open dataset": ([a_dataset("data23.a", "frozen")], {}),
    "a new name of the scope": ([a_dataset("data23.new")], {}),
    "a name with another scope in front": ([a_dataset("data23.a", scope="run3")], {}),
    "another name in the scope": ([a_dataset("run3.new", scope="data23")], {}),
    "a name as of unmerged output": ([a_dataset("panda.um.data23.a", scope="run3")], {}),
    "a name with its scope in it": ([a_dataset("data23.b", scope="run3") | {"name": "run3:data23.b"}], {}),
    "a container": ([], {"containers": [{"scope": "run3", "name": "data23.box/", "datasets": ["run3.a"]}]}),
    "in the middle of many": ([a_dataset("run3.b"), a_dataset("data23.a", n_files=9), a_dataset("run3.c")], {}),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
async def test_production_of_another_vo_imports_nothing_into_what_a_vo_has(
    database: Database, people: People, attack: str
) -> None:
    datasets, more = ATTACKS[attack]
    before = await contents(database)
    reply = await take_in(people.cms_production, *datasets, **more)
    assert (reply["success"], reply["data"]) == (False, NOT_PERMITTED), reply
    [problem] = reply["problems"]
    assert (
        problem["field"].endswith(".name") and "scope data23 belongs to the VO atlas; allowed: " in problem["allowed"]
    )
    assert "the VO cms" in problem["allowed"]
    assert await contents(database) == before
    assert await owner_of(database, "data23") == [("atlas", "")]


async def test_naming_the_vo_in_the_file_opens_nothing(database: Database, people: People) -> None:
    before = await contents(database)
    reply = await take_in(people.cms_production, a_dataset("data23.a", n_files=5), vo="atlas")
    assert not reply["success"] and [one["field"] for one in reply["problems"]] == ["vo"]
    assert reply["problems"][0]["allowed"] == "'atlas': allowed: cms"
    for wrong in ("", 7, "a" * 17, "x y"):
        reply = await take_in(people.everyone, a_dataset("data23.a", n_files=5), vo=wrong)
        assert not reply["success"] and [one["field"] for one in reply["problems"]] == ["vo"], wrong
    assert await contents(database) == before
    await imported(people.atlas_production, a_dataset("data23.a", n_files=5), vo="atlas")
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'data23.a'") == 5


async def test_who_produces_for_several_vos_says_for_which(database: Database, people: People) -> None:
    both = people.of("both", "production", "atlas/production", "cms/production")
    reply = await take_in(both, a_dataset("new.a"))
    assert not reply["success"] and reply["problems"][0]["allowed"] == "is needed: allowed: atlas, cms"
    await imported(both, a_dataset("new.a"), vo="cms")
    assert await owner_of(database, "new") == [("cms", "")]


async def test_a_frozen_dataset_takes_no_other_files_from_anybody(database: Database, people: People) -> None:
    before = await contents(database)
    for other, told in (({"n_files": 3}, "with 2 files, not 3"), ({"size": 11}, "with other names or sizes of files")):
        for client in (people.atlas_production, people.operator):
            reply = await take_in(client, a_dataset("data23.frozen", "frozen", **other))
            assert not reply["success"] and told in reply["message"], reply
    assert await contents(database) == before
    await imported(people.atlas_production, a_dataset("data23.frozen", "frozen"))


@pytest.mark.parametrize(
    "name", ["data23.mine", "data23:run3.mine", "data23", "run3:data23.mine", "panda.um.data23.x", "data23.$JEDITASKID"]
)
async def test_a_task_of_another_vo_writes_no_name_of_a_vo(database: Database, people: People, name: str) -> None:
    reply = await offer(people.cms_production, writing(name))
    assert not reply["success"]
    fields = {one["field"]: one["allowed"] for one in reply["problems"]}
    assert set(fields) == {"jobParameters.0.dataset", "log.dataset"}
    assert all("scope data23 belongs to the VO atlas" in one for one in fields.values())
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0
    await submit(people.cms_production, writing("run3.mine"))


async def test_a_task_puts_nothing_into_a_container_of_others(database: Database, people: People) -> None:
    await submit(people.atlas_ada, analysing("user.ada.first", "atlas"))
    for client, task, box in (
        (people.cms_ada, analysing("user.ada-cms.first"), "user.ada.all/"),
        (people.atlas_bob, analysing("user.bob.first", "atlas"), "user.ada.all/"),
        (people.cms_production, writing("run3.boxed"), "data23.all/"),
    ):
        task["jobParameters"][0]["container"] = box
        reply = await offer(client, task)
        assert not reply["success"], box
        assert [one["field"] for one in reply["problems"]] == ["jobParameters.0.dataset"]
        assert repr(box.rstrip("/")) in reply["message"]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 1


async def test_of_two_people_with_one_name_the_first_has_it_and_the_second_is_told_what_is_theirs(
    database: Database, people: People
) -> None:
    await submit(people.atlas_ada, analysing("user.ada.results", "atlas"))
    assert await owner_of(database, "user.ada") == [("atlas", "ada")]
    reply = await offer(people.cms_ada, analysing("user.ada.stolen"))
    allowed = "scope user.ada belongs to the VO atlas; allowed: names that begin with user.ada-cms."
    assert {one["allowed"] for one in reply["problems"]} == {allowed}
    await submit(people.cms_ada, analysing("user.ada-cms.results"))
    assert await owner_of(database, "user.ada-cms") == [("cms", "ada")]
    assert not (await offer(people.atlas_ada, analysing("user.ada-cms.stolen", "atlas")))["success"]
    await submit(people.atlas_ada, analysing("user.ada.more", "atlas"))


@pytest.mark.parametrize("name", ["user.ada.x", "user.ada", "user.ada.", "user.ada-atlas.x", "user.carl.x", "data23.x",
                                  "data24.x", "USER.bob.x", "user", "group.phys.x", "user.ada:user.bob.x",
                                  "user.bob:data24.x"])  # fmt: skip
async def test_a_user_writes_names_of_their_own_alone(database: Database, people: People, name: str) -> None:
    await submit(people.atlas_ada, analysing("user.ada.results", "atlas"))
    scopes = await rows_of(database, "SELECT * FROM catalogue.scopes ORDER BY scope")
    reply = await offer(people.atlas_bob, analysing(name, "atlas", taskName="user.bob.task"))
    assert not reply["success"], reply
    assert "allowed: names that begin with user.bob." in reply["message"]
    assert await rows_of(database, "SELECT * FROM catalogue.scopes ORDER BY scope") == scopes
    await submit(people.atlas_bob, analysing("user.bob.task", "atlas"))


async def test_names_of_two_issuers_are_two_people(database: Database, people: People) -> None:
    await submit(people.atlas_ada, analysing("user.ada.results", "atlas"))
    other = people.of("iam:ada", "user", "atlas")
    reply = await offer(other, analysing("user.ada.more", "atlas"))
    assert "scope user.ada belongs to somebody else; allowed: names that begin with user.iam-ada." in reply["message"]
    await submit(other, analysing("user.iam-ada.more", "atlas"))
    assert await owner_of(database, "user.iam-ada") == [("atlas", "iam:ada")]
    assert not (await offer(people.of("iam-ada", "user", "atlas"), analysing("user.iam-ada.x", "atlas")))["success"]


async def test_members_of_a_group_write_its_names_in_its_vo(database: Database, people: People) -> None:
    member = people.of("gil", "user", "atlas", "atlas/phys")
    await submit(member, analysing("group.phys.results", "atlas"))
    assert await owner_of(database, "group.phys") == [("atlas", "")]
    assert not (await offer(people.of("eve", "user", "cms", "cms/phys"), analysing("group.phys.x")))["success"]
    await submit(people.of("hal", "user", "atlas", "atlas/phys"), analysing("group.phys.more", "atlas"))


async def test_production_registers_for_people_of_its_vo_and_leaves_the_names_to_them(
    database: Database, people: People
) -> None:
    early = await take_in(people.atlas_production, a_dataset("user.ada.old", scope="user.ada"))
    assert "scope user.ada is not atlasprod's to take" in early["message"], "nobody knows yet of which VO's ada it is"
    await imported(people.atlas_production, a_dataset("user.ada-atlas.old", scope="user.ada-atlas"))
    await submit(people.atlas_ada, analysing("user.ada.new", "atlas"))
    assert await owner_of(database, "user.ada") == [("atlas", "ada")]
    await imported(people.atlas_production, a_dataset("user.ada.old", scope="user.ada"))
    assert not (await take_in(people.cms_production, a_dataset("user.ada.old", n_files=9, scope="user.ada")))["success"]
    named = await submit(people.atlas_production, writing("user.ada.third", "atlas", userName="ada"))
    assert (await task_row(database, named))["user_name"] == "ada"


async def test_of_two_who_take_a_scope_at_once_one_has_it(database: Database, people: People) -> None:
    for attempt in range(5):
        scope = f"new{attempt}"
        replies = await asyncio.gather(
            take_in(people.atlas_production, a_dataset(f"{scope}.a")),
            take_in(people.cms_production, a_dataset(f"{scope}.b")),
            offer(people.cms_production, writing(f"{scope}.c")),
            offer(people.atlas_production, writing(f"{scope}.d", "atlas")),
        )
        won = [vo for vo, reply in zip(("atlas", "cms", "cms", "atlas"), replies, strict=True) if reply["success"]]
        [(vo, _)] = await owner_of(database, scope)
        assert won == [vo] * 2, replies
        written = await rows_of(database, "SELECT name FROM catalogue.datasets WHERE name LIKE $1", f"{scope}.%")
        assert [row["name"] for row in written] == [f"{scope}.{'a' if vo == 'atlas' else 'b'}"]


async def test_what_was_loaded_for_no_vo_is_not_any_vo_s_to_write(database: Database, people: People) -> None:
    await imported(people.everyone, a_dataset("open.a"))
    assert await owner_of(database, "open") == [("", "")]
    for reply in (
        await take_in(people.cms_production, a_dataset("open.a", n_files=5)),
        await offer(people.cms_production, writing("open.mine")),
    ):
        assert not reply["success"] and "belongs to production of every VO" in reply["message"]
    await imported(people.everyone, a_dataset("data23.a", n_files=4))  # production of every VO is atlas' too
    assert await owner_of(database, "data23") == [("atlas", "")]
    one_vo = people.of("central", "production")
    one_vo.headers["Origin"] = "cms"
    assert not (await take_in(one_vo, a_dataset("data23.a", n_files=9)))["success"]


async def test_a_refused_write_is_told_to_those_whose_name_it_is_and_counted(people: People, context: Context) -> None:
    await submit(people.atlas_ada, analysing("user.ada.new", "atlas"))
    await imported(people.atlas_production, a_dataset("user.ada.x", scope="user.ada"))
    for _ in range(2):
        await take_in(people.cms_production, a_dataset("data23.a"), a_dataset("user.ada.x", scope="user.ada"))
    await offer(people.cms_production, writing("data23.mine"))
    told = (await get(people.atlas_production, "refused"))["data"]
    found = {(one["scope"], one["verb"]): (one["caller"], one["dataset"], one["cause"], one["n_times"]) for one in told}
    assert found == {
        ("data23", "import"): ("cmsprod", "data23.a", "another VO", 2),
        ("user.ada", "import"): ("cmsprod", "user.ada.x", "another VO", 2),
        ("data23", "task"): ("cmsprod", "data23.mine", "another VO", 2),
    }
    assert [one["scope"] for one in (await get(people.atlas_ada, "refused"))["data"]] == ["user.ada"]
    for other in (people.atlas_bob, people.cms_ada, people.cms_production):
        assert (await get(other, "refused"))["data"] == []
    shown = (await get(people.atlas_production, "show", name="data23.frozen"))["data"]["refused_writes"]
    assert {one["verb"] for one in shown} == {"import", "task"}
    assert (await get(people.atlas_bob, "show", name="data23.frozen"))["data"]["refused_writes"] == []
    counted = {"verb": "import", "cause": "another VO"}
    assert context.metrics.get_sample_value("orrery_catalogue_writes_refused_total", counted) == 4


async def test_writes_of_series_and_of_what_pre_processing_returned_are_told_and_counted_like_those_of_tasks(
    database: Database, service: Service, people: People, context: Context
) -> None:
    refused = await periodic.submit(people.cms_production, writing("data23.series"))
    assert "scope data23 belongs to the VO atlas" in refused["message"]
    later = await periodic.submit(people.cms_production, writing("data24.series.$JEDITASKID"))
    assert later["success"], later
    gift = {"scope": "data24", "vo": "atlas"}
    assert (await people.operator.post("/api/v1/catalogue/scope", json=gift)).json()["success"]
    await periodic.look(database, service)
    task_id = await begun(database, service, people.everyone, taskName="begun.theft")
    items = [{**output("x"), "dataset": "data23.returned"}]
    given = {"taskParameters": {"noInput": True, "nFilesPerJob": None, "nFiles": 2, "jobParameters": items}}
    assert (await returned(database, service, task_id, given))["status"] == "broken"
    told = (await get(people.atlas_production, "refused"))["data"]
    assert {(one["scope"], one["verb"], one["caller"], one["cause"]) for one in told} == {
        ("data23", "periodic task", "cmsprod", "another VO"),
        ("data24", "periodic task", "cmsprod", "another VO"),
        ("data23", "task", "prodteam", "another VO"),
    }
    name = "orrery_catalogue_writes_refused_total"
    assert context.metrics.get_sample_value(name, {"verb": "periodic task", "cause": "another VO"}) == 4
    assert context.metrics.get_sample_value(name, {"verb": "task", "cause": "another VO"}) == 1


async def test_operators_give_a_scope_and_nobody_else_does(database: Database, people: People) -> None:
    gift = {"scope": "data23", "vo": "cms"}
    for client in (people.cms_production, people.atlas_production, people.everyone, people.cms_ada):
        assert (await client.post("/api/v1/catalogue/scope", json=gift)).status_code == 403
    for wrong in ({"scope": "data23.x"}, {"scope": "user.ada.x"}, {"scope": "a b"}, {"vo": "a/b"}):
        reply = (await people.operator.post("/api/v1/catalogue/scope", json={**gift, **wrong})).json()
        assert not reply["success"] and [one["field"] for one in reply["problems"]] == list(wrong)
    assert (await people.operator.post("/api/v1/catalogue/scope", json=gift)).json()["success"]
    assert await value_of(database, "SELECT details FROM audit_log WHERE verb = 'catalogue.scope'") == {
        "vo": "cms", "owner": "",
    }  # fmt: skip
    await imported(people.cms_production, a_dataset("data23.a", n_files=5))
    assert not (await take_in(people.atlas_production, a_dataset("data23.a", n_files=6)))["success"]


async def test_what_a_pre_processing_job_returns_names_no_output_of_others(
    database: Database, service: Service, people: People
) -> None:
    for name in ("data23.stolen", "unheard.of"):
        task_id = await begun(database, service, people.everyone, taskName=f"begun.{name}")
        items = [{**output("x"), "dataset": name}]
        row = await returned(database, service, task_id, {"taskParameters": {"noInput": True, "nFilesPerJob": None,
                                                          "nFiles": 2, "jobParameters": items}})  # fmt: skip
        assert row["status"] == "broken", row["error_dialog"]
        assert f"scope {name.split('.')[0]}" in row["error_dialog"]
        assert await rows_of(database, "SELECT FROM task_datasets WHERE dataset_name = $1", name) == []
        await put(database, task_id, "aborted")


async def test_a_task_whose_scope_went_to_another_vo_writes_nothing_in_it(
    database: Database, service: Service, people: People
) -> None:
    task_id = await submit(people.atlas_production, writing("data24.late", "atlas"))
    gift = {"scope": "data24", "vo": "cms"}
    assert (await people.operator.post("/api/v1/catalogue/scope", json=gift)).json()["success"]
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert row["status"] == "broken" and "scope data24 belongs to the VO cms" in row["error_dialog"]
    assert await rows_of(database, "SELECT FROM catalogue.datasets WHERE name LIKE 'data24.%'") == []


async def test_outputs_of_a_job_land_in_no_dataset_of_another_vo(
    database: Database, service: Service, people: People
) -> None:
    await a_holding_job(database, 1, reported(1))
    gift = {"scope": "mc", "vo": "cms"}
    assert (await people.operator.post("/api/v1/catalogue/scope", json=gift)).json()["success"]
    before = await contents(database)
    emitted = await deliver(database, service, OutputsProduced(job_ids=(1,)))
    assert emitted == (OutputsRegistered(job_ids=(), without_storage_job_ids=(1,)),)
    assert await contents(database) == before


NAMES = ["data23.a", "user.ada.x", "user.ada", "user", "user.", "group.x.y.z", "a", "panda.um.a.b", "panda.umx.a",
         "panda.um.panda.um.user.ada.x", "users.a.b", "x_y%.z"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_the_database_and_the_code_see_one_scope_in_a_name(database: Database, name: str) -> None:
    assert await value_of(database, "SELECT catalogue.owning_scope($1)", name) == owning_scope(name)


async def test_a_task_of_another_vo_is_named_by_a_scope_only_by_who_has_that_name(people: People) -> None:
    await submit(people.atlas_ada, analysing("user.ada.results", "atlas"))
    reply = await offer(people.cms_production, writing("run3.mine") | {"taskName": "user.ada.secret"})
    assert "taskName = 'user.ada.secret': scope user.ada belongs to the VO atlas" in reply["message"], reply
    await submit(people.cms_ada, analysing("user.ada-cms.results", taskName="user.ada.mine"))
