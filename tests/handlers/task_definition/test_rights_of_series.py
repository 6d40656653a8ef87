"""A periodic series goes by the rights that its submitter has on the day, and stops with them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.periodic import right_lost, rights_of_today
from shared.auth import Authority, Caller
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.steps import rows_of
from tests.handlers.task_definition.test_periodic_tasks import command, due_now, look, names, series, submit
from tests.handlers.task_definition.test_tasks_of_other_vos import client_of
from tests.rows import insert

ATLAS = {"vo": "atlas", "owner": "ada"}


async def execute(database: Database, statement: str, *values: Any) -> None:
    async with database.pool.acquire() as connection:
        await connection.execute(statement, *values)


async def revoke(database: Database, name: str, *, ago: str = "1 minute") -> None:
    async with database.read() as connection:
        at, until = await connection.fetchrow(
            "SELECT orrery_now() - $1::text::interval AS at, orrery_now() + interval '1 day' AS until", ago
        )
        row = {"kind": "subject", "name": name, "revoked_at": at, "until": until, "revoked_by": "operations"}
        await insert(connection, "revocations", row)


async def listed(client: httpx.AsyncClient) -> list[tuple[str, str | None]]:
    rows = (await client.get("/api/v1/periodic_task/list")).json()["data"]
    return [(row["status"], row["last_error"]) for row in rows]


async def state(database: Database) -> tuple[str, str | None]:
    [row] = await rows_of(database, "SELECT status, last_error FROM periodic_tasks")
    return row["status"], row["last_error"]


async def older(database: Database, days: int) -> None:
    """Nobody was heard of since then."""
    statement = "UPDATE periodic_tasks SET seen_at = seen_at - make_interval(days => $1)"
    await execute(database, statement, days)


@pytest.mark.parametrize(("role", "more"), [("user", {}), ("production", {"prodSourceLabel": "user"})])
async def test_a_series_pauses_when_its_submitter_is_revoked_and_goes_on_by_a_new_token_alone(
    database: Database, service: Service, authority: Authority, role: str, more: dict[str, Any]
) -> None:
    async with (
        client_of(service, authority, "ada", role, "atlas") as ada,
        client_of(service, authority, "chief", "production", "atlas") as chief,
    ):
        periodic_id = (await submit(ada, series(**ATLAS, **more)))["data"]
        await look(database, service)
        assert await names(database) == ["calibration.1"]
        await older(database, 1)
        await revoke(database, "ada")
        await due_now(database)
        await look(database, service)
        assert await names(database) == ["calibration.1"], "no task in the name of who was revoked"
        assert await listed(chief) == [("paused", "ada was revoked")]
        refused = await command(chief, "resume", periodic_id)
        assert (
            refused["data"] == rules.NOT_PERMITTED and "allowed: a call of ada with a new token" in refused["message"]
        )
        assert (await command(ada, "resume", periodic_id))["success"], "this token is younger than the revocation"
        await look(database, service)
        assert await state(database) == ("active", None)
        assert await names(database) == ["calibration.1", "calibration.2"]


async def test_a_revoked_token_resumes_nothing_while_it_is_still_believed(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "ada", "user", "atlas") as ada:
        periodic_id = (await submit(ada, series(**ATLAS)))["data"]
        await revoke(database, "ada", ago="3 seconds")
        await older(database, 1)
        await look(database, service)
        assert (await command(ada, "resume", periodic_id))["data"] == rules.NOT_PERMITTED
        assert await state(database) == ("paused", "ada was revoked")
        assert await names(database) == []


async def test_a_series_in_another_name_pauses_when_that_person_is_revoked(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "chief", "production", "atlas") as chief:
        periodic_id = (await submit(chief, series(**ATLAS | {"owner": "ada-atlas"}, userName="ada")))["data"]
        await execute(database, "UPDATE periodic_tasks SET state_change_time = state_change_time - interval '1 hour'")
        await revoke(database, "ada")
        await look(database, service)
        assert await state(database) == ("paused", "ada was revoked") and await names(database) == []
        assert (await command(chief, "resume", periodic_id))["success"], "production stands for it knowingly"
        await look(database, service)
        assert await names(database) == ["calibration.1"]


async def test_who_left_the_vo_or_lost_the_role_submits_nothing_more(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "chief", "production", "atlas") as chief:
        await submit(chief, series(**ATLAS | {"owner": "ada-atlas"}, userName="ada"))
    async with client_of(service, authority, "chief", "user", "atlas") as demoted:
        await demoted.get("/api/v1/periodic_task/list")
        await look(database, service)
        assert await names(database) == []
        status, reason = await state(database)
        assert status == "paused" and reason == "chief has the role production no longer, which tasks of ada need"
    async with client_of(service, authority, "chief", "production", "cms") as moved:
        periodic_id = (await rows_of(database, "SELECT periodic_id FROM periodic_tasks"))[0][0]
        assert (await command(moved, "resume", periodic_id))["data"] == rules.NOT_FOUND
    async with client_of(service, authority, "chief", "production", "atlas") as again:
        assert (await command(again, "resume", periodic_id))["success"]
        await look(database, service)
        assert await names(database) == ["calibration.1"]


async def test_a_submission_with_fewer_rights_counts_for_the_series_too(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "ada", "user", "atlas") as ada:
        await submit(ada, series(**ATLAS))
    async with client_of(service, authority, "ada", "user", "cms") as elsewhere:
        task = {**series("other", "ada"), "vo": "cms", "taskName": "once"}
        reply = (await elsewhere.post("/api/v1/task/submit", json={"task_parameters": task})).json()
        assert reply["success"], reply
    await look(database, service)
    assert await state(database) == ("paused", "ada acts no longer for the VO atlas")
    assert await names(database) == ["once"]


async def test_a_series_whose_submitter_shows_no_token_for_long_pauses(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "ada", "user", "atlas") as ada:
        periodic_id = (await submit(ada, series(**ATLAS)))["data"]
        await older(database, 29)
        await look(database, service)
        assert (await state(database))[0] == "active"
        await older(database, 2)
        await look(database, service)
        assert await state(database) == ("paused", "ada showed no token for 30 days")
        async with client_of(service, authority, "chief", "production", "atlas") as chief:
            assert (await command(chief, "resume", periodic_id))["data"] == rules.NOT_PERMITTED
        assert (await command(ada, "resume", periodic_id))["success"]


async def test_a_series_is_nothing_to_those_who_may_not_see_it(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "ada", "user", "atlas") as ada:
        periodic_id = (await submit(ada, series(**ATLAS)))["data"]
        assert await listed(ada) == [("active", None)]
    for name, role, group in (
        ("bob", "user", "atlas"),
        ("ada", "user", "cms"),
        ("chief", "production", "cms"),
        ("factory", "pilot", "atlas"),
    ):
        async with client_of(service, authority, name, role, group) as other:
            assert await listed(other) == [], name
            if role == "pilot":
                continue
            for verb in ("pause", "resume", "end"):
                reply = await command(other, verb, periodic_id)
                absent = await command(other, verb, 999)
                assert reply["data"] == absent["data"] == rules.NOT_FOUND
                assert reply["message"].replace(str(periodic_id), "999") == absent["message"]
    assert (await state(database))[0] == "active"


def caller(*roles: str, groups: tuple[str, ...] = ("atlas",), vo: str | None = None) -> Caller:
    return Caller("ada", frozenset(roles), frozenset(groups), vo)


def test_a_series_never_has_more_rights_than_it_was_given() -> None:
    today = rights_of_today(caller("user"), caller("operator", groups=("atlas", "atlas/higgs")), "atlas")
    assert today.roles == {"user"} and today.groups == {"atlas"}
    assert right_lost(today, "ada", "atlas") is None
    demoted = rights_of_today(caller("operator", groups=()), caller("production"), "atlas")
    assert demoted.may("production") and not demoted.may("operator") and demoted.vos == {"atlas"}
    assert right_lost(rights_of_today(caller("user"), caller("pilot"), "atlas"), "ada", "atlas") == (
        "ada has the roles user and production no longer in the VO atlas"
    )
