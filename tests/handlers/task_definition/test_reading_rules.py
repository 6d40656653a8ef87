"""Rules of a task that decide how its input is read: its order, what of it is short, and how events are numbered."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.task_definition.reading import change, in_small_slices, lfn, look, read_all, registered
from tests.handlers.task_definition.steps import rows_of, submit, task_row
from tests.handlers.task_definition.world import an_input, production

_EVENTS = "UPDATE catalogue.files SET n_events = $2 WHERE lfn = $1"


async def read(database: Database, producer: httpx.AsyncClient, **rules: Any) -> list[Any]:
    """Units of a task of 20 files, read in slices of eight."""
    definition = in_small_slices()
    task_id = await submit(producer, production("rules", nucleus="ALPHA", **{"nFilesPerJob": None, **rules}))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    assert (await task_row(database, task_id))["status"] == "ready"
    return await rows_of(
        database,
        "SELECT lfn, n_events, start_event, end_event, first_event FROM task_files"
        " WHERE task_id = $1 AND type = 'input' ORDER BY file_id",
        task_id,
    )


@pytest.mark.parametrize("rules", [{}, {"nFiles": 11}, {"nEventsPerFile": 400}, {"inFilePosEvtNum": True}])
@pytest.mark.parametrize("usedup", [False, True])
async def test_whole_datasets_and_those_with_a_filter_that_takes_all_become_the_same_units(
    database: Database, producer: httpx.AsyncClient, rules: dict[str, Any], usedup: bool
) -> None:
    await change(database, "UPDATE catalogue.files SET n_events = nullif(file_id % 7, 0), guid = file_id::text")
    await change(database, "UPDATE catalogue.files SET is_corrupted = true, lumi_block = 5 WHERE lfn = $1", lfn(4))
    await change(database, "UPDATE catalogue.files SET lfn = 'EVNT.data.3' WHERE lfn = $1", lfn(7))
    await change(database, "UPDATE catalogue.files SET lfn = 'EVNT.data.12' WHERE lfn = $1", lfn(9))
    await change(database, "UPDATE catalogue.datasets SET contents_version = contents_version + 1")
    kept = {"attributes": "usedup"} if usedup else {}
    ways = [an_input(**kept), an_input(**kept, exclude="nothing is called so")]
    tasks = [
        await read(database, producer, inputs=[way], taskName=f"way.{n}", allowTaskDuplication=True, **rules)
        for n, way in enumerate(ways)
    ]
    assert tasks[0] == tasks[1]
    assert len(tasks[0]) == rules.get("nFiles", 20 if usedup else 19)
    units = await rows_of(
        database,
        "SELECT count(DISTINCT task_id) AS n_tasks FROM task_files WHERE type = 'input'"
        " GROUP BY lfn, guid, fsize, checksum, scope, status, max_attempt, max_failure, n_events, lumi_block_nr",
    )
    assert {row["n_tasks"] for row in units} == {2}
    notes = await rows_of(database, "SELECT n_files, n_events, n_older FROM task_datasets WHERE type = 'input'")
    assert notes[0] == notes[1]
    assert (notes[0]["n_older"] or 0) == (0 if usedup else 1)


async def test_order_input_by_events_alignment_takes_files_first_that_fill_jobs(
    database: Database, producer: httpx.AsyncClient
) -> None:
    short = {3: 700, 5: 990, 12: 501, 17: 990}
    for number, n_events in short.items():
        await change(database, _EVENTS, lfn(number), n_events)
    files = [row["lfn"] for row in await read(database, producer, nEventsPerJob=500, orderInputBy="eventsAlignment")]
    listed = await rows_of(
        database,
        "SELECT f.lfn, f.n_events FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)"
        " WHERE d.name = 'mc.evnt' ORDER BY f.file_id",
    )
    aligned = [row["lfn"] for row in listed if row["n_events"] % 500 == 0]
    others = sorted((row for row in listed if row["n_events"] % 500), key=lambda row: -row["n_events"])
    assert list(dict.fromkeys(files)) == [*aligned, *(row["lfn"] for row in others)]


async def test_an_offset_counts_the_files_that_a_task_would_take_over_all_slices(
    database: Database, producer: httpx.AsyncClient
) -> None:
    inputs = [an_input(offset=10, exclude="_00000[1-3]")]
    files = [row["lfn"] for row in await read(database, producer, inputs=inputs)]
    assert files == [lfn(number) for number in range(14, 21)]


async def test_skip_short_input_uses_whole_jobs_of_a_file_that_is_short(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await change(database, _EVENTS, lfn(3), 700)
    await change(database, _EVENTS, lfn(5), 240)
    await change(database, _EVENTS, lfn(7), 4000)
    found = await read(database, producer, nEventsPerJob=250, nEventsPerInputFile=1000, skipShortInput=True)
    events: dict[str, list[int]] = {}
    for row in found:
        events.setdefault(row["lfn"], []).append(row["n_events"])
    assert events[lfn(3)] == [250, 250] and lfn(5) not in events and events[lfn(7)] == [250] * 4
    assert len(found) == 18 * 4 + 2


async def test_positional_event_numbers_begin_anew_with_each_file(
    database: Database, producer: httpx.AsyncClient
) -> None:
    found = await read(database, producer, nEventsPerJob=400, nEventsPerInputFile=1000, inFilePosEvtNum=True)
    assert {row["first_event"] for row in found} == {1, 401, 801}
    assert all(row["first_event"] == row["start_event"] + 1 for row in found)


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"skipShortInput": True, "nEventsPerJob": 500}, "skipShortInput"),
        ({"skipShortInput": True, "nEventsPerJob": 500, "nEventsPerInputFile": 100}, "skipShortInput"),
        ({"skipShortOutput": True, "nFilesPerJob": None}, "skipShortOutput"),
        ({"orderInputBy": "eventsAlignment"}, "orderInputBy"),
        ({"orderInputBy": "eventsAlignment", "nEventsPerJob": 5, "orderByLB": True}, "orderInputBy"),
        ({"orderInputBy": "size", "nEventsPerJob": 5}, "orderInputBy"),
        ({"useLocalIO": True, "allowInputLAN": "only"}, "useLocalIO"),
    ],
)
async def test_rules_that_lack_a_number_or_contradict_each_other_are_refused(
    producer: httpx.AsyncClient, rules: dict[str, Any], field: str
) -> None:
    with pytest.raises(AssertionError, match=field):
        await submit(producer, production("contradicting", nucleus="ALPHA", **rules))


@pytest.mark.parametrize("n_events", [0, None])
async def test_a_file_without_events_is_no_input_of_a_task_that_cuts_files_by_events_and_says_so(
    database: Database, producer: httpx.AsyncClient, n_events: int | None
) -> None:
    await change(database, _EVENTS, lfn(3), n_events)
    found = await read(database, producer, nEventsPerJob=500)
    [task] = await rows_of(database, "SELECT task_id, error_dialog FROM tasks")
    files = await rows_of(database, "SELECT file_id, lfn FROM task_files WHERE status = 'broken'")
    assert [one["lfn"] for one in files] == [lfn(3)] and len(found) == 39
    assert (
        task["error_dialog"]
        == "1 units of its input are not used: corrupted, or without events to be cut or handed out by"
    )
    log = "SELECT reason FROM transition_log WHERE entity = $1 AND to_status = $2"
    [of_file] = await rows_of(database, log, "file", "broken")
    assert of_file["reason"] == "it has no events, and files of mc.evnt are cut by events"
    [of_task] = await rows_of(database, log, "task", "ready")
    assert of_task["reason"].endswith(task["error_dialog"])
    [counted] = await rows_of(database, "SELECT n_files, n_events FROM task_datasets WHERE type = 'input'")
    assert dict(counted) == {"n_files": 39, "n_events": 19_000}


async def test_a_file_whose_events_are_told_after_it_was_read_is_cut_when_they_are(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await change(database, _EVENTS, lfn(3), None)
    assert len(await read(database, producer, nEventsPerJob=500, runUntilClosed=True)) == 39
    await change(database, _EVENTS, lfn(3), 1000)
    await look(database)
    units = "SELECT status, start_event FROM task_files WHERE lfn = $1 ORDER BY start_event"
    assert [tuple(row) for row in await rows_of(database, units, lfn(3))] == [("ready", 0), ("ready", 500)]
    [counted] = await rows_of(database, "SELECT n_files, n_events FROM task_datasets WHERE type = 'input'")
    assert dict(counted) == {"n_files": 40, "n_events": 20_000}


async def test_a_task_of_which_no_file_has_events_is_broken_with_the_reason(
    database: Database, producer: httpx.AsyncClient
) -> None:
    for number in range(21):
        await change(database, _EVENTS, lfn(number), 0)
    definition = in_small_slices()
    task_id = await submit(producer, production("rules", nEventsPerJob=500, nFilesPerJob=None))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    row = await task_row(database, task_id)
    told = "none of 20 units of input can be used: 20 broken (corrupted, or without events to be cut or handed out by)"
    assert (row["status"], row["error_dialog"]) == ("broken", told)


async def test_files_without_events_need_no_secondary_files(database: Database, producer: httpx.AsyncClient) -> None:
    for number in range(5, 21):  # the other four have two jobs each: as many as the secondary has files
        await change(database, _EVENTS, lfn(number), 0)
    inputs = [an_input(), an_input("mc.minbias", "MINBIAS", ratio=1)]
    found = await read(database, producer, nEventsPerJob=500, inputs=inputs)
    assert len([row for row in found if row["start_event"] is not None]) == 8


@pytest.fixture
async def with_event_service(service: Service, database: Database) -> None:
    """The small grid, and a queue that takes event service."""
    grid = small_grid()
    grid["queues"]["E_ALPHA"] = a_record("E_ALPHA", "ALPHA", jobseed="es")
    await load_grid(database, grid)


_RANGES = {"nEventsPerWorker": 100, "nFilesPerJob": 1}


@pytest.mark.usefixtures("with_event_service")
async def test_a_file_without_events_is_no_input_of_a_task_with_event_service_and_says_so(
    database: Database, producer: httpx.AsyncClient
) -> None:
    await change(database, _EVENTS, lfn(3), None)
    await change(database, _EVENTS, lfn(4), 0)
    found = await read(database, producer, **_RANGES, runUntilClosed=True)
    [task] = await rows_of(database, "SELECT error_dialog FROM tasks")
    told = "2 units of its input are not used: corrupted, or without events to be cut or handed out by"
    assert task["error_dialog"] == told and len(found) == 20
    files = await rows_of(database, "SELECT lfn FROM task_files WHERE status = 'broken' ORDER BY lfn")
    assert [one["lfn"] for one in files] == [lfn(3), lfn(4)]
    log = "SELECT DISTINCT reason FROM transition_log WHERE entity = 'file' AND to_status = 'broken'"
    [of_files] = await rows_of(database, log)
    assert of_files["reason"] == "it has no events, and files of mc.evnt are handed out in ranges of events"
    await change(database, _EVENTS, lfn(3), 1000)
    await look(database)
    units = "SELECT status, n_events FROM task_files WHERE lfn = $1"
    assert [tuple(row) for row in await rows_of(database, units, lfn(3))] == [("ready", 1000)]


@pytest.mark.usefixtures("with_event_service")
async def test_a_task_with_event_service_of_which_no_file_has_events_is_broken_at_its_definition(
    database: Database, producer: httpx.AsyncClient
) -> None:
    for number in range(21):
        await change(database, _EVENTS, lfn(number), 0)
    definition = in_small_slices()
    task_id = await submit(producer, production("rules", **_RANGES))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    row = await task_row(database, task_id)
    told = "none of 20 units of input can be used: 20 broken (corrupted, or without events to be cut or handed out by)"
    assert (row["status"], row["error_dialog"]) == ("broken", told)
