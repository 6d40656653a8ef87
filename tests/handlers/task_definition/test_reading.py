"""Input is read in slices, and read again when the catalogue changed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from services.task_definition.cataloguing.wishes import Wishes
from services.task_definition.defining.checking import InputChecks
from services.task_definition.defining.definition import Definition
from services.task_definition.defining.reading import ContentsReader
from services.task_definition.store.definitions import DefinitionStore
from services.task_definition.store.readings import Readings
from services.task_definition.store.tasks import TaskStore
from shared.cache import NullCache
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import Event, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, production

SMALL = 8

NOBODY_OUTSIDE = Wishes((), Parameters())


def in_small_slices() -> Definition:
    readings = Readings()
    reading = ContentsReader(readings, KnownGrid(NullCache()), files_of_slice=SMALL, names_of_piece=5)
    return Definition(
        TaskStore(), DefinitionStore(), readings, BuiltInCatalogue(), Parameters(), reading, NOBODY_OUTSIDE
    )


async def registered(database: Database, definition: Definition, task_id: int) -> None:
    async with database.begin(reason="test") as work:
        await definition.on_task_registered(TaskRegistered(task_id=task_id), work)


async def read_on(database: Database, definition: Definition) -> Sequence[Event]:
    """One run of the periodic; what it announced."""
    async with database.begin(reason="test") as work:
        await definition.read_on(work)
        return work.emitted


async def read_all(database: Database, definition: Definition) -> list[Event]:
    emitted: list[Event] = []
    while await value_of(database, "SELECT EXISTS (SELECT FROM input_readings)"):
        emitted += await read_on(database, definition)
    return emitted


async def look(database: Database, definition: Definition | None = None) -> list[Event]:
    """Everything that is due is looked at, and read again."""
    definition = definition or in_small_slices()
    await begin_to_look(database, definition)
    return await read_all(database, definition)


async def begin_to_look(database: Database, definition: Definition) -> None:
    checks = InputChecks(TaskStore(), Readings(), Parameters(), definition.read_again, NOBODY_OUTSIDE)
    await change(database, "UPDATE task_datasets SET state_check_time = state_check_time - interval '2 hours'")
    async with database.begin(reason="test") as work:
        await checks.look(work)


async def change(database: Database, statement: str, *arguments: Any) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(statement, *arguments)


async def statuses(database: Database, task_id: int) -> dict[str, str]:
    rows = await rows_of(database, "SELECT lfn, status FROM task_files WHERE task_id = $1 AND type = 'input'", task_id)
    return {row["lfn"]: row["status"] for row in rows}


async def master(database: Database, task_id: int) -> Any:
    [row] = await rows_of(
        database, "SELECT * FROM task_datasets WHERE task_id = $1 AND type = 'input' AND master_id IS NULL", task_id
    )
    return row


async def ready_task(database: Database, service: Service, producer: httpx.AsyncClient, **changes: Any) -> int:
    inputs = changes.pop("inputs", None)
    task_id, _ = await define(database, service, producer, production("read", inputs, nucleus="ALPHA", **changes))
    assert (await task_row(database, task_id))["status"] == "ready", (await task_row(database, task_id))["error_dialog"]
    return task_id


def lfn(number: int) -> str:
    return f"EVNT._{number:06d}.root"


async def test_large_input_is_read_slice_by_slice_and_the_task_goes_on_after_the_last(
    database: Database, producer: httpx.AsyncClient
) -> None:
    definition = in_small_slices()
    task_id = await submit(producer, production("large", nucleus="ALPHA"))
    await registered(database, definition, task_id)
    seen = []
    while await value_of(database, "SELECT NOT is_read FROM input_readings"):
        row = await master(database, task_id)
        seen.append((row["status"], row["n_files"], (await task_row(database, task_id))["status"]))
        await read_on(database, definition)
    assert seen == [("defined", 8, "defined"), ("defined", 16, "defined")]
    assert list(await read_on(database, definition)) == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    row = await master(database, task_id)
    assert (row["status"], row["n_files"], row["n_events"]) == ("ready", 20, 20_000)
    units = await rows_of(database, "SELECT lfn, first_event FROM task_files ORDER BY file_id")
    assert [(one["lfn"], one["first_event"]) for one in units] == [(lfn(n), 1 + 1000 * (n - 1)) for n in range(1, 21)]


class SlowMachine:
    """Every look at its clock is a tenth of a second later."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.1
        return self.now_s


