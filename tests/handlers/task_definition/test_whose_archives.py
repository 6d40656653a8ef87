"""Archives of people: nobody without a token, of another VO or with another task's permission gets them."""

from __future__ import annotations

import gzip
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from shared.signed_sources import SourceKeys
from shared.signed_sources.parameters import SIGNED_SOURCES
from shared.web.envelope import NOT_FOUND
from tests.applications import application_of
from tests.handlers.events import started
from tests.handlers.task_definition.steps import submit
from tests.handlers.task_definition.test_file_server import check, upload
from tests.handlers.task_definition.world import analysis

NAME, OF_ADA, OF_BOB = "jobO.1.tar.gz", gzip.compress(b"source of ada"), gzip.compress(b"of bob")


@asynccontextmanager
async def person(
    service: Service, authority: Authority, name: str, *groups: str, role: str = "user"
) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"} if name else {}
    transport = httpx.ASGITransport(app=application_of(service, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://task-definition", headers=headers) as client:
        yield client


async def fetched(client: httpx.AsyncClient, name: str = NAME, permission: str = "") -> bytes | None:
    """What comes; None where it is told exactly like what is not there."""
    answer = await client.get(f"{f'/signed/{permission}' if permission else ''}/cache/{name}")
    if answer.status_code == 200:
        return answer.content
    assert answer.status_code == 404
    absent = f"there is no file {name}: it was never uploaded, or not used for long"
    assert answer.json() == {"success": False, "message": absent, "data": NOT_FOUND}
    return None


@pytest.fixture
async def ada(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """Of atlas, with an archive."""
    async with person(service, authority, "ada", "atlas") as client:
        assert (await upload(client, NAME, OF_ADA))["success"]
        yield client


def task_with(archive: str, name: str = "user.ada.histograms", **changes: Any) -> dict[str, Any]:
    task = analysis(name, vo="atlas", **changes)
    line = {"type": "constant", "value": f'-j "" --sourceURL ${{SURL}} -a {archive}'}
    items = [one for one in task["jobParameters"] if one["param_type"] != "input"]
    return {**task, "noInput": True, "nFiles": 1, "sourceURL": "http://h:1", "jobParameters": [*items, line]}


def permission(context: Context, task_id: int, for_s: float = 60.0) -> str:
    return context.source_keys.permission(task_id, time.time() + for_s)


@pytest.mark.parametrize(
    ("name", "groups", "role", "gets"),
    [
        ("ada", ("atlas",), "user", True),
        ("prodteam", ("atlas",), "production", True),
        ("operations", (), "operator", True),
        ("", (), "user", False),
        ("bob", ("atlas",), "user", False),
        ("bob", ("cms",), "user", False),
        ("ada", ("cms",), "user", False),
        ("prodteam", ("cms",), "production", False),
        ("pilot-1", ("atlas",), "pilot", False),
    ],
)
async def test_an_archive_is_its_owners_and_of_production_of_its_vo(
    service: Service, authority: Authority, ada: httpx.AsyncClient, name: str, groups: tuple[str, ...], role: str,
    gets: bool,
) -> None:  # fmt: skip
    async with person(service, authority, name, *groups, role=role) as client:
        assert await fetched(client) == (OF_ADA if gets else None)
        assert await fetched(client, "jobO.2.tar.gz") is None


async def test_an_archive_of_one_vo_is_not_found_again_by_the_same_person_in_another(
    service: Service, authority: Authority, ada: httpx.AsyncClient
) -> None:
    assert (await check(ada, b"source of ada", OF_ADA)).startswith("FOUND:")
    async with person(service, authority, "ada", "cms") as elsewhere:
        assert (await check(elsewhere, b"source of ada", OF_ADA)).startswith("NOTFOUND")
    async with person(service, authority, "ada") as everywhere:
        assert (await check(everywhere, b"source of ada", OF_ADA)).startswith("FOUND:")


async def test_an_archive_without_a_vo_is_its_owners_alone(service: Service, authority: Authority) -> None:
    async with person(service, authority, "ada") as ada, person(service, authority, "p", role="production") as other:
        await upload(ada, NAME, OF_ADA)
        assert await fetched(ada) == OF_ADA and await fetched(other) is None


async def test_a_token_that_is_refused_opens_nothing(service: Service, authority: Authority, ada: Any) -> None:
    async with person(service, authority, "") as nobody:
        for header in ("Bearer x", f"Bearer {Authority.generate().issue('ada', ['user'], ['atlas'])}", "Basic YQ=="):
            nobody.headers["Authorization"] = header
            assert await fetched(nobody) is None
    async with person(service, authority, "ada", "atlas") as claims:
        claims.headers["Origin"] = "cms"
        assert await fetched(claims) is None


async def test_a_permission_opens_the_archives_that_its_task_names(
    service: Service, authority: Authority, context: Context, ada: httpx.AsyncClient
) -> None:
    await upload(ada, "jobO.11.tar.gz", gzip.compress(b"not named"))
    task_id = await submit(ada, task_with(NAME))
    async with person(service, authority, "") as payload:
        assert await fetched(payload, NAME, permission(context, task_id)) == OF_ADA
        assert await fetched(payload) is None, "the name alone opens nothing"
        for other in ("jobO.11.tar.gz", "O.1.tar.gz", "jobO.1.tar.gz.gz", "1.tar.gz", "jobO.1.tar.tgz"):
            await upload(ada, other, gzip.compress(other.encode()))
            assert await fetched(payload, other, permission(context, task_id)) is None
        old, foreign = permission(context, task_id, -1), SourceKeys.generate().permission(task_id, time.time() + 60)
        for wrong in (old, foreign, permission(context, task_id + 1), "x", "1.2.3", f"{task_id}.9999999999.{'A' * 32}"):
            assert await fetched(payload, NAME, wrong) is None


async def test_a_permission_is_for_no_other_path(
    service: Service, authority: Authority, context: Context, ada: httpx.AsyncClient
) -> None:
    task_id = await submit(ada, task_with(NAME))
    here = f"/signed/{permission(context, task_id)}"
    async with person(service, authority, "") as payload:
        for path in (
            "/cache/",
            "/cache/../cache/x.sh",
            f"/api/v1/task/get_status?task_id={task_id}",
            "",
            "/cache/a/b.gz",
        ):
            assert (await payload.get(here + path)).status_code == 404
        assert (await payload.post(here + f"/cache/{NAME}")).status_code == 405


@pytest.mark.parametrize("archive", ["sources.1.tar.gz", "list.xml.gz", "jobO.1+2-x_y.tgz"])
async def test_archives_of_build_jobs_and_lists_are_named_too(
    service: Service, authority: Authority, context: Context, ada: httpx.AsyncClient, archive: str
) -> None:
    await upload(ada, archive, OF_ADA)
    task = task_with(NAME)
    if archive.startswith("sources."):
        task["buildSpec"] = {"archiveName": archive, "jobParameters": "-i ${IN} -o ${OUT} --sourceURL ${SURL}"}
    else:  # PanDA's list of good runs is named without the ending with which it is fetched
        task["jobParameters"].append({"type": "constant", "value": f"--list\n{archive.removesuffix('.gz')}"})
    task_id = await submit(ada, task)
    async with person(service, authority, "") as payload:
        assert await fetched(payload, archive, permission(context, task_id)) == OF_ADA


async def test_a_task_that_names_the_archive_of_somebody_else_opens_nothing(
    service: Service, authority: Authority, context: Context, ada: httpx.AsyncClient
) -> None:
    async with person(service, authority, "bob", "atlas") as bob, person(service, authority, "") as payload:
        task_id = await submit(bob, task_with(NAME, "user.bob.histograms"))
        assert await fetched(payload, NAME, permission(context, task_id)) is None
        assert (await upload(bob, NAME, OF_BOB))["success"], "names are their owner's"
        assert await fetched(payload, NAME, permission(context, task_id)) == OF_BOB
        assert await fetched(bob) == OF_BOB and await fetched(ada) == OF_ADA


async def test_production_that_submits_in_a_users_name_opens_its_own_archives_only(
    service: Service, authority: Authority, context: Context, ada: httpx.AsyncClient
) -> None:
    stolen = {**task_with(NAME, "user.ada-cms.other"), "userName": "ada", "vo": "cms"}
    async with (
        person(service, authority, "prodcms", "cms", role="production") as producer,
        person(service, authority, "") as payload,
    ):
        task_id = await submit(producer, stolen)
        assert await fetched(payload, NAME, permission(context, task_id)) is None
        await upload(producer, NAME, OF_BOB)
        assert await fetched(payload, NAME, permission(context, task_id)) == OF_BOB


async def test_somebody_who_took_a_name_before_keeps_nobody_from_it(
    service: Service, authority: Authority, context: Context
) -> None:
    async with (
        person(service, authority, "mallory", "cms") as mallory,
        person(service, authority, "ada", "atlas") as ada,
        person(service, authority, "") as payload,
    ):
        await upload(mallory, NAME, OF_BOB)
        assert (await upload(ada, NAME, OF_ADA))["success"], "and she is not told of the other"
        task_id = await submit(ada, task_with(NAME))
        assert await fetched(payload, NAME, permission(context, task_id)) == OF_ADA


async def test_where_source_urls_are_not_signed_a_name_opens_its_file_unless_two_have_it(
    context: Context, database: Database, service: Service, authority: Authority, ada: httpx.AsyncClient
) -> None:
    off = "INSERT INTO parameters (component, key, value, type) VALUES ($1, $2, 'false', 'bool')"
    async with database.pool.acquire() as connection:
        await connection.execute(off, SIGNED_SOURCES.component, SIGNED_SOURCES.key)
    again = await started(build(replace(context, metrics=CollectorRegistry())))
    async with person(again, authority, "") as payload, person(again, authority, "mallory", "cms") as mallory:
        assert await fetched(payload) == OF_ADA
        await upload(mallory, NAME, OF_BOB)
        assert await fetched(payload) is None, "never what somebody else put under the name"
        task_id = await submit(ada, task_with(NAME))
        assert await fetched(payload, NAME, permission(context, task_id)) == OF_ADA, "jobs that have one go on"


async def test_production_reads_an_archive_of_its_vo_that_another_vo_has_under_the_same_name(
    service: Service, authority: Authority, ada: httpx.AsyncClient
) -> None:
    async with person(service, authority, "mia", "cms") as mia:
        await upload(mia, NAME, OF_BOB)
    for vo, content in (("atlas", OF_ADA), ("cms", OF_BOB)):
        async with person(service, authority, f"prod{vo}", vo, role="production") as producer:
            assert await fetched(producer) == content
