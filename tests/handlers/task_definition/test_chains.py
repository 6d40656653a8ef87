"""Parents and children: who waits for whom, who is fed, and what ends with whom."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.policy.refine import FOLLOWED_IF_KNOWN
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import TaskCompleted, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.reading import look
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, production

CATALOGUE = BuiltInCatalogue()


async def make(database: Database, dataset: str, *names: str) -> None:
    async with database.begin(reason="the parent's jobs") as work:
        await CATALOGUE.add_files(work.connection, [NewFile(dataset, name, 10, "ALPHA_DATADISK", 5) for name in names])


async def a_parent(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    parent, _ = await define(database, service, producer, production("parent", nucleus="ALPHA"))
    await put(database, parent, "running")
    return parent


async def a_child(
    database: Database, service: Service, producer: httpx.AsyncClient, parent: int, **changes: object
) -> int:
    task = production("child", [an_input("mc.parent")], nucleus="ALPHA", nFilesPerJob=1, **changes)
    child, _ = await define(database, service, producer, task, parent_tid=parent)
    return child


async def names(database: Database, task_id: int) -> list[str]:
    rows = await rows_of(
        database, "SELECT lfn FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY lfn", task_id
    )
    return [row["lfn"] for row in rows]


async def test_a_child_follows_the_growing_output_of_its_parent_until_that_is_closed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent = await a_parent(database, service, producer)
    child = await a_child(database, service, producer, parent, noWaitParent=True)
    row = await task_row(database, child)
    assert (row["status"], row["old_status"]) == ("pending", "defined")
    assert row["error_dialog"] == "no file of mc.parent can be used; it is still open"
    await make(database, "mc.parent", "p.1.root")
    await put(database, child, "defined")
    emitted = await deliver(database, service, TaskReleased(task_id=child, status="defined", reason="test"))
    assert emitted == (TaskReady(task_id=child, nucleus="ALPHA"),)
    await put(database, child, "running")
    await make(database, "mc.parent", "p.2.root")
    await look(database)
    assert await names(database, child) == ["p.1.root", "p.2.root"]
    state = "SELECT state FROM task_datasets WHERE task_id = $1 AND type = 'input'"
    assert await value_of(database, state, child) == "open"
    async with database.begin(reason="the parent ends") as work:
        await CATALOGUE.freeze(work.connection, ["mc.parent"])
    await put(database, parent, "done")
    assert await look(database) == [TaskReleased(task_id=child, status="running", reason="its input was read again")]
    assert await value_of(database, state, child) == "frozen"


async def test_a_pending_child_goes_on_when_its_parent_made_the_first_file(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent = await a_parent(database, service, producer)
    child = await a_child(database, service, producer, parent, noWaitParent=True)
    before = (await task_row(database, child))["retry_at"]
    await make(database, "mc.parent", "p.1.root")
    await look(database)
    assert (await task_row(database, child))["retry_at"] < before


@pytest.mark.parametrize("waits", [True, False], ids=["the child waits", "the child follows"])
@pytest.mark.parametrize("ended", ["done", "finished", "exhausted"])
async def test_retrying_a_parent_reopens_its_child_and_feeds_it_the_new_files(
    database: Database, service: Service, producer: httpx.AsyncClient, ended: str, waits: bool
) -> None:
    parent = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root")
    await put(database, parent, "finished")
    child = await a_child(database, service, producer, parent, noWaitParent=not waits)
    await end_files(database, child, finished=1)
    await put(database, child, ended)
    await end_files(database, parent, finished=19, failed=1)
    reply = (await producer.post("/api/v1/task/retry", json={"task_id": parent})).json()
    assert reply["success"], reply
    assert (await task_row(database, parent))["status"] == "ready"
    assert (await task_row(database, child))["status"] == "rerefine"
    await deliver(database, service, TaskRegistered(task_id=child))
    row = await task_row(database, child)
    await make(database, "mc.parent", "p.2.root")
    if waits:
        assert (row["status"], row["old_status"]) == ("pending", "rerefine")
        assert row["error_dialog"] == f"parent task {parent} is ready: waits for it to end"
        await put(database, parent, "done")
        await deliver(database, service, TaskCompleted(task_id=parent, status="done"))
        assert (await task_row(database, child))["retry_at"] < row["retry_at"]
        await put(database, child, "rerefine", old_status=None)
        await deliver(database, service, TaskReleased(task_id=child, status="rerefine", reason="test"))
    else:
        assert (row["status"], row["old_status"]) == ("pending", "defined")
        await put(database, child, "defined")
        await deliver(database, service, TaskReleased(task_id=child, status="defined", reason="test"))
    assert (await task_row(database, child))["status"] == "ready"
    assert await names(database, child) == ["p.1.root", "p.2.root"]


@pytest.mark.parametrize("ended", ["aborted", "broken", "failed"])
async def test_retrying_a_parent_leaves_children_as_they_are_that_did_not_succeed(
    database: Database, service: Service, producer: httpx.AsyncClient, ended: str
) -> None:
    parent = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root")
    await put(database, parent, "finished")
    child = await a_child(database, service, producer, parent)
    await put(database, child, ended)
    await end_files(database, parent, finished=19, failed=1)
    assert (await producer.post("/api/v1/task/retry", json={"task_id": parent})).json()["success"]
    assert (await task_row(database, child))["status"] == ended


async def test_a_child_that_finished_before_its_parent_is_fed_when_the_parent_ends(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root")
    await put(database, parent, "finished")
    child = await a_child(database, service, producer, parent)
    await end_files(database, child, finished=1)
    await put(database, child, "finished")
    await deliver(database, service, TaskCompleted(task_id=parent, status="finished"))
    assert (await task_row(database, child))["status"] == "finished"
    await make(database, "mc.parent", "p.2.root")
    await deliver(database, service, TaskCompleted(task_id=parent, status="finished"))
    assert (await task_row(database, child))["status"] == "rerefine"


@pytest.mark.parametrize(("status", "then"), [("aborted", "aborting"), ("ready", "running")])
async def test_children_end_with_a_corrupted_parent_unless_it_was_tried_again_before_they_heard_of_it(
    database: Database, service: Service, producer: httpx.AsyncClient, status: str, then: str
) -> None:
    parent = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root")
    await put(database, parent, "finished")
    child = await a_child(database, service, producer, parent)
    await put(database, child, "running")
    await put(database, parent, status)
    await deliver(database, service, TaskCompleted(task_id=parent, status="aborted"))
    assert (await task_row(database, child))["status"] == then


@pytest.mark.parametrize("ended", ["failed", "broken", "aborted"])
async def test_a_child_that_is_not_defined_yet_breaks_with_a_corrupted_parent_and_says_so(
    database: Database, service: Service, producer: httpx.AsyncClient, ended: str
) -> None:
    parent = await a_parent(database, service, producer)
    child = await a_child(database, service, producer, parent)
    assert ended not in FOLLOWED_IF_KNOWN
    await put(database, parent, ended)
    await put(database, child, "registered")
    emitted = await deliver(database, service, TaskRegistered(task_id=child))
    assert emitted == (TaskCompleted(task_id=child, status="broken"),)
    assert (await task_row(database, child))["error_dialog"] == f"parent task {parent} is {ended}"


TOLD = "{} files of mc.parent are not used: the parent task has not finished them (check)"


async def finish(database: Database, parent: int, name: str) -> None:
    """The parent's file ends well, as the field's own record of it says."""
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute(
            "INSERT INTO task_files (dataset_id, task_id, lfn, type, status)"
            " SELECT dataset_id, task_id, $2, 'output', 'finished' FROM task_datasets"
            " WHERE task_id = $1 AND dataset_name = 'mc.parent'",
            parent,
            name,
        )


async def test_check_leaves_out_files_that_the_parent_has_not_finished_until_it_has(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root", "p.2.root", "p.3.root")
    await finish(database, parent, "p.1.root")
    checked = an_input("mc.parent", check=True)
    task = production("child", [checked], nucleus="ALPHA", nFilesPerJob=1, noWaitParent=True)
    child, _ = await define(database, service, producer, task, parent_tid=parent)
    row = await task_row(database, child)
    assert (row["status"], row["error_dialog"]) == ("ready", TOLD.format(2))
    assert await names(database, child) == ["p.1.root"]
    data = (await producer.get("/api/v1/explain/task", params={"task_id": child})).json()["data"]
    assert TOLD.format(2) in data["text"]
    await finish(database, parent, "p.3.root")
    async with database.begin(reason="the parent ends") as work:
        await CATALOGUE.freeze(work.connection, ["mc.parent"])
    await look(database)
    assert await names(database, child) == ["p.1.root", "p.3.root"]


async def test_check_needs_a_parent(producer: httpx.AsyncClient) -> None:
    told = "attribute check of mc.evnt needs parent_tid: the task whose files it checks"
    with pytest.raises(AssertionError, match=told):
        await submit(producer, production("orphan", [an_input(check=True)], nucleus="ALPHA"))