async def test_a_slice_ends_when_its_time_is_over_though_it_might_have_more_files(
    database: Database, producer: httpx.AsyncClient
) -> None:
    readings = Readings()
    reading = ContentsReader(
        readings, KnownGrid(NullCache()), files_of_piece=3, files_at_least=3, clock=SlowMachine()
    )  # fmt: skip
    definition = Definition(
        TaskStore(), DefinitionStore(), readings, BuiltInCatalogue(), Parameters(), reading, NOBODY_OUTSIDE
    )
    task_id = await submit(producer, production("slow", nucleus="ALPHA"))
    await registered(database, definition, task_id)
    n_files = [(await master(database, task_id))["n_files"]]
    while await value_of(database, "SELECT NOT is_read FROM input_readings"):
        await read_on(database, definition)
        n_files.append((await master(database, task_id))["n_files"])
    assert n_files == [9, 18, 20]  # a slice might have 8000
    await read_all(database, definition)
    assert (await task_row(database, task_id))["status"] == "ready"
    assert await value_of(database, "SELECT count(DISTINCT lfn) FROM task_files") == 20


async def test_a_reader_that_is_killed_in_a_slice_goes_on_where_its_last_one_ended(
    database: Database, producer: httpx.AsyncClient
) -> None:
    definition = in_small_slices()
    task_id = await submit(producer, production("killed", nucleus="ALPHA"))
    await registered(database, definition, task_id)
    with pytest.raises(ConnectionError):
        async with database.begin(reason="test") as work:
            await definition.read_on(work)
            raise ConnectionError
    assert (await master(database, task_id))["n_files"] == SMALL
    await read_all(database, in_small_slices())
    assert await value_of(database, "SELECT count(*) + count(DISTINCT lfn) FROM task_files") == 40
    assert (await task_row(database, task_id))["status"] == "ready"


async def test_slices_are_read_while_somebody_else_holds_the_task(
    database: Database, producer: httpx.AsyncClient
) -> None:
    definition = in_small_slices()
    task_id = await submit(producer, production("held", nucleus="ALPHA"))
    await registered(database, definition, task_id)
    async with database.begin(reason="holds the task") as holder:
        assert await TaskStore().lock(holder.connection, task_id)
        async with asyncio.timeout(5):
            await read_on(database, definition)
            await read_on(database, definition)
    assert (await master(database, task_id))["n_files"] == 20


async def test_two_readers_take_different_tasks(database: Database, producer: httpx.AsyncClient) -> None:
    definition = in_small_slices()
    task_ids = [await submit(producer, production(name, nucleus="ALPHA")) for name in ("one", "two")]
    for task_id in task_ids:
        await registered(database, definition, task_id)
    reading = ContentsReader(Readings(), KnownGrid(NullCache()), files_of_slice=SMALL)
    async with database.begin(reason="first") as one, database.begin(reason="second") as two:
        parts = [await reading.read_slice(one), await reading.read_slice(two)]
        assert await Readings().next_task(two.connection, parts[0].task_id if parts[0] else 0) is None
    assert sorted(part.task_id for part in parts if part) == task_ids


async def test_limits_count_over_slices_and_datasets(database: Database, producer: httpx.AsyncClient) -> None:
    definition = in_small_slices()
    for name, limit, expected in (("files", {"nFiles": 13}, (7, 6)), ("events", {"nEvents": 975}, (7, 13))):
        task = production(name, [an_input("data.all/")], nucleus="ALPHA", **limit)
        task_id = await submit(producer, task)
        await registered(database, definition, task_id)
        await read_all(database, definition)
        rows = await rows_of(
            database, "SELECT n_files FROM task_datasets WHERE task_id = $1 AND type = 'input' ORDER BY 1", task_id
        )
        assert tuple(row["n_files"] for row in rows) == tuple(sorted(expected))


