"""Input is read in slices."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from services.task_definition.tasks.defining.definition import Definition
from services.task_definition.tasks.defining.reading import ContentsReader
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store import tasks as store
from shared.cache import NullCache
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import TaskReady, TaskReleased
from shared.runtime.service import Service
from shared.snapshot import KnownGrid
from tests.handlers.task_definition.reading import (
    NOBODY_OUTSIDE,
    SMALL,
    TELLING,
    change,
    in_small_slices,
    lfn,
    master,
    read_all,
    read_on,
    registered,
    staging,
    statuses,
)
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, production


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
    reading = ContentsReader(KnownGrid(NullCache()), files_of_piece=3, files_at_least=3, clock=SlowMachine())
    definition = Definition(BuiltInCatalogue(), Parameters(), reading, NOBODY_OUTSIDE, staging(), TELLING)
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
        assert await store.lock(holder, task_id)
        async with asyncio.timeout(5):
            await read_on(database, definition)
            await read_on(database, definition)
    assert (await master(database, task_id))["n_files"] == 20


async def test_two_readers_take_different_tasks(database: Database, producer: httpx.AsyncClient) -> None:
    definition = in_small_slices()
    task_ids = [await submit(producer, production(name, nucleus="ALPHA")) for name in ("one", "two")]
    for task_id in task_ids:
        await registered(database, definition, task_id)
    reading = ContentsReader(KnownGrid(NullCache()), files_of_slice=SMALL)
    async with database.begin(reason="first") as one, database.begin(reason="second") as two:
        parts = [await reading.read_slice(one), await reading.read_slice(two)]
        assert await store_readings.next_task(two, parts[0].task_id if parts[0] else 0) is None
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
