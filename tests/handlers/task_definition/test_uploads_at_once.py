"""Uploads that run at once, at several replicas too: together they stay within what their owner may take."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from services.task_definition.app import build
from services.task_definition.desk import sandboxing
from services.task_definition.desk.sandboxing import MIB, STOPPED_S
from services.task_definition.parameters import SANDBOX_OF_USER_GB, SANDBOX_UPLOADS_AT_ONCE
from shared.auth import Authority
from shared.config.parameter import Parameter
from shared.db import Database
from shared.runtime.service import Context, Service
from tests.handlers.events import started
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.handlers.task_definition.test_file_server import UPLOAD, upload

BOUNDARY = "b"
HEAD = '--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
ARCHIVE = gzip.compress(os.urandom(1000))


async def replica(context: Context, database: Database, **values: Any) -> Service:
    """The service with these values of its parameters."""
    parameters: dict[str, Parameter[Any]] = {"room_gb": SANDBOX_OF_USER_GB, "at_once": SANDBOX_UPLOADS_AT_ONCE}
    async with database.pool.acquire() as connection:
        await connection.executemany(
            "INSERT INTO parameters (component, key, value, type) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT DO NOTHING",
            [(parameters[name].component, parameters[name].key, str(value), kind)
             for name, value in values.items() for kind in ("float" if name == "room_gb" else "int",)],
        )  # fmt: skip
    return await started(build(context))


class SlowUpload:
    """A form that is sent as its test says."""

    def __init__(self, client: httpx.AsyncClient, name: str, size: int | None = None) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pieces.put_nowait(HEAD.format(name=name).encode())
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        headers |= {} if size is None else {"Content-Length": str(size)}
        self.answer = asyncio.create_task(client.post(UPLOAD, content=self._sent(), headers=headers))

    async def _sent(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    def send(self, content: bytes) -> None:
        self._pieces.put_nowait(content)

    async def end(self) -> dict[str, Any]:
        self.send(b"\r\n--b--\r\n")
        self._pieces.put_nowait(None)
        return dict((await self.answer).json())


@asynccontextmanager
async def alice_at(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "alice", "user") as client:
        yield client


async def until_there_are(database: Database, n_rows: int) -> None:
    async with asyncio.timeout(20):
        while True:
            if await value_of(database, "SELECT count(*) FROM sandboxes") == n_rows:
                return


async def test_of_ten_uploads_at_once_at_two_replicas_those_are_kept_that_fit(
    context: Context, database: Database, authority: Authority, service: Service
) -> None:
    content = os.urandom(7 * MIB + 200_000)
    settings = {"room_gb": 20 / 1024, "at_once": 10}
    first, second = await replica(context, database, **settings), await replica(context, database, **settings)
    async with alice_at(first, authority) as one, alice_at(second, authority) as other:
        sent = [upload((one, other)[number % 2], f"jobO.{number}.tar.gz", content) for number in range(10)]
        answers = await asyncio.gather(*sent)
    kept = [one for one in answers if one["success"]]
    assert len(kept) == 2, "20 MB have room for two of 7.2 MB"
    for refused in (one for one in answers if not one["success"]):
        assert "allowed: 20971520 together (taskrefiner.SANDBOX_OF_USER_GB)" in refused["message"]
        assert refused["problems"][0]["field"] == "file"
    rows = await rows_of(database, "SELECT name, is_complete, size_bytes FROM sandboxes ORDER BY name")
    assert sorted(one["data"] for one in kept) == [row["name"] for row in rows]
    assert all(row["is_complete"] and row["size_bytes"] == len(content) for row in rows)
    stored = "SELECT sum(octet_length(content)) FROM sandbox_parts"
    assert await value_of(database, stored) == 2 * len(content), "nothing is left of the others"


async def test_an_upload_that_stops_gives_its_room_back(
    context: Context, database: Database, authority: Authority, service: Service
) -> None:
    own = await replica(context, database, room_gb=12 / 1024)
    async with alice_at(own, authority) as alice:
        size = 9 * MIB
        slow = SlowUpload(alice, "jobO.1.tar.gz", size)
        await until_there_are(database, 1)
        refused = await upload(alice, "jobO.2.tar.gz", bytes(5 * MIB))
        assert not refused["success"] and f"take {size} bytes" in refused["message"], "what was reserved counts"
        ended = await slow.end()
        assert ended["success"], "it was smaller than it said"
        assert (await upload(alice, "jobO.2.tar.gz", bytes(5 * MIB)))["success"]
        broken = SlowUpload(alice, "jobO.3.tar.gz", 4 * MIB)
        await until_there_are(database, 3)
        broken.answer.cancel()
        await until_there_are(database, 2)
        assert (await upload(alice, "jobO.3.tar.gz", bytes(4 * MIB)))["success"]


async def test_a_size_that_is_not_said_reserves_the_most(
    context: Context, database: Database, authority: Authority, service: Service
) -> None:
    own = await replica(context, database, room_gb=12 / 1024)
    async with alice_at(own, authority) as alice:
        slow = SlowUpload(alice, "jobO.1.tar.gz")
        await until_there_are(database, 1)
        assert not (await upload(alice, "jobO.2.tar.gz", bytes(5 * MIB)))["success"]
        slow.send(ARCHIVE)
        assert (await slow.end())["success"]
        assert (await upload(alice, "jobO.2.tar.gz", bytes(5 * MIB)))["success"]


async def test_what_a_process_left_that_died_holds_its_room_for_minutes_only(
    user: httpx.AsyncClient, database: Database
) -> None:
    left = (
        "INSERT INTO sandboxes (name, user_name, reserved_bytes, used_at)"
        " VALUES ('s.gz', 'alice', 11::bigint << 30, orrery_now() - make_interval(secs => $1))"
    )
    async with database.pool.acquire() as connection:
        await connection.execute(left, STOPPED_S - 30)
        assert "SANDBOX_OF_USER_GB" in (await upload(user, "jobO.1.tar.gz"))["message"]
        await connection.execute("UPDATE sandboxes SET used_at = used_at - interval '31 s'")
    assert (await upload(user, "jobO.1.tar.gz"))["success"]


async def test_a_person_has_a_few_uploads_under_way_and_keeps_nobody_else_from_any(
    context: Context, database: Database, authority: Authority, service: Service
) -> None:
    first, second = await replica(context, database, at_once=2), await replica(context, database, at_once=2)
    async with (
        alice_at(first, authority) as one, alice_at(second, authority) as other,
        client_of(first, authority, "bob", "user") as bob,
    ):  # fmt: skip
        slow = [SlowUpload(client, f"jobO.{number}.tar.gz") for number, client in enumerate((one, other))]
        await until_there_are(database, 2)
        refused = await upload(other, "jobO.9.tar.gz")
        assert not refused["success"] and "2 uploads of alice are under way; allowed: 2 at once" in refused["message"]
        assert (await upload(bob, "jobO.9.tar.gz"))["success"]
        for upload_under_way in slow:
            upload_under_way.send(ARCHIVE)
            assert (await upload_under_way.end())["success"]


@pytest.mark.parametrize("limit", ["SLOWEST_PART_S", "SLOWEST_UPLOAD_S"])
async def test_an_upload_that_trickles_is_cut_and_leaves_nothing(
    user: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(sandboxing, limit, 0.2)
    slow = SlowUpload(user, "jobO.1.tar.gz")
    slow.send(b"x")
    answer = (await slow.answer).json()
    assert not answer["success"] and "came too slowly; allowed: 1048576 bytes in" in answer["message"]
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 0


async def test_more_than_was_said_is_not_stored(user: httpx.AsyncClient, database: Database) -> None:
    async with user.stream("POST", UPLOAD, content=_longer(), headers=_form(300)) as answer:
        told = await answer.aread()
    assert b"is larger than allowed" in told
    assert await value_of(database, "SELECT count(*) FROM sandboxes") == 0


def _form(size: int) -> dict[str, str]:
    return {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(size)}


async def _longer() -> AsyncIterator[bytes]:
    yield HEAD.format(name="jobO.1.tar.gz").encode() + bytes(3 * MIB) + b"\r\n--b--\r\n"


@pytest.mark.parametrize(
    "extra",
    [
        "Content-Length: -5",
        "Content-Length: 99999999999",
        "Content-Encoding: gzip",
        "Content-Transfer-Encoding: base64",
    ],
)
async def test_headers_of_a_part_change_nothing_of_what_is_stored(
    user: httpx.AsyncClient, database: Database, extra: str
) -> None:
    bomb = gzip.compress(bytes(50 * MIB))
    head = HEAD.format(name="jobO.1.tar.gz").replace("\r\n\r\n", f"\r\n{extra}\r\n\r\n").encode()
    answer = await user.post(
        UPLOAD, content=head + bomb + b"\r\n--b--\r\n", headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert answer.json()["success"], answer.text
    assert await value_of(database, "SELECT size_bytes FROM sandboxes") == len(bomb)
    assert (await user.get("/cache/jobO.1.tar.gz")).content == bomb


@pytest.mark.parametrize("fields", [{"file_size": -1}, {"checksum": -1}, {"file_size": 2**63}, {"checksum": 2**32}])
async def test_sizes_and_checksums_that_cannot_be_are_refused(user: httpx.AsyncClient, fields: dict[str, int]) -> None:
    body = {"file_size": 1, "checksum": 1, **fields}
    answer = (await user.post("/api/v1/file_server/validate_cache_file", json=body)).json()
    assert not answer["success"] and next(iter(fields)) in answer["message"]