async def test_the_order_of_luminosity_blocks_holds_over_slices(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await change(
        database,
        "UPDATE catalogue.files SET lumi_block = CASE WHEN file_id % 3 = 0 THEN NULL ELSE 100 - file_id % 7 END"
        " WHERE dataset_id = (SELECT dataset_id FROM catalogue.datasets WHERE name = 'mc.evnt')",
    )
    definition = in_small_slices()
    task_id = await submit(producer, production("lumi", nucleus="ALPHA", orderByLB=True))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    found = [row[0] for row in await rows_of(database, "SELECT lfn FROM task_files ORDER BY file_id")]
    wanted = await rows_of(
        database,
        "SELECT f.lfn FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id) WHERE d.name = 'mc.evnt'"
        " ORDER BY f.lumi_block NULLS FIRST, f.file_id",
    )
    assert found == [row["lfn"] for row in wanted] and len(found) == 20


async def test_files_that_another_task_used_are_left_out(database: Database, producer: httpx.AsyncClient) -> None:
    definition = in_small_slices()
    first = await submit(producer, production("first", nucleus="ALPHA", nFiles=4))
    await registered(database, definition, first)
    await end_files(database, first, finished=1, failed=1)
    second = await submit(producer, production("second", nucleus="ALPHA", skipFilesUsedBy=[first]))
    await registered(database, definition, second)
    await read_all(database, definition)
    assert sorted(await statuses(database, second)) == [lfn(number) for number in range(2, 21)]


async def test_named_files_that_are_not_there_hold_the_task_until_they_are(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await change(database, "UPDATE catalogue.datasets SET state = 'open' WHERE name = 'mc.evnt'")
    named = an_input(files=[lfn(3), "later.root"])
    task_id, _ = await define(database, service, producer, production("named", [named], nucleus="ALPHA"))
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "defined")
    assert row["error_dialog"] == "files that were named are not in mc.evnt: later.root"
    assert (await master(database, task_id))["status"] == "pending"
    async with database.begin(reason="test") as work:
        await BuiltInCatalogue().add_files(work.connection, [NewFile("mc.evnt", "later.root", 1, "ALPHA_DATADISK")])
    await put(database, task_id, "defined")
    async with database.begin(reason="test") as work:
        await in_small_slices().on_task_released(TaskReleased(task_id=task_id, status="defined", reason=""), work)
    await read_all(database, in_small_slices())
    assert (await task_row(database, task_id))["status"] == "ready"
    assert sorted(await statuses(database, task_id)) == [lfn(3), "later.root"]
    log = "SELECT from_status, to_status FROM transition_log WHERE entity = 'dataset' AND entity_id = $1 ORDER BY at"
    moves = [tuple(row) for row in await rows_of(database, log, (await master(database, task_id))["dataset_id"])]
    assert moves == [("defined", "pending"), ("pending", "toupdate"), ("toupdate", "ready")]


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
    checks = InputChecks(TaskStore(), Readings(), Parameters(), in_small_slices().read_again, NOBODY_OUTSIDE)
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

    await grow("G.1", "G.2")
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    await grow("G.0")
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
    files = [NewFile("data.growing", f"G.{n:02}", 10, "ALPHA_DATADISK", 5) for n in range(1, 41)]
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, files)
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    async with database.begin(reason="test") as work:
        await catalogue.remove_files(work.connection, [("data.growing", "G.01")])
    await begin_to_look(database, definition)
    await read_on(database, definition)
    assert (await statuses(database, task_id))["G.01"] == "lost"
    assert await value_of(database, "SELECT NOT is_read FROM input_readings"), "more slices are to be read"
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, files[:1])
        await catalogue.freeze(work.connection, ["data.growing"])
    await read_all(database, definition)
    assert (await master(database, task_id))["state"] == "open"
    await look(database)
    assert (await master(database, task_id))["state"] == "frozen"
    assert (await statuses(database, task_id))["G.01"] == "ready"


async def test_a_change_that_meets_somebody_who_has_the_task_waits_for_the_next_look(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await ready_task(database, service, producer)
    await change(database, "DELETE FROM catalogue.files WHERE lfn = $1", lfn(4))
    definition = in_small_slices()
    checks = InputChecks(TaskStore(), Readings(), Parameters(), definition.read_again, NOBODY_OUTSIDE)
    await change(database, "UPDATE task_datasets SET state_check_time = state_check_time - interval '2 hours'")
    async with database.begin(reason="test") as work:
        await checks.look(work)
    async with database.begin(reason="holds the task") as holder:
        assert await TaskStore().lock(holder.connection, task_id)
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
        file = NewFile("data.growing", "G.1", 10, "ALPHA_DATADISK", 5)
        await BuiltInCatalogue().add_files(work.connection, [file])
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.growing")], runUntilClosed=True)
    await put(database, task_id, "running")
    await end_files(database, task_id, finished=1)
    await change(database, "UPDATE task_datasets SET contents_version = NULL WHERE type = 'input'")
    assert await look(database) == [TaskReleased(task_id=task_id, status="running", reason="its input was read again")]
    assert (await task_row(database, task_id))["retry_at"] is not None
