"""Names are of one issuer, secrets of their owner, and tasks refer to those that may be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shared.auth import Authority, give_authority
from shared.auth.authentication import Authentication
from shared.auth.configuration import IdentityFile
from shared.db import Database
from shared.model.secret_notes import ASKED, WITHHELD, secrets_of
from shared.runtime.service import Context, Service
from tests.applications import application_of
from tests.handlers.task_definition.steps import define, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import analysis, log, output
from tests.unit.auth.issuer_of_tests import Issuer


class People:
    """Callers of our own issuer, and of a second one whose names begin with cms:."""

    def __init__(self, service: Service, authority: Authority, issuer: Issuer) -> None:
        self.web = application_of(service, authority)
        self.authority, self.issuer = authority, issuer

    def trusting(self, **more: Any) -> None:
        """Believe both issuers."""
        section = {"issuer": self.issuer.url, "audience": ["orrery"], "prefix": "cms:"}
        identity = IdentityFile.model_validate({"issuers": [section], **more})
        give_authority(self.web, Authentication(self.authority, identity))

    def own(self, name: str, role: str, *groups: str) -> httpx.AsyncClient:
        return self._client(self.authority.issue(name, [role], groups))

    def of_second(self, name: str, *groups: str) -> httpx.AsyncClient:
        return self._client(self.issuer.token(preferred_username=name, groups=list(groups)))

    def _client(self, token: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.web)
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(transport=transport, base_url="http://task-definition", headers=headers)


@pytest.fixture
async def people(service: Service, authority: Authority) -> AsyncIterator[People]:
    async with Issuer() as issuer:
        found = People(service, authority, issuer)
        found.trusting()
        yield found


def task(name: str, vo: str, **changes: Any) -> dict[str, Any]:
    given = {"vo": vo, "jobParameters": [output(name)], "noInput": True, "nEvents": 10, "nEventsPerJob": 10}
    return analysis(name, **{**given, **changes})


async def refused(client: httpx.AsyncClient, parameters: dict[str, Any], **more: Any) -> dict[str, str]:
    """What is allowed, by field."""
    answer = (await client.post("/api/v1/task/submit", json={"task_parameters": parameters, **more})).json()
    assert not answer["success"], answer
    return {one["field"]: one["allowed"] for one in answer["problems"]}


@pytest.mark.parametrize("role", ["production", "operator"])
async def test_a_task_in_another_s_name_that_asks_for_their_secrets_is_refused_counted_and_told_to_them(
    people: People, database: Database, context: Context, role: str
) -> None:
    async with people.own("cmsprod", role, "cms") as cms:
        told = await refused(cms, task("user.ada-cms.theft", "cms", userName="ada", useSecrets=True))
        assert told == {"useSecrets": "the secrets of ada go to tasks that ada submits; allowed: false"}
        assert context.metrics.get_sample_value("orrery_secrets_refused_total", {"cause": "another_name"}) == 1
        series = {
            "task_parameters": task("user.ada-cms.series", "cms", userName="ada", useSecrets=True),
            "period_s": 3600,
        }
        answer = (await cms.post("/api/v1/periodic_task/submit", json=series)).json()
        assert [one["field"] for one in answer["problems"]] == ["useSecrets"]
        broken = await refused(cms, task("user.ada-cms.broken", "cms", userName="ada", useSecrets=True, site="NOWHERE"))
        assert broken.keys() == {"useSecrets", "site"}
        own = await submit(cms, task("user.cmsprod.own", "cms", useSecrets=True))
        without = await submit(cms, task("user.ada-cms.plain", "cms", userName="ada"))
    rows = [await task_row(database, one) for one in (own, without)]
    assert [(row["user_name"], row["submitted_by"]) for row in rows] == [("cmsprod", "cmsprod"), ("ada", "cmsprod")]
    notes = await rows_of(database, "SELECT * FROM audit_log WHERE target = $1 ORDER BY audit_id", secrets_of("ada"))
    assert [(row["caller"], row["verb"], row["details"]) for row in notes] == [
        ("cmsprod", ASKED, {"vo": "cms", "task_name": f"user.ada-cms.{name}"}) for name in ("theft", "series", "broken")
    ]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 2


@pytest.mark.parametrize(
    ("verb", "details"),
    [
        ("retry", {"new_parameters": {"nFiles": 1}}),
        ("change_split_rule", {"attribute_name": "nFilesPerJob", "attribute_value": 3}),
    ],
)
async def test_a_task_that_somebody_else_changed_gets_its_owner_s_secrets_no_more_and_she_is_told(
    people: People, database: Database, context: Context, verb: str, details: dict[str, Any]
) -> None:
    parameters = analysis("user.ada.work", vo="atlas", useSecrets=True)
    async with people.own("ada", "user", "atlas") as ada, people.own("prod", "production", "atlas") as production:
        task_id = await submit(ada, parameters)
        status = "finished" if verb == "retry" else "running"
        await put(database, task_id, status)
        answer = (await ada.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})).json()
        assert answer["success"], answer
        assert (await task_row(database, task_id))["changed_by"] is None, "it is her own change"
        await put(database, task_id, "running")
        plain = {"task_id": task_id, "priority": 700}
        assert (await production.post("/api/v1/task/change_priority", json=plain)).json()["success"]
        assert (await task_row(database, task_id))["changed_by"] is None, "its parameters are what they were"
        await put(database, task_id, status)
        answer = (await production.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})).json()
        assert answer["success"], answer
    row = await task_row(database, task_id)
    assert (row["submitted_by"], row["changed_by"]) == ("ada", "prod")
    (note,) = await rows_of(database, "SELECT * FROM audit_log WHERE target = $1", secrets_of("ada"))
    assert (note["caller"], note["verb"]) == ("prod", WITHHELD)
    assert (note["details"]["vo"], note["details"]["task_id"]) == ("atlas", task_id)
    assert context.metrics.get_sample_value("orrery_secrets_refused_total", {"cause": "changed"}) == 1


async def test_a_task_that_production_submits_again_under_its_name_gets_secrets_no_more(
    people: People, database: Database
) -> None:
    parameters = analysis("user.ada.again", vo="atlas", uniqueTaskName=True, nFiles=2)
    async with people.own("ada", "user", "atlas") as ada, people.own("prod", "production", "atlas") as production:
        task_id = await submit(ada, {**parameters, "useSecrets": True})
        await put(database, task_id, "finished")
        assert "useSecrets" in await refused(production, {**parameters, "userName": "ada", "useSecrets": True})
        assert await submit(production, {**parameters, "userName": "ada", "nFiles": 3}) == task_id
    row = await task_row(database, task_id)
    assert (row["user_name"], row["submitted_by"], row["changed_by"]) == ("ada", "ada", "prod")


async def test_production_submits_in_names_of_its_own_issuer_alone(people: People, database: Database) -> None:
    names_of = {"own": "names that do not begin with 'cms:'", "second": "names that begin with 'cms:'"}
    async with (
        people.of_second("robot", "cms", "cms/production") as second,
        people.own("prod", "production", "cms") as own,
        people.own("root", "operator") as operator,
    ):
        for client, named, allowed in ((second, "ada", names_of["second"]), (own, "cms:bob", names_of["own"])):
            told = await refused(client, task(f"user.{named.replace(':', '-')}-cms.foreign", "cms", userName=named))
            assert told["userName"].endswith(f"allowed: {allowed}"), told
            stolen = await refused(
                client, task(f"user.{named.replace(':', '-')}-cms.foreign", "cms", userName=named, useSecrets=True)
            )
            assert stolen.keys() >= {"userName", "useSecrets"}
        accepted = [
            await submit(second, task("user.cms-bob-cms.one", "cms", userName="cms:bob")),
            await submit(own, task("user.ada-cms.two", "cms", userName="ada")),
            await submit(operator, task("user.ada-cms.three", "cms", userName="cms:ada")),
        ]
        rows = [await task_row(database, one) for one in accepted]
        assert [(row["user_name"], row["submitted_by"]) for row in rows] == [
            ("cms:bob", "cms:robot"),
            ("ada", "prod"),
            ("cms:ada", "root"),
        ]
    people.trusting(shares_names=True)
    async with people.of_second("robot", "cms", "cms/production") as second:
        shared = await submit(second, task("user.ada-cms.shared", "cms", userName="ada"))
    assert (await task_row(database, shared))["user_name"] == "ada"


async def test_a_token_of_ours_with_a_name_of_another_issuer_is_not_believed(people: People) -> None:
    async with people.own("cms:ada", "user", "cms") as false, people.of_second("ada", "cms") as true:
        answer = await false.post("/api/v1/task/submit", json={"task_parameters": task("user.ada.a", "cms")})
        assert answer.status_code == 401 and "the name 'cms:ada' is of another source" in answer.text
        await submit(true, task("user.ada.a", "cms"))


async def test_a_parent_or_a_task_whose_files_are_skipped_that_is_not_readable_is_told_like_one_that_is_not_there(
    people: People, database: Database
) -> None:
    async with (
        people.own("ada", "user", "atlas") as ada,
        people.own("bob", "user", "atlas") as bob,
        people.own("prod", "production", "atlas") as production,
        people.own("cmsprod", "production", "cms") as cms,
        people.own("root", "operator") as operator,
    ):
        hers = await submit(ada, task("user.ada.parent", "atlas"))
        await submit(cms, task("user.cmsprod.first", "cms"))  # the VO cms is known from now on
        nobodys = 987_654_321

        def child(name: str, vo: str, other: int) -> dict[str, Any]:
            return analysis(f"user.{name}.child", vo=vo, parent_tid=other, skipFilesUsedBy=[other])

        for client, name, vo in ((bob, "bob", "atlas"), (cms, "cmsprod", "cms"), (operator, "root", "cms")):
            told = [await refused(client, child(name, vo, one)) for one in (hers, nobodys)]
            allowed = f"allowed: the id of a task of {vo} whose details {name} may read"
            assert told == [{"parent_tid": allowed, "skipFilesUsedBy": allowed}] * 2
            assert await refused(client, task(f"user.{name}.other", vo), parent_tid=hers) == {"parent_tid": allowed}
        for client in (ada, production, operator):
            body = {"task_parameters": child("ada", "atlas", hers) | {"userName": "ada"}, "dry_run": True}
            assert (await client.post("/api/v1/task/submit", json=body)).json()["success"]
        await put(database, hers, "failed")
        assert (await refused(ada, child("ada", "atlas", hers)))["parent_tid"] == "the parent is failed"


async def test_names_and_outputs_of_others_tasks_are_taken_without_a_word_on_whose_they_are(
    people: People, service: Service, database: Database
) -> None:
    async with (
        people.own("ada", "user", "atlas") as ada,
        people.own("bob", "user", "atlas") as bob,
        people.own("cmsprod", "production", "cms") as cms,
    ):
        await submit(ada, task("user.ada.name", "atlas", taskName="name", uniqueTaskName=True))
        other = {"jobParameters": [output("user.bob.elsewhere")], "log": log("user.bob.elsewhere")}
        ours = {
            "jobParameters": [{**output("c"), "dataset": "user.cmsprod.elsewhere"}],
            "log": {**log("c"), "dataset": "user.cmsprod.log"},
        }
        told = await refused(bob, task("name", "atlas", uniqueTaskName=True, **other))
        assert told == {"taskName": "a task of this name exists"}
        await submit(cms, task("name", "cms", uniqueTaskName=True, **ours))
        written, _ = await define(database, service, ada, task("user.ada.written", "atlas"))
        own = f"task {written} writes this dataset; allowed: one of its own, or allowTaskDuplication"
        thief = task("user.ada.thief", "atlas", jobParameters=[output("user.ada.written")])
        assert await refused(ada, thief) == {"jobParameters.0.dataset": own}
        hers = "scope user.ada belongs to somebody else; allowed: names that begin with user.bob."
        told = await refused(bob, thief)
        assert told == {"taskName": hers, "jobParameters.0.dataset": hers, "log.dataset": hers}


async def test_a_task_name_in_a_scope_of_somebody_is_theirs_like_the_name_of_a_dataset(people: People) -> None:
    async with people.own("eve", "user", "atlas") as eve, people.own("ada", "user", "atlas") as ada:
        taken = task("user.eve.data", "atlas", taskName="user.ada.fut2", uniqueTaskName=True)
        told = await refused(eve, taken)
        assert told["taskName"] == "scope user.ada is not eve's to take; allowed: names that begin with user.eve."
        await submit(ada, task("user.ada.fut2", "atlas", uniqueTaskName=True))
        assert "taskName" in await refused(eve, taken)
        await submit(eve, task("user.eve.data", "atlas", taskName="anything", uniqueTaskName=True))
