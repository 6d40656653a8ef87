"""Uploaded files: kept whole or not at all, found again and fetched by their owner."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import httpx
import pytest

from services.task_definition.desk import sandboxing
from services.task_definition.desk.sandboxing import PART_BYTES, Sandboxes, checksum_of
from services.task_definition.parameters import SANDBOX_KEPT_DAYS
from shared.auth import Authority
from shared.config.parameters import Parameters
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import value_of
from tests.unit.brokerage.conformance import sample

UPLOAD, CHECK = "/api/v1/file_server/upload_cache_file", "/api/v1/file_server/validate_cache_file"
CONTENT = bytes(range(256)) * 20
ARCHIVE = gzip.compress(CONTENT)


async def upload(client: httpx.AsyncClient, name: str, content: bytes = ARCHIVE, field: str = "file") -> dict[str, Any]:
    answer = await client.post(UPLOAD, files={field: (name, content, "application/octet-stream")})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def check(client: httpx.AsyncClient, content: bytes = CONTENT, archive: bytes = ARCHIVE) -> str:
    body = {"file_size": len(archive), "checksum": zlib.crc32(content)}
    return str((await client.post(CHECK, json=body)).json()["message"])


async def test_the_archive_of_phpo_is_taken_and_given_out_under_its_name(user: httpx.AsyncClient) -> None:
    recorded = next(one["out"] for one in sample("client_visible")["cases"] if one["in"]["name"] == "ph_n")
    [name] = [one["file"] for one in recorded["uploads"]]
    assert name.endswith(".tar") and (await upload(user, name))["success"]
    assert (await user.get(f"/cache/{name}")).content == ARCHIVE


async def test_what_was_uploaded_comes_back(user: httpx.AsyncClient) -> None:
    assert (await upload(user, "jobO.1.tar.gz"))["success"]
    answer = await user.get("/cache/jobO.1.tar.gz")
    assert answer.content == ARCHIVE and answer.headers["content-length"] == str(len(ARCHIVE))
    assert (await user.get("/cache/jobO.2.tar.gz")).status_code == 404


async def test_a_file_of_many_parts_is_put_together_again(user: httpx.AsyncClient, database: Database) -> None:
    large = bytes(range(251)) * (2 * PART_BYTES // 251) + b"the end!"
    assert (await upload(user, "sources.1.tar.gz", large))["success"]
    assert await value_of(database, "SELECT count(*) FROM sandbox_parts") == 2
    assert (await user.get("/cache/sources.1.tar.gz")).content == large


async def test_only_its_owner_is_told_that_a_file_is_there(
    user: httpx.AsyncClient, service: Service, authority: Authority
) -> None:
    assert (await check(user)).startswith("NOTFOUND")
    await upload(user, "jobO.1.tar.gz")
    assert await check(user) == "FOUND:task-definition:jobO.1.tar.gz"
    assert (await check(user, archive=ARCHIVE + b"x")).startswith("NOTFOUND"), "the size differs"
    async with client_of(service, authority, "bob", "user") as bob:
        assert (await check(bob)).startswith("NOTFOUND")


async def test_the_host_is_told_without_its_port(user: httpx.AsyncClient) -> None:
    await upload(user, "jobO.1.tar.gz")
    user.headers["Host"] = "orrery.example:8443"
    assert await check(user) == "FOUND:orrery.example:jobO.1.tar.gz"


async def test_a_name_belongs_to_the_first_file_of_its_owner_that_has_it(
    user: httpx.AsyncClient, database: Database
) -> None:
    await upload(user, "jobO.1.tar.gz")
    assert (await upload(user, "jobO.1.tar.gz"))["success"], "the answer was lost: the same once more"
    other = await upload(user, "jobO.1.tar.gz", gzip.compress(b"other"))
    assert not other["success"] and other["problems"][0]["field"] == "file"
    assert "another file of alice has this name" in other["message"]
    assert (await user.get("/cache/jobO.1.tar.gz")).content == ARCHIVE
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 1


async def test_the_same_file_that_comes_twice_at_one_time_is_stored_once(
    user: httpx.AsyncClient, database: Database
) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await upload(user, "jobO.1.tar.gz")
    async with database.pool.acquire() as connection:
        first = connection.transaction()
        await connection.execute("UPDATE sandboxes SET is_complete = false")
        await first.start()
        await connection.execute("UPDATE sandboxes SET is_complete = true")
        second = asyncio.create_task(upload(user, "jobO.1.tar.gz"))
        while not second.done():
            if await value_of(database, waits):
                break
        await first.commit()
    assert (await second)["success"]
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 1


@pytest.mark.parametrize("name", ["a.sh", "jobO.json", "jobO.1.zip", "x y.gz", ".gz", "a.gz\x00"])
async def test_names_are_those_of_archives(user: httpx.AsyncClient, name: str, database: Database) -> None:
    answer = await upload(user, name)
    assert not answer["success"] and "allowed: letters, digits" in answer["message"]
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 0


async def test_folders_in_a_name_are_left_out(user: httpx.AsyncClient) -> None:
    assert (await upload(user, "../../etc/jobO.1.tar.gz"))["data"] == "jobO.1.tar.gz"


async def test_too_large_a_file_leaves_nothing(
    user: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxing, "MOST_OF_OTHERS_BYTES", 3 * PART_BYTES)
    answer = await upload(user, "jobO.1.tar.gz", b"x" * (3 * PART_BYTES + 1))
    assert not answer["success"] and f"allowed: {3 * PART_BYTES} bytes" in answer["message"]
    assert await value_of(database, "SELECT count(*) FROM sandbox_parts") == 0
    assert (await upload(user, "sources.1.tar.gz", b"x" * (3 * PART_BYTES + 1)))["success"], "sources may be larger"


async def test_nobody_takes_all_the_room(user: httpx.AsyncClient, database: Database) -> None:
    await upload(user, "jobO.1.tar.gz")
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE sandboxes SET size_bytes = 11::bigint * 1024 * 1024 * 1024")
    answer = await upload(user, "jobO.2.tar.gz", gzip.compress(b"more"))
    assert not answer["success"] and "SANDBOX_OF_USER_GB" in answer["message"]


def form(names: bytes) -> bytes:
    return b"--b\r\nContent-Disposition: form-data; " + names + b"\r\n\r\nx\r\n--b--\r\n"


@pytest.mark.parametrize(
    ("content_type", "body", "told"),
    [
        ("application/json", b"{}", "allowed: multipart/form-data"),
        ("multipart/form-data", b"x", "the form is broken"),
        ("multipart/form-data; boundary=b", b"", "file: allowed: one file"),
        ("multipart/form-data; boundary=b", b"--b\r\n[{'o<h': 1}]: x\r\n\r\nx\r\n--b--\r\n", "the form is broken"),
        ("multipart/form-data; boundary=b", form(b'name="file"'), "one file in a form"),
        ("multipart/form-data; boundary=b", form(b'name="other"; filename="a.gz"'), "one file in a form"),
    ],
)  # fmt: skip
async def test_what_is_no_form_with_a_file_is_refused(
    user: httpx.AsyncClient, database: Database, content_type: str, body: bytes, told: str
) -> None:
    answer = await user.post(UPLOAD, content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 200 and not answer.json()["success"]
    assert told in answer.json()["message"] and answer.json()["problems"]
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 0


async def test_a_form_that_ends_too_early_leaves_nothing(user: httpx.AsyncClient, database: Database) -> None:
    begun = b'--b\r\nContent-Disposition: form-data; name="file"; filename="jobO.1.tar.gz"\r\n\r\nhalf of it'
    answer = await user.post(UPLOAD, content=begun, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert not answer.json()["success"] and "broken" in answer.json()["message"]
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 0


async def test_only_who_may_submit_may_upload(service: Service, authority: Authority) -> None:
    async with client_of(service, authority, "pilot-1", "pilot") as pilot:
        answer = await pilot.post(UPLOAD, files={"file": ("jobO.1.tar.gz", ARCHIVE)})
        assert answer.status_code == 403


async def test_what_nobody_fetches_is_forgotten_and_so_is_an_upload_that_stopped(
    user: httpx.AsyncClient, database: Database
) -> None:
    for name in ("jobO.old.tar.gz", "jobO.fetched.tar.gz", "jobO.new.tar.gz"):
        await upload(user, name, gzip.compress(name.encode()))
    async with database.pool.acquire() as connection:
        await connection.execute(
            "UPDATE sandboxes SET used_at = orrery_now() - make_interval(days => $1) WHERE name <> 'jobO.new.tar.gz'",
            int(SANDBOX_KEPT_DAYS.default) + 1,
        )
        stopped = (
            "INSERT INTO sandboxes (name, user_name, used_at) VALUES ('s.gz', 'alice', orrery_now() - interval '2 h')"
        )
        await connection.execute(stopped)
    assert (await user.get("/cache/jobO.fetched.tar.gz")).status_code == 200
    async with database.begin(reason="test") as work:
        assert await Sandboxes(database, Parameters()).forget_unused(work) is False
    async with database.read() as connection:
        rows = await connection.fetch("SELECT name FROM sandboxes ORDER BY name")
    assert [row["name"] for row in rows] == ["jobO.fetched.tar.gz", "jobO.new.tar.gz"]
    assert (await user.get("/cache/jobO.old.tar.gz")).status_code == 404


def test_the_checksum_stands_before_the_size_at_the_end_of_a_gzip_file() -> None:
    assert checksum_of(ARCHIVE[-8:]) == zlib.crc32(CONTENT)
    assert checksum_of(b"short") is None
