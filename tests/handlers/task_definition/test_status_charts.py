"""Every state of input and every arrow between them that task_definition makes, on the database.

Source: JEDI, Transition of dataset status, Transition of file status.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from shared.catalogue import BuiltInCatalogue
from shared.db import Database
from shared.events import TaskRegistered, TaskReleased
from shared.runtime.service import Service
from shared.states import DATASET, FILE, Owner
from tests.handlers.events import deliver
from tests.handlers.task_definition.reading import change, lfn, look, master, ready_task, statuses
from tests.handlers.task_definition.steps import define, end_files, path, put, rows_of, submit, task_row
from tests.handlers.task_definition.world import an_input, production
from tests.rows import change as plant

FREE = ("ready", "pending", "staging", "missing", "lost")
#: what the catalogue says of a file
HERE = "UPDATE catalogue.datasets SET contents_version = contents_version + 1 WHERE 1 <= cardinality($1::text[])"
GONE = "DELETE FROM catalogue.files WHERE lfn = ANY($1::text[])"
CORRUPTED = "UPDATE catalogue.files SET is_corrupted = true WHERE lfn = ANY($1::text[])"
AWAY = (
    "WITH r AS (UPDATE catalogue.dataset_replicas SET complete = false, n_files = 1) INSERT INTO"
    " catalogue.file_replicas SELECT f.file_id, 'ALPHA_DATADISK' FROM catalogue.files f JOIN catalogue.datasets d"
    " USING (dataset_id) WHERE d.name = 'mc.evnt' AND f.lfn <> ALL($1::text[])"
)
#: kind of the task, what is said of the file, what it becomes
SAYINGS = [
    ("plain", HERE, "ready"), ("plain", GONE, "lost"), ("plain", CORRUPTED, "broken"), ("plain", AWAY, "missing"),
    ("child", AWAY, "pending"), ("staging", AWAY, "staging"),
]  # fmt: skip
SAID = [f"{kind}, {target}" for kind, _, target in SAYINGS]


async def a_task(database: Database, service: Service, producer: httpx.AsyncClient, kind: str) -> int:
    """Submitted: a task like any other, one that follows its parent, one whose input is staged from tape."""
    more: dict[str, Any] = {}
    parameters = production("charts", nucleus="ALPHA")
    if kind == "child":
        parent, _ = await define(database, service, producer, production("parent", nucleus="ALPHA"))
        await put(database, parent, "running")
        parameters, more = parameters | {"noWaitParent": True}, {"parent_tid": parent}
    if kind == "staging":
        parameters |= {"inputPreStaging": True}
    return await submit(producer, parameters, **more)


@pytest.mark.parametrize(("kind", "saying", "target"), SAYINGS, ids=SAID)
async def test_a_new_unit_is_what_the_catalogue_says_of_its_file(
    database: Database, service: Service, producer: httpx.AsyncClient, kind: str, saying: str, target: str
) -> None:
    task_id = await a_task(database, service, producer, kind)
    await change(database, saying, [lfn(7)])
    await deliver(database, service, TaskRegistered(task_id=task_id))
    found = await statuses(database, task_id)
    assert found.pop(lfn(7), "lost") == target
    assert set(found.values()) == {"ready"}
    assert target == "lost" or (None, target) in {(t.source, t.target) for t in FILE.transitions}


@pytest.mark.parametrize(("kind", "saying", "target"), SAYINGS, ids=SAID)
async def test_a_unit_that_no_job_has_becomes_what_the_catalogue_says_whatever_it_was(
    database: Database, service: Service, producer: httpx.AsyncClient, kind: str, saying: str, target: str
) -> None:
    task_id = await a_task(database, service, producer, kind)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await put(database, task_id, "running")
    units = {lfn(number): was for number, was in enumerate(FREE, start=3)}
    async with database.read() as connection:
        for name, was in units.items():
            await plant(connection, "UPDATE task_files SET status = $3 WHERE task_id = $1 AND lfn = $2",
                        task_id, name, was)  # fmt: skip
    await change(database, saying, list(units))
    await look(database)
    found = await statuses(database, task_id)
    assert {name: found[name] for name in units} == dict.fromkeys(units, target)
    assert {found[name] for name in found if name not in units} == {"ready"}
    log = "SELECT from_status, to_status FROM transition_log WHERE entity = 'file' AND task_id = $1"
    moves = {tuple(row) for row in await rows_of(database, log, task_id)}
    assert moves == {(was, target) for was in FREE if was != target}


def test_the_two_tests_above_drive_every_arrow_that_the_catalogue_makes() -> None:
    said = ("the catalogue says so", "is in the catalogue again", "became available")
    driven = {(was, target) for was in FREE for _, _, target in SAYINGS if was != target}
    assert driven == {(t.source, t.target) for t in FILE.transitions if t.trigger in said}
    assert all(t.owner is Owner.TASK_DEFINITION for t in FILE.transitions if t.trigger in said)


Scenario = Callable[[Database, Service, httpx.AsyncClient], Awaitable[int]]


async def _read(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    return await ready_task(database, service, producer)


async def _read_again(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id = await ready_task(database, service, producer)
    await put(database, task_id, "running")
    await change(database, GONE, [lfn(1)])
    await look(database)
    return task_id


async def _waits(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """Named files are not there, also when they are looked for again."""
    named = an_input(files=[lfn(3), "later.root"])
    task_id, _ = await define(database, service, producer, production("waits", [named], nucleus="ALPHA"))
    await put(database, task_id, "defined")
    await deliver(database, service, TaskReleased(task_id=task_id, status="defined", reason="test"))
    assert (await task_row(database, task_id))["status"] == "pending"
    return task_id


async def _waits_in_vain(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """The dataset is gone when it is looked for again."""
    task_id = await _waits(database, service, producer)
    await change(database, "UPDATE catalogue.datasets SET name = 'mc.renamed' WHERE name = 'mc.evnt'")
    await put(database, task_id, "registered", old_status=None)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    assert (await task_row(database, task_id))["status"] == "broken"
    return task_id


async def _empty(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    await change(database, "DELETE FROM catalogue.files WHERE lfn LIKE 'EVNT%'")
    task_id, _ = await define(database, service, producer, production("empty", nucleus="ALPHA"))
    assert (await task_row(database, task_id))["status"] == "broken"
    return task_id


async def _all_gone(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id = await ready_task(database, service, producer)
    await put(database, task_id, "running")
    await change(database, "DELETE FROM catalogue.files WHERE lfn LIKE 'EVNT%'")
    await look(database)
    return task_id


async def _leaves_its_container(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id = await ready_task(database, service, producer, inputs=[an_input("data.all/")])
    await put(database, task_id, "running")
    await change(
        database,
        "DELETE FROM catalogue.containers WHERE dataset_id = (SELECT dataset_id FROM catalogue.datasets"
        " WHERE name = 'data.a')",
    )
    await change(database, "UPDATE catalogue.datasets SET contents_version = contents_version + 1")
    await look(database)
    return task_id


async def _done_then_more(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """All was processed; then the dataset gets another file, and the task is told to execute incrementally."""
    task_id = await ready_task(database, service, producer)
    await end_files(database, task_id, finished=20)
    dataset_id = (await master(database, task_id))["dataset_id"]
    async with database.read() as connection:
        await plant(connection, "UPDATE task_datasets SET status = 'done' WHERE dataset_id = $1", dataset_id)
        await BuiltInCatalogue().reopen(connection, ["mc.evnt"])
    await put(database, task_id, "running")
    await change(database, "UPDATE catalogue.files SET size_bytes = 3 WHERE lfn = $1", lfn(1))
    await look(database)
    return task_id


async def _ends(database: Database, service: Service, producer: httpx.AsyncClient, finished: int) -> int:
    task_id = await ready_task(database, service, producer)
    await end_files(database, task_id, finished=finished, failed=20 - finished)
    await put(database, task_id, "finishing")
    await deliver(database, service, TaskReleased(task_id=task_id, status="finishing", reason="test"))
    return task_id


async def _ends_done(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    return await _ends(database, service, producer, 20)


async def _ends_finished(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    return await _ends(database, service, producer, 12)


async def _ends_failed(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    return await _ends(database, service, producer, 0)


async def _retried(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id = await _ends(database, service, producer, 12)
    assert (await producer.post("/api/v1/task/retry", json={"task_id": task_id})).json()["success"]
    return task_id


#: the story of the first input dataset of a task
STORIES: list[tuple[Scenario, list[tuple[str, str]]]] = [
    (_read, [("defined", "ready")]),
    (_read_again, [("defined", "ready"), ("ready", "toupdate"), ("toupdate", "ready")]),
    (_waits, [("defined", "pending"), ("pending", "toupdate"), ("toupdate", "pending")]),
    (_waits_in_vain, [("defined", "pending"), ("pending", "toupdate"), ("toupdate", "pending"), ("pending", "broken")]),
    (_empty, [("defined", "broken")]),
    (_all_gone, [("defined", "ready"), ("ready", "toupdate"), ("toupdate", "broken")]),
    (_leaves_its_container, [("defined", "ready"), ("ready", "removed")]),
    (_done_then_more, [("defined", "ready"), ("done", "toupdate"), ("toupdate", "ready")]),
    (_ends_done, [("defined", "ready"), ("ready", "done")]),
    (_ends_finished, [("defined", "ready"), ("ready", "finished")]),
    (_ends_failed, [("defined", "ready"), ("ready", "failed")]),
    (_retried, [("defined", "ready"), ("ready", "finished"), ("finished", "ready")]),
]


@pytest.mark.parametrize(("scenario", "moves"), STORIES, ids=[one.__name__ for one, _ in STORIES])
async def test_an_input_dataset_goes_the_way_of_its_chart(
    database: Database, service: Service, producer: httpx.AsyncClient, scenario: Scenario, moves: list[tuple[str, str]]
) -> None:
    task_id = await scenario(database, service, producer)
    dataset_id = (
        await rows_of(
            database, "SELECT min(dataset_id) AS dataset_id FROM task_datasets WHERE task_id = $1 AND type = 'input'",
            task_id,
        )
    )[0]["dataset_id"]  # fmt: skip
    assert [one for one in await path(database, "dataset", dataset_id) if one[0] is not None] == moves


#: what the picture of input datasets has
CHART = {
    ("defined", "ready"), ("defined", "pending"), ("pending", "toupdate"), ("pending", "broken"), ("ready", "toupdate"),
    ("toupdate", "ready"), ("toupdate", "broken"), ("ready", "done"),
}  # fmt: skip


def test_the_stories_drive_every_arrow_of_the_chart() -> None:
    driven = {move for _, moves in STORIES for move in moves}
    assert driven >= CHART
    assert driven <= DATASET.edges()
