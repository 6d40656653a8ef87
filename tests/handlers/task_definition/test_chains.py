"""Parents and children: who waits for whom, who is fed, and what ends with whom."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.tasks.commanding.command import SYSTEM, Command
from services.task_definition.tasks.policy.refine import FOLLOWED_IF_KNOWN
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import TaskCommandRequested, TaskCompleted, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.commanding import command
from tests.handlers.task_definition.reading import look
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.two_vos import analysing
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


@pytest.mark.parametrize("ended", ["done", "finished", "exhausted"])
@pytest.mark.parametrize("between", ["done", "finished", "exhausted"])
async def test_retrying_the_first_of_three_tasks_re_opens_the_last_too(
    database: Database, service: Service, producer: httpx.AsyncClient, between: str, ended: str
) -> None:
    first, second, third = await a_chain(database, service, producer)
    await put(database, second, between)
    await put(database, third, ended)
    assert (await producer.post("/api/v1/task/retry", json={"task_id": first})).json()["success"]
    assert [(await task_row(database, one))["status"] for one in (first, second, third)] == [
        "ready", "rerefine", "rerefine",
    ]  # fmt: skip
    reasons = "SELECT reason FROM transition_log WHERE task_id = $1 AND to_status = 'toincexec'"
    assert await value_of(database, reasons, third) == f"incexec by task_definition: its parent {second} is retried"


@pytest.mark.parametrize(
    ("second_is", "third_is", "then"),
    [("failed", "done", ("failed", "done")), ("done", "aborted", ("rerefine", "aborted"))],
)
async def test_a_chain_is_re_opened_as_far_as_its_tasks_succeeded(
    database: Database,
    service: Service,
    producer: httpx.AsyncClient,
    second_is: str,
    third_is: str,
    then: tuple[str, str],
) -> None:
    first, second, third = await a_chain(database, service, producer)
    await put(database, second, second_is)
    await put(database, third, third_is)
    assert (await producer.post("/api/v1/task/retry", json={"task_id": first})).json()["success"]
    assert ((await task_row(database, second))["status"], (await task_row(database, third))["status"]) == then


async def test_a_user_does_not_re_open_through_two_parents_what_production_ended(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    _, second, third = await a_chain(database, service, producer)
    for one in (second, third):
        await put(database, one, "finished")
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET hold = 'ended' WHERE task_id = $1", third)
    async with database.begin(reason="test") as work:
        commands = dict(service.work)[TaskCommandRequested].__self__
        again = Command("incexec", second, {}, "a user's retry of its parent", by_production=False)
        assert (await commands.execute(work, again, SYSTEM)).accepted
    assert (await task_row(database, third))["status"] == "finished"


@pytest.mark.parametrize("lives", ["running", "scouting", "throttled", "paused"])
async def test_a_child_that_still_works_looks_at_its_input_at_once_when_its_parent_is_retried(
    database: Database, service: Service, producer: httpx.AsyncClient, lives: str
) -> None:
    first, second, _ = await a_chain(database, service, producer)
    await put(database, second, lives)
    async with database.pool.acquire() as connection:
        await connection.execute(
            "UPDATE task_datasets SET state_check_time = orrery_now(), state_check_expiration = NULL"
            " WHERE task_id = $1",
            second,
        )
    assert (await producer.post("/api/v1/task/retry", json={"task_id": first})).json()["success"]
    due = await rows_of(
        database,
        "SELECT dataset_name FROM task_datasets WHERE task_id = $1 AND type = 'input'"
        " AND state_check_time = '-infinity' AND state_check_expiration > orrery_now()",
        second,
    )
    assert ((await task_row(database, second))["status"], [row[0] for row in due]) == (lives, ["mc.parent"])


async def test_a_user_who_kills_a_task_ends_their_own_children_alone(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    parent = await submit(user, analysing("user.alice.parent", vo="demo"))
    own = await submit(user, analysing("user.alice.own", vo="demo"), parent_tid=parent)
    others = await submit(producer, production("of_production", nucleus="ALPHA"), parent_tid=parent)
    below = await submit(producer, production("below", nucleus="ALPHA"), parent_tid=own)
    for one in (own, others, below):
        await put(database, one, "running")
    assert (await command(user, "kill", parent))["success"]
    await put(database, parent, "aborted")
    await deliver(database, service, TaskCompleted(task_id=parent, status="aborted"))
    statuses = [(await task_row(database, one))["status"] for one in (own, others)]
    assert statuses == ["aborting", "running"]
    await put(database, own, "aborted")
    await deliver(database, service, TaskCompleted(task_id=own, status="aborted"))
    assert (await task_row(database, below))["status"] == "running"
    said = "SELECT outcome FROM audit_log WHERE verb = 'task.kill' AND target = $1"
    told = await value_of(database, said, f"task:{others}")
    assert told == f"refused: its parent {parent} ended aborted by alice, who may not command it: it goes on"


async def test_production_that_kills_a_task_ends_all_its_children(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    parent = await submit(user, analysing("user.alice.parent", vo="demo"))
    child = await submit(producer, production("of_production", nucleus="ALPHA"), parent_tid=parent)
    await put(database, child, "running")
    assert (await command(producer, "kill", parent))["success"]
    await put(database, parent, "aborted")
    await deliver(database, service, TaskCompleted(task_id=parent, status="aborted"))
    assert (await task_row(database, child))["status"] == "aborting"


async def a_chain(database: Database, service: Service, producer: httpx.AsyncClient) -> tuple[int, int, int]:
    """Three tasks, each of which reads what the one before made; the first has something to try again."""
    first = await a_parent(database, service, producer)
    await make(database, "mc.parent", "p.1.root")
    await put(database, first, "finished")
    second = await a_child(database, service, producer, first)
    await make(database, "mc.child", "c.1.root")
    await put(database, second, "done")
    task = production("grandchild", [an_input("mc.child")], nucleus="ALPHA", nFilesPerJob=1)
    third, _ = await define(database, service, producer, task, parent_tid=second)
    await end_files(database, second, finished=1)
    await end_files(database, third, finished=1)
    await end_files(database, first, finished=19, failed=1)
    return first, second, third


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
