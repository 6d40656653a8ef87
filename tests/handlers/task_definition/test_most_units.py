"""Tasks of very many units: refused with the number and what is allowed, or defined in slices."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import unit_limits
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import TaskReady
from shared.runtime.service import Service
from tests.handlers.task_definition.commanding import command
from tests.handlers.task_definition.reading import in_small_slices, read_all, read_on, registered
from tests.handlers.task_definition.steps import put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.two_vos import analysing, offer
from tests.handlers.task_definition.world import an_input, production


def a_search(**changes: Any) -> dict[str, Any]:
    return {**analysing("user.ada.many", vo="demo"), "nFiles": None, **changes}


def without_input(**changes: Any) -> dict[str, Any]:
    return production("pseudo", inputs=[], noInput=True, nFilesPerJob=None, nucleus="ALPHA", **changes)


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 15 units of a production task, 6 of one file."""
    read = Parameters.read

    def small(self: Parameters, parameter: Parameter[Any], *names: Any, **more: Any) -> Any:
        of = {unit_limits.MOST_UNITS.key: 15, unit_limits.MOST_UNITS_OF_FILE.key: 6}
        return of.get(parameter.key) or read(self, parameter, *names, **more)

    monkeypatch.setattr(Parameters, "read", small)


@pytest.mark.parametrize(
    ("changes", "field", "n_units"),
    [
        ({"nEvents": 1_000_000_000, "nEventsPerJob": 1}, "nEvents", 1_000_000_000),
        ({"nEvents": 1_000_000_000_000, "nEventsPerJob": 100}, "nEvents", 10_000_000_000),
        ({"nFiles": 1_000_001}, "nFiles", 1_000_001),
    ],
)
async def test_a_user_s_task_of_too_many_units_is_refused_with_the_number_and_what_is_allowed(
    database: Database, user: httpx.AsyncClient, changes: dict[str, Any], field: str, n_units: int
) -> None:
    reply = await offer(user, a_search(**changes))
    assert not reply["success"]
    said = f"{n_units} units of input; allowed: at most 1000000 (MOST_UNITS_OF_ANALYSIS)"
    assert field in reply["message"], reply
    assert said in reply["message"], reply
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


async def test_a_task_whose_input_makes_too_many_units_by_events_is_refused_before_any_is_written(
    database: Database, producer: httpx.AsyncClient, few_units: None
) -> None:
    task = production("cut", [an_input("mc.evnt")], nFilesPerJob=None, nEventsPerJob=999, nucleus="ALPHA")
    reply = await offer(producer, task)
    assert "21 units of input; allowed: at most 15 (MOST_UNITS)" in reply["message"], reply


async def test_a_task_whose_file_turns_out_to_make_too_many_units_is_broken_without_having_written_them(
    database: Database, producer: httpx.AsyncClient, few_units: None
) -> None:
    async with database.begin(reason="test") as work:
        await BuiltInCatalogue().create(work.connection, "mc.odd", scope="mc")
        files = [
            NewFile("mc.odd", name, 10, "ALPHA_DATADISK", events) for name, events in (("x", 1), ("y", 700), ("z", 1))
        ]
        await BuiltInCatalogue().add_files(work.connection, files)
    definition = in_small_slices()
    task = production("odd", [an_input("mc.odd")], nFilesPerJob=None, nEventsPerJob=100, nucleus="ALPHA")
    task_id = await submit(producer, task)
    await registered(database, definition, task_id)
    await read_all(database, definition)
    row = await task_row(database, task_id)
    said = "mc.odd makes of one file 7 units of input; allowed: at most 6 (MOST_UNITS_OF_FILE)"
    assert (row["status"], row["error_dialog"]) == ("broken", said)
    assert await value_of(database, "SELECT count(*) FROM task_files") == 0


async def test_a_task_whose_filtered_files_turn_out_to_be_too_many_is_broken_after_the_slice_that_shows_it(
    database: Database, producer: httpx.AsyncClient, few_units: None
) -> None:
    definition = in_small_slices()
    items = [an_input("mc.evnt", include="EVNT.*")]
    task_id = await submit(producer, production("filtered", items, nucleus="ALPHA"))
    await registered(database, definition, task_id)
    await read_all(database, definition)
    row = await task_row(database, task_id)
    said = "mc.evnt makes more than 15 units of input; allowed: at most 15 (MOST_UNITS)"
    assert (row["status"], row["error_dialog"]) == ("broken", said)


async def test_units_of_a_task_without_input_are_numbered_slice_by_slice(
    database: Database, producer: httpx.AsyncClient
) -> None:
    definition = in_small_slices()
    task_id = await submit(producer, without_input(nEvents=2050, nEventsPerJob=100))
    await registered(database, definition, task_id)
    seen = []
    while await value_of(database, "SELECT NOT is_read FROM input_readings"):
        seen.append(await value_of(database, "SELECT n_files FROM task_datasets WHERE type = 'pseudo_input'"))
        assert (await task_row(database, task_id))["status"] == "defined"
        await read_on(database, definition)
    assert seen == [8, 16]
    assert list(await read_on(database, definition)) == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    [row] = await rows_of(database, "SELECT * FROM task_datasets WHERE type = 'pseudo_input'")
    assert (row["status"], row["n_files"], row["n_events"]) == ("ready", 21, 2050)
    units = await rows_of(database, "SELECT lfn, n_events, first_event FROM task_files ORDER BY file_id")
    assert [one["first_event"] for one in units] == [1 + 100 * n for n in range(21)]
    assert (units[0]["lfn"], units[-1]["n_events"]) == ("pseudo_lfn_00000000000000001", 50)


async def test_a_task_that_is_killed_while_its_units_are_numbered_has_no_more_and_a_retry_adds_the_rest(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    definition = in_small_slices()
    task_id = await submit(producer, without_input(nFiles=20))
    await registered(database, definition, task_id)
    assert (await command(producer, "kill", task_id))["success"]
    await read_on(database, definition)
    assert await value_of(database, "SELECT count(*) FROM task_files") == 8
    await put(database, task_id, "aborted")
    await read_on(database, definition)
    reply = await command(producer, "retry", task_id)
    assert reply["success"], reply
    assert (await task_row(database, task_id))["status"] == "rerefine"
    await registered(database, definition, task_id)
    await read_all(database, definition)
    assert (await task_row(database, task_id))["status"] == "ready"
    lfns = [one["lfn"] for one in await rows_of(database, "SELECT lfn FROM task_files ORDER BY lfn")]
    assert lfns == [f"pseudo_lfn_{n:017d}" for n in range(1, 21)]
