"""Input is read again when the catalogue changed it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from services.task_definition.tasks.defining import checking
from services.task_definition.tasks.defining.checking import InputChecks
from services.task_definition.tasks.store import tasks as store
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import TaskReleased
from shared.runtime.service import Service
from tests import rows
from tests.handlers.task_definition.reading import (
    NOBODY_OUTSIDE,
    begin_to_look,
    change,
    in_small_slices,
    lfn,
    look,
    master,
    read_all,
    read_on,
    ready_task,
    statuses,
)
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import an_input, production


@pytest.mark.parametrize(
    ("what_happens", "expected"),
    [
        ("DELETE FROM catalogue.files WHERE lfn = $1", "lost"),
        ("UPDATE catalogue.files SET is_corrupted = true WHERE lfn = $1", "broken"),
        ("WITH r AS (UPDATE catalogue.dataset_replicas SET complete = false, n_files = 19) INSERT INTO"
         " catalogue.file_replicas SELECT f.file_id, 'ALPHA_DATADISK' FROM catalogue.files f JOIN catalogue.datasets d"
         " USING (dataset_id) WHERE d.name = 'mc.evnt' AND f.lfn <> $1", "missing"),
    ],
)  # fmt: skip
async def test_a_file_that_the_catalogue_loses_leaves_the_input_of_a_running_task(
    database: Database, service: Service, producer: httpx.AsyncClient, what_happens: str, expected: str
) -> None:
    task_id = await ready_task(database, service, producer)
    await put(database, task_id, "running")
    await change(database, what_happens, lfn(7))
    emitted = await look(database)
    found = await statuses(database, task_id)
    assert found.pop(lfn(7)) == expected and set(found.values()) == {"ready"}
    assert emitted == [TaskReleased(task_id=task_id, status="running", reason="its input was read again")]
    log = "SELECT from_status, to_status FROM transition_log WHERE entity = 'file' AND task_id = $1"
    assert [tuple(row) for row in await rows_of(database, log, task_id)] == [("ready", expected)]
    assert (await master(database, task_id))["status"] == "ready"


async def test_copies_that_nobody_can_read_hold_the_task_and_the_reason_is_told(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await change(
        database, "UPDATE catalogue.dataset_replicas SET storage = 'ATLANTIS_DATADISK' WHERE storage = 'ALPHA_DATADISK'"
    )
    task_id, _ = await define(database, service, producer, production("unreadable", nucleus="ALPHA"))
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "defined")
    assert row["error_dialog"] == "none of 20 units of input can be used: 20 missing"
    told = (await producer.get(f"/api/v1/explain/task?task_id={task_id}")).json()["data"]["text"]
    assert row["error_dialog"] in told
    await change(
        database, "UPDATE catalogue.dataset_replicas SET storage = 'ALPHA_DATADISK' WHERE storage = 'ATLANTIS_DATADISK'"
    )
    await look(database)
    assert (await task_row(database, task_id))["retry_at"] < row["retry_at"]


async def test_a_lost_and_a_missing_file_come_back(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    [gone] = await rows_of(database, "DELETE FROM catalogue.files WHERE lfn = $1 RETURNING dataset_id", lfn(2))
    await look(database)
    assert (await statuses(database, task_id))[lfn(2)] == "lost"
    back = "INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events) VALUES ($1, 'mc', $2, 77, 5)"
    await change(database, back, gone["dataset_id"], lfn(2))
    await look(database)
    [row] = await rows_of(database, "SELECT * FROM task_files WHERE lfn = $1", lfn(2))
    assert (row["status"], row["fsize"], row["n_events"]) == ("ready", 77, 5)
    assert (await master(database, task_id))["n_events"] == 19_005
    await change(database, "UPDATE catalogue.dataset_replicas SET complete = false")
    await look(database)
    assert set((await statuses(database, task_id)).values()) == {"missing"}
    await change(database, "UPDATE catalogue.dataset_replicas SET complete = true")
    await look(database)
    assert set((await statuses(database, task_id)).values()) == {"ready"}


async def test_what_changed_is_taken_over_for_files_that_no_job_has(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    await end_files(database, task_id, finished=1)
    changed = "UPDATE catalogue.files SET size_bytes = 9, checksum = 'ad:1', n_events = 3 WHERE lfn = ANY($1)"
    await change(database, changed, [lfn(1), lfn(2)])
    await look(database)
    rows = await rows_of(
        database, "SELECT fsize, checksum, n_events, status FROM task_files WHERE lfn = ANY($1) ORDER BY lfn",
        [lfn(1), lfn(2)],
    )  # fmt: skip
    assert (rows[0]["fsize"], rows[0]["n_events"], rows[0]["status"]) == (1_000_000, 1000, "finished")
    assert tuple(rows[1]) == (9, "ad:1", 3, "ready")


async def test_a_dataset_of_which_every_file_is_gone_is_broken(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    await put(database, task_id, "running")
    await change(database, "DELETE FROM catalogue.files WHERE lfn LIKE 'EVNT%'")
    await look(database)
    assert (await master(database, task_id))["status"] == "broken"
    assert set((await statuses(database, task_id)).values()) == {"lost"}


async def test_unchanged_input_is_neither_compared_nor_written(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    before = await rows_of(database, "SELECT xmin::text, ctid::text FROM task_files ORDER BY file_id")
    again = in_small_slices()
    checks = InputChecks(Parameters(), again.read_again, NOBODY_OUTSIDE, again.compare_unknown)
    await change(database, "UPDATE task_datasets SET state_check_time = state_check_time - interval '2 hours'")
    async with database.begin(reason="test") as work:
        await checks.look(work)
    assert not await value_of(database, "SELECT count(*) FROM input_readings")
    row = await master(database, task_id)
    assert row["state_check_time"] > row["creation_time"]
    await change(database, "UPDATE catalogue.datasets SET contents_version = contents_version + 1")
    await look(database)
    assert await rows_of(database, "SELECT xmin::text, ctid::text FROM task_files ORDER BY file_id") == before
    assert (await master(database, task_id))["status"] == "ready"


async def test_checks_are_over_after_their_time(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    assert (await master(database, task_id))["state_check_expiration"] is not None
    await change(database, "UPDATE task_datasets SET state_check_expiration = orrery_now() - interval '1 s'"
                           " WHERE type = 'input'")  # fmt: skip
    await change(database, "DELETE FROM catalogue.files WHERE lfn = $1", lfn(1))
    await look(database)
    assert (await master(database, task_id))["state_check_expiration"] is None
    assert set((await statuses(database, task_id)).values()) == {"ready"}


async def test_a_container_that_grew_gives_a_running_task_another_dataset_and_takes_one_out(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.all/")])
    await put(database, task_id, "running")
    await change(
        database,
        "INSERT INTO catalogue.containers (container_id, dataset_id, position) SELECT k.dataset_id, d.dataset_id, 9"
        " FROM catalogue.datasets k, catalogue.datasets d WHERE k.name = 'data.all' AND d.name = 'mc.minbias'",
    )
    await change(
        database,
        "DELETE FROM catalogue.containers WHERE dataset_id = (SELECT dataset_id FROM catalogue.datasets"
        " WHERE name = 'data.b')",
    )
    await look(database)
    found = await rows_of(
        database, "SELECT dataset_name, status, n_files FROM task_datasets WHERE task_id = $1 AND type = 'input'"
                  " ORDER BY dataset_name", task_id
    )  # fmt: skip
    assert [tuple(row) for row in found] == [
        ("data.a", "ready", 7), ("data.b", "removed", 0), ("mc.minbias", "ready", 8),
    ]  # fmt: skip


async def test_an_open_dataset_that_grows_feeds_a_running_task_at_once_until_it_is_closed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    catalogue = BuiltInCatalogue()

    async def grow(*names: str) -> None:
        async with database.begin(reason="test") as work:
            files = [NewFile("data.growing", name, 10, "ALPHA_DATADISK", 5) for name in names]
            await catalogue.add_files(work.connection, files)

    await grow("G.1.root", "G.2.root")
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    await grow("G.0.root")
    assert await look(database) == [TaskReleased(task_id=task_id, status="running", reason="its input was read again")]
    row = await master(database, task_id)
    assert (row["n_files"], row["n_files_to_be_used"], row["state"], row["status"]) == (3, 2, "open", "ready")
    async with database.begin(reason="test") as work:
        await catalogue.freeze(work.connection, ["data.growing"])
    assert len(await look(database)) == 1
    assert (await master(database, task_id))["state"] == "frozen"


async def test_input_that_changes_behind_its_reader_and_is_closed_meanwhile_is_read_again(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    catalogue, definition = BuiltInCatalogue(), in_small_slices()
    files = [NewFile("data.growing", f"G.{n:02}.root", 10, "ALPHA_DATADISK", 5) for n in range(1, 41)]
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, files)
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    async with database.begin(reason="test") as work:
        await catalogue.remove_files(work.connection, [("data.growing", "G.01.root")])
    await begin_to_look(database, definition)
    await read_on(database, definition)
    assert (await statuses(database, task_id))["G.01.root"] == "lost"
    assert await value_of(database, "SELECT NOT is_read FROM input_readings"), "more slices are to be read"
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, files[:1])
        await catalogue.freeze(work.connection, ["data.growing"])
    await read_all(database, definition)
    assert (await master(database, task_id))["state"] == "open"
    await look(database)
    assert (await master(database, task_id))["state"] == "frozen"
    assert (await statuses(database, task_id))["G.01.root"] == "ready"


async def test_a_change_that_meets_somebody_who_has_the_task_waits_for_the_next_look(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    await change(database, "DELETE FROM catalogue.files WHERE lfn = $1", lfn(4))
    definition = in_small_slices()
    checks = InputChecks(Parameters(), definition.read_again, NOBODY_OUTSIDE, definition.compare_unknown)
    await change(database, "UPDATE task_datasets SET state_check_time = state_check_time - interval '2 hours'")
    async with database.begin(reason="test") as work:
        await checks.look(work)
    async with database.begin(reason="holds the task") as holder:
        assert await store.lock(holder, task_id)
        async with asyncio.timeout(5), database.begin(reason="test") as work:
            assert await definition.read_on(work) is False
    await read_all(database, definition)
    assert (await statuses(database, task_id))[lfn(4)] == "lost"


async def test_a_file_that_a_job_has_is_left_to_it_and_compared_again_when_it_comes_back(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    take = "UPDATE task_files SET status = $2::text WHERE lfn = $1"
    async with database.read() as connection:
        await rows.change(connection, take, lfn(5), "running")
    await change(database, "DELETE FROM catalogue.files WHERE lfn = $1", lfn(5))
    await look(database)
    assert (await statuses(database, task_id))[lfn(5)] == "running"
    assert (await master(database, task_id))["contents_version"] is None
    async with database.read() as connection:
        await rows.change(connection, take, lfn(5), "ready")
    await look(database)
    assert (await statuses(database, task_id))[lfn(5)] == "lost"
    assert (await master(database, task_id))["contents_version"] is not None


async def test_a_file_that_changed_while_a_job_had_it_is_as_the_catalogue_says_when_it_comes_back(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await ready_task(database, service, producer)
    take = "UPDATE task_files SET status = $2::text WHERE lfn = $1"
    known = "SELECT status, fsize, checksum FROM task_files WHERE lfn = $1"
    async with database.read() as connection:
        await rows.change(connection, take, lfn(5), "running")
    await change(database, "UPDATE catalogue.files SET size_bytes = 9, checksum = 'ad:1' WHERE lfn = $1", lfn(5))
    await look(database)
    [row] = await rows_of(database, known, lfn(5))
    assert (row["status"], row["fsize"]) == ("running", 1_000_000), "its job has the old file"
    async with database.read() as connection:
        await rows.change(connection, take, lfn(5), "ready")
    await look(database)
    [row] = await rows_of(database, known, lfn(5))
    assert tuple(row) == ("ready", 9, "ad:1")


async def test_a_reading_that_finds_nothing_new_is_told_to_those_who_waited_for_its_end(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    """All jobs ended while the input was read: the row itself asks to be looked at, should the message be lost."""
    async with database.begin(reason="test") as work:
        file = NewFile("data.growing", "G.1.root", 10, "ALPHA_DATADISK", 5)
        await BuiltInCatalogue().add_files(work.connection, [file])
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    await end_files(database, task_id, finished=1)
    await change(database, "UPDATE task_datasets SET contents_version = NULL WHERE type = 'input'")
    assert await look(database) == [TaskReleased(task_id=task_id, status="running", reason="its input was read again")]
    assert (await task_row(database, task_id))["retry_at"] is not None


async def test_all_open_datasets_are_looked_at_in_turn_what_waited_longest_first(
    database: Database, service: Service, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "CHECKED_AT_MOST", 2)
    for number in range(5):
        async with database.begin(reason="test") as work:
            await BuiltInCatalogue().create(work.connection, f"mc.open.{number}", scope="mc")
            new = NewFile(f"mc.open.{number}", f"f.{number}.root", 10, "ALPHA_DATADISK", 5)
            await BuiltInCatalogue().add_files(work.connection, [new])
        await define(
            database,
            service,
            producer,
            production(f"open.{number}", [an_input(f"mc.open.{number}")], nucleus="ALPHA", runUntilClosed=True),
        )
    longer = "UPDATE task_datasets SET state_check_time = orrery_now() - interval '2 hours' * dataset_id"
    await change(database, longer)
    await change(database, "UPDATE task_datasets SET state = 'open' WHERE type = 'input'")
    waiting = (
        "SELECT dataset_name FROM task_datasets WHERE type = 'input' AND state_check_time < now() - interval '1 hour'"
    )
    looked_at, before = [], {row[0] for row in await rows_of(database, waiting)}
    again = in_small_slices()
    checks = InputChecks(Parameters(), again.read_again, NOBODY_OUTSIDE, again.compare_unknown)
    for _ in range(3):
        async with database.begin(reason="test") as work:
            await checks.look(work)
        left = {row[0] for row in await rows_of(database, waiting)}
        looked_at.append(before - left)
        before = left
    assert [sorted(one) for one in looked_at] == [
        ["mc.open.3", "mc.open.4"],
        ["mc.open.1", "mc.open.2"],
        ["mc.open.0"],
    ]
