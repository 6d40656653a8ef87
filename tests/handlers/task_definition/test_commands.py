from __future__ import annotations

from datetime import timedelta

import httpx
import orjson
import pytest

from services.job_generation.store.retry_rules import change_split_rule
from services.task_definition.policy import commands as rules
from services.task_definition.store import commands as command_store
from shared.auth import Authority
from shared.db import Database
from shared.events import (
    TaskCommanded,
    TaskCommandRequested,
    TaskDefined,
    TaskProgressed,
    TaskReady,
    TaskRegistered,
    TaskReleased,
)
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import analysis, production
from tests.rows import archived_job, change, insert, job


async def command(client: httpx.AsyncClient, verb: str, task_id: int, **details: object) -> dict:
    return (await client.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})).json()


async def announced(database: Database) -> list[str]:
    rows = await rows_of(database, "SELECT routing_key FROM outbox WHERE routing_key LIKE 'task%' ORDER BY event_id")
    return [row["routing_key"] for row in rows]


@pytest.fixture
async def task_id(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """A production task, running."""
    found, _ = await define(database, service, producer, production())
    await put(database, found, "running", nucleus="ALPHA")
    return found


async def test_kill_makes_the_first_transition_and_tells_the_others(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    reply = await command(producer, "kill", task_id, reason="wrong geometry")
    assert (reply["success"], reply["data"]) == (True, 0)
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"], row["command"]) == ("aborting", "running", "kill")
    assert row["error_dialog"] == "kill by prodteam: wrong geometry"
    assert TaskCommanded.routing_key() in await announced(database)
    reply = await command(producer, "kill", task_id)
    assert (reply["success"], reply["data"]) == (False, rules.IRRELEVANT)
    outcomes = await rows_of(database, "SELECT outcome FROM audit_log WHERE verb = 'task.kill' ORDER BY audit_id")
    assert outcomes[0]["outcome"] == "accepted"
    assert outcomes[1]["outcome"].startswith("refused: kill is refused for a task that is aborting")


async def test_a_killed_task_is_aborted_when_its_last_job_is_gone_and_counted(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    async with database.read() as connection:
        a_job = {
            "job_id": 1, "task_id": task_id, "chunk_id": 1, "shape_id": 1, "current_priority": 1, "core_count": 1,
            "attempt_number": 1, "status": "running", "queue": "Q", "resource_type": "SCORE", "gshare": "MC",
            "user_name": "u", "prod_source_label": "managed", "job_type": "normal",
        }  # fmt: skip
        await insert(connection, "jobs", a_job)
    await command(producer, "kill", task_id)
    progressed = TaskProgressed(
        task_id=task_id, status="aborting", files_finished=0, files_failed=0, files_total=20, live_jobs=0
    )
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == "aborting"
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET status = 'cancelled'")
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == "aborting"
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET results_applied_at = orrery_now()")
    [completed] = await deliver(database, service, progressed)
    row = await task_row(database, task_id)
    assert (row["status"], completed.status) == ("aborted", "aborted")
    assert row["end_time"] is not None
    path = await rows_of(
        database,
        "SELECT to_status FROM transition_log WHERE entity = 'task' AND task_id = $1 ORDER BY at, ctid",
        task_id,
    )
    assert [one["to_status"] for one in path][-3:] == ["aborting", "toabort", "aborted"]
    closed = await rows_of(database, "SELECT type, status FROM task_datasets WHERE task_id = $1", task_id)
    assert {(one["type"], one["status"]) for one in closed} == {
        ("input", "failed"),
        ("output", "failed"),
        ("log", "failed"),
    }


async def test_finish_takes_what_is_there(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=8)
    assert (await command(producer, "finish", task_id, soft=True))["data"] == 0
    progressed = TaskProgressed(
        task_id=task_id, status="finishing", files_finished=8, files_failed=0, files_total=20, live_jobs=0
    )
    await deliver(database, service, progressed)
    row = await task_row(database, task_id)
    assert (row["status"], row["progress"]) == ("finished", 40)
    assert "8 of 20" in row["error_dialog"]


async def test_retry_re_opens_what_failed_with_more_attempts_and_counts_it(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=17, failed=3)
    await put(database, task_id, "prepared")
    async with database.begin(reason="test") as work:
        from shared.events import TaskPrepared

        await dict(service.work)[TaskPrepared](TaskPrepared(task_id=task_id), work)
    assert (await task_row(database, task_id))["status"] == "finished"
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.simulation'") == "frozen"
    reply = await command(producer, "retry", task_id)
    assert reply["message"] == f"task {task_id} is retried: 3 units of input re-opened"
    row = await task_row(database, task_id)
    assert (row["status"], row["end_time"], row["error_dialog"]) == ("ready", None, None)
    master = (await rows_of(database, "SELECT * FROM task_datasets WHERE type = 'input'"))[0]
    assert (master["n_files_used"], master["n_files_finished"], master["n_files_failed"]) == (17, 17, 0)
    assert (master["n_events_used"], master["status"]) == (17_000, "ready")
    again = await rows_of(database, "SELECT * FROM task_files WHERE status = 'ready'")
    assert {(one["attempt_nr"], one["max_attempt"], one["max_failure"]) for one in again} == {(3, 8, None)}
    log = await rows_of(database, "SELECT * FROM transition_log WHERE entity = 'file'")
    assert [(one["from_status"], one["to_status"], len(one["entity_ids"])) for one in log] == [("failed", "ready", 3)]
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.simulation'") == "open"
    assert (await announced(database))[-2:] == [TaskCommanded.routing_key(), TaskReady.routing_key()]


async def test_a_large_task_is_re_opened_in_slices_and_counted_exactly(
    database: Database, producer: httpx.AsyncClient, task_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_store, "FILES_AT_ONCE", 3)
    await end_files(database, task_id, finished=10, failed=10)
    await put(database, task_id, "finished")
    reply = await command(producer, "retry", task_id)
    assert reply["message"] == f"task {task_id} is retried: 10 units of input re-opened"
    master = (await rows_of(database, "SELECT * FROM task_datasets WHERE type = 'input'"))[0]
    assert (master["n_files_used"], master["n_files_failed"], master["n_events_used"]) == (10, 0, 10_000)
    log = await rows_of(database, "SELECT * FROM transition_log WHERE entity = 'file' AND to_status = 'ready'")
    assert [len(one["entity_ids"]) for one in log] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("failed", "said"),
    [(0, "18 units of input not done yet go on"), (3, "3 units of input re-opened, 15 not done yet go on")],
)
async def test_retry_of_a_killed_task_says_how_much_input_it_goes_on_with(
    database: Database, producer: httpx.AsyncClient, task_id: int, failed: int, said: str
) -> None:
    await end_files(database, task_id, finished=2, failed=failed)
    await put(database, task_id, "aborted")
    reply = await command(producer, "retry", task_id)
    assert reply["message"] == f"task {task_id} is retried: {said}"
    assert (await task_row(database, task_id))["status"] == "ready"


async def test_retry_of_a_task_with_nothing_left_changes_nothing(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=20)
    await put(database, task_id, "finished", error_dialog="its parent is running")
    reply = await command(producer, "retry", task_id)
    assert reply["success"] and "nothing left to retry" in reply["message"]
    assert (await task_row(database, task_id))["status"] == "finished"


async def test_an_exhausted_task_is_retried_by_its_owner_and_goes_on_where_it_was(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, analysis())
    await put(database, task_id, "exhausted", old_status="scouting")
    assert (await command(user, "retry", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "scouting"


@pytest.mark.parametrize(
    ("facts", "after"),
    [({}, "scouting"), ({"measured_units": ["ram_count"]}, "running"), ({"walltime_unit": "kSI2kseconds"}, "running")],
)
async def test_an_exhausted_task_whose_scouts_measured_goes_on_running(
    database: Database, producer: httpx.AsyncClient, task_id: int, facts: dict[str, object], after: str
) -> None:
    await put(database, task_id, "exhausted", old_status="scouting", **facts)
    assert (await command(producer, "retry", task_id))["success"]
    assert (await task_row(database, task_id))["status"] == after


@pytest.mark.parametrize(("status", "old_status"), [("aborted", None), ("exhausted", "assigning"), ("failed", None)])
async def test_a_task_that_ended_before_it_had_a_nucleus_is_given_one_when_it_is_retried(
    database: Database, producer: httpx.AsyncClient, service: Service, status: str, old_status: str | None
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, status, old_status=old_status, nucleus=None)
    assert (await command(producer, "retry", task_id))["success"]
    assert (await task_row(database, task_id))["status"] == "assigning"
    assert (await announced(database))[-2:] == [TaskCommanded.routing_key(), TaskDefined.routing_key()]


async def test_a_retry_may_change_a_few_parameters_only(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=1, failed=19)
    await put(database, task_id, "finished")
    reply = await command(producer, "retry", task_id, new_parameters={"nEventsPerJob": 5, "nFilesPerJob": 0})
    assert reply["data"] == rules.BAD_VALUE and "nEventsPerJob cannot be changed" in reply["message"]
    assert "nFilesPerJob" in reply["message"].partition("allowed")[2], "every problem is told at once"
    reply = await command(producer, "retry", task_id, new_parameters={"nFilesPerJob": 0})
    assert reply["data"] == rules.BAD_VALUE and "nFilesPerJob" in reply["message"]
    reply = await command(producer, "retry", task_id, new_parameters='{"nFilesPerJob": 1, "site": "GAMMA"}')
    assert reply["data"] == rules.INCREMENTAL, "pbook takes 3 for a retry with new options that was accepted"
    row = await task_row(database, task_id)
    assert (row["split_rule"]["nFilesPerJob"], row["site"], row["status"]) == (1, "GAMMA", "ready")


async def test_more_files_are_an_incremental_execution(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nFiles=4, nucleus="ALPHA"))
    await end_files(database, task_id, finished=4)
    await put(database, task_id, "finished")
    assert (await command(producer, "retry", task_id, new_parameters={"nFiles": 6}))["data"] == rules.INCREMENTAL
    assert (await task_row(database, task_id))["status"] == "rerefine"
    emitted = list(await deliver(database, service, TaskRegistered(task_id=task_id)))
    assert emitted == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    assert await value_of(database, "SELECT n_files FROM task_datasets WHERE type = 'input'") == 6


async def test_pause_remembers_what_to_go_back_to(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "pending", old_status="running", error_dialog="no queue")
    assert (await command(producer, "pause", task_id))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"], row["retry_at"]) == ("paused", "running", None)
    assert (await command(producer, "pause", task_id))["data"] == rules.IRRELEVANT
    assert (await command(producer, "resume", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "running"
    assert (await announced(database))[-2:] == [TaskCommanded.routing_key(), TaskReleased.routing_key()]


async def test_a_task_that_is_paused_while_it_waits_keeps_its_time_and_goes_on_at_it(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    later = await value_of(database, "SELECT orrery_now() + interval '1 hour'")
    await put(database, task_id, "pending", old_status="running", retry_at=later)
    assert (await command(producer, "pause", task_id))["data"] == 0
    assert (await task_row(database, task_id))["retry_at"] == later
    assert (await command(producer, "resume", task_id))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["retry_at"]) == ("running", later)


async def test_a_throttled_task_can_be_resumed(database: Database, producer: httpx.AsyncClient, task_id: int) -> None:
    await put(database, task_id, "throttled", old_status="running")
    assert (await command(producer, "resume", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "running"


async def test_a_resumed_task_that_made_jobs_asks_to_be_looked_at_by_its_own_row(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "paused", old_status="running")
    assert (await command(producer, "resume", task_id))["data"] == 0
    task = await task_row(database, task_id)
    assert task["status"] == "running" and task["retry_at"] == task["state_change_time"]


async def test_a_user_commands_their_own_tasks_only(
    database: Database, service: Service, authority: Authority, user: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, analysis())
    async with client_of(service, authority, "bob", "user") as other:
        assert (await command(other, "kill", task_id))["data"] == rules.NOT_PERMITTED
    assert (await task_row(database, task_id))["status"] == "ready"
    assert (await command(user, "pause", task_id))["data"] == 0
    assert (await command(operator, "resume", task_id))["data"] == 0
    assert (await command(user, "kill", 999_999))["data"] == rules.NOT_FOUND


async def test_priority_and_share_are_changed_within_what_the_caller_may(
    database: Database, service: Service, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    async with database.pool.acquire() as connection:
        for name, parent in (("root", None), ("User", "root"), ("Express", "root")):
            await insert(connection, "shares", {"gshare": name, "value": 50, "parent": parent})
    task_id, _ = await define(database, service, user, analysis())
    assert (await command(user, "change_priority", task_id, priority=1001))["data"] == rules.NOT_PERMITTED
    assert (await command(user, "change_priority", task_id, priority=900))["data"] == 0
    async with database.pool.acquire() as connection:
        owner = (await task_row(database, task_id))["user_name"]
        await insert(connection, "users", {"user_name": owner, "grid_pref": "s"})
    assert (await command(user, "change_priority", task_id, priority=1500))["data"] == 0
    assert (await command(user, "change_priority", task_id, priority=1501))["data"] == rules.NOT_PERMITTED
    assert (await command(producer, "change_priority", task_id, priority=99_999))["data"] == rules.BAD_VALUE
    assert (await command(producer, "change_share", task_id, share="root"))["data"] == rules.BAD_VALUE
    assert (await command(producer, "change_share", task_id, share="Express"))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["current_priority"], row["task_priority"], row["gshare"]) == (1500, 1500, "Express")
    assert row["status"] == "ready" and row["command"] is None, "the task goes on as before"
    bodies = await rows_of(
        database, "SELECT body FROM outbox WHERE routing_key = 'task.commanded.v1' ORDER BY event_id"
    )
    assert [orjson.loads(one["body"])["command"] for one in bodies] == [
        "change_priority", "change_priority", "change_share",
    ]  # fmt: skip


async def test_reassignment_to_a_nucleus_goes_on_when_queued_jobs_are_gone(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    assert (await command(producer, "reassign", task_id, nucleus="GAMMA"))["data"] == rules.BAD_VALUE
    assert (await command(producer, "reassign", task_id, nucleus="BETA"))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["nucleus"], row["command"]) == ("running", "BETA", None)


async def test_reassignment_without_a_target_asks_the_task_brokerage_again(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    assert (await command(producer, "reassign", task_id))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["nucleus"]) == ("assigning", None)
    assert (await announced(database))[-1] == TaskDefined.routing_key()


@pytest.mark.parametrize("mode", ["soft", "nokill"])
async def test_a_task_that_is_reassigned_while_it_waits_for_its_input_is_defined_before_it_is_brokered(
    database: Database, producer: httpx.AsyncClient, task_id: int, mode: str
) -> None:
    """It has no input yet: on its way through the task brokerage it would end with nothing done."""
    await put(database, task_id, "pending", old_status="registered")
    assert (await command(producer, "reassign", task_id, mode=mode))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"], row["nucleus"], row["command"]) == ("pending", "registered", None, None)
    assert row["retry_at"] is not None, "it is looked at now"


async def test_more_attempts_re_open_units_that_were_given_up(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=2, failed=1)
    reply = await command(producer, "increase_attempts", task_id, increase=2)
    assert reply["data"] == 0 and "1 unit of input re-opened" in reply["message"]
    attempts = await rows_of(
        database, "SELECT status, max_attempt, count(*) FROM task_files GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert [tuple(one) for one in attempts] == [("finished", 3, 2), ("ready", 5, 18)]
    assert (await command(producer, "increase_attempts", task_id, increase=0))["data"] == rules.BAD_VALUE


async def test_a_split_rule_changes_while_the_task_lives_and_undoes_nothing(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    assert (await command(producer, "reassign", task_id, nucleus="BETA"))["data"] == 0
    change = {"attribute_name": "nGBPerJob", "attribute_value": 3}
    assert (await command(producer, "change_split_rule", task_id, **change))["data"] == 0
    assert (await command(producer, "change_split_rule", task_id, attribute_name="NF"))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["split_rule"]["nGBPerJob"], "nFilesPerJob" in row["split_rule"], row["nucleus"]) == (3, False, "BETA")
    details = (await producer.get("/api/v1/task/get_details", params={"task_id": task_id})).json()["data"]
    assert "NG=3" in details["splitRule"].split(",")
    parameters = (await producer.get("/api/v1/task/get_task_parameters", params={"task_id": task_id})).json()["data"]
    assert parameters["nGBPerJob"] == 3


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("nEventsPerJob", 5, "nEventsPerJob cannot be changed; allowed: allowIncompleteInDS, "),
        ("nGBPerJob", 0, "nGBPerJob = 0: allowed: 1 or more"),
        ("nFilesPerJob", "many", "nFilesPerJob = 'many': allowed: a whole number"),
    ],
)
async def test_a_rule_that_may_not_change_or_a_wrong_value_is_refused(
    database: Database, producer: httpx.AsyncClient, task_id: int, name: str, value: object, told: str
) -> None:
    before = await task_row(database, task_id)
    reply = await command(producer, "change_split_rule", task_id, attribute_name=name, attribute_value=value)
    assert reply["data"] == rules.BAD_VALUE and told in reply["message"]
    assert (await task_row(database, task_id))["split_rule"] == before["split_rule"]


async def test_a_task_that_ended_has_no_live_rules(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "done")
    reply = await command(producer, "change_split_rule", task_id, attribute_name="NG", attribute_value=3)
    assert reply["data"] == rules.IRRELEVANT


async def test_avalanche_is_for_scouting_tasks(database: Database, producer: httpx.AsyncClient, task_id: int) -> None:
    assert (await command(producer, "avalanche", task_id))["data"] == rules.IRRELEVANT
    await put(database, task_id, "scouting")
    assert (await command(producer, "avalanche", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "scouting"
    assert (await announced(database))[-1] == TaskCommanded.routing_key()


async def test_the_watchdog_s_request_is_carried_out_like_a_command(
    database: Database, service: Service, task_id: int
) -> None:
    request = TaskCommandRequested(
        task_id=task_id, command="finish", reason="the goal is reached", requested_by="watchdog"
    )
    [commanded] = await deliver(database, service, request)
    assert commanded == TaskCommanded(task_id=task_id, command="finish", status="finishing", soft=True)
    assert await deliver(database, service, request) == ()
    assert await value_of(
        database, "SELECT caller FROM audit_log WHERE outcome = 'accepted' AND verb = 'task.finish'"
    ) == ("watchdog")


async def test_a_retry_takes_finished_children_along(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    child, _ = await define(database, service, producer, production("child"), parent_tid=task_id)
    await put(database, child, "registered", old_status=None)
    await put(database, task_id, "done")
    await deliver(database, service, TaskRegistered(task_id=child))
    await end_files(database, child, finished=19, failed=1)
    await put(database, child, "finished", nucleus="ALPHA")
    await end_files(database, task_id, finished=19, failed=1)
    await put(database, task_id, "finished")
    assert (await command(producer, "retry", task_id))["data"] == 0
    assert (await task_row(database, child))["status"] == "rerefine"  # it reads what the parent makes now


async def test_an_incremental_execution_merges_parameters_and_takes_back_the_memory_but_no_reassignment(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=10, failed=2)
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'lost' WHERE status = 'failed'")
        await change(connection, "UPDATE task_datasets SET n_files_used = 10, n_files_failed = 0 WHERE type = 'input'")
    measured = {"ram_count": 7000, "ram_unit": "MB", "walltime": 99, "walltime_unit": "kSPerMB"}
    await put(database, task_id, "done", nucleus="BETA", measured_units=["ram_count", "walltime"], **measured)
    changes = {"nGBPerJob": 7, "nFilesPerJob": None}
    assert (await command(producer, "reload_input", task_id, new_parameters=changes))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["ram_count"], row["ram_unit"], row["attempt_nr"]) == ("rerefine", 1000, "MBPerCore", 1)
    assert (row["nucleus"], row["walltime"], row["measured_units"]) == ("BETA", 99, ["walltime"])
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE status = 'lost'") == 0
    emitted = list(await deliver(database, service, TaskRegistered(task_id=task_id)))
    assert emitted == [TaskReady(task_id=task_id, nucleus="BETA")]
    row = await task_row(database, task_id)
    assert (row["split_rule"]["nGBPerJob"], "nFilesPerJob" in row["split_rule"], row["nucleus"]) == (7, False, "BETA")
    assert (row["walltime"], row["measured_units"]) == (99, ["walltime"])


async def test_rules_that_were_measured_stay_until_a_command_states_others(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nFilesPerJob=None, nGBPerJob=5, nucleus="ALPHA"))

    async def rules_after(**changes: object) -> tuple[object, object]:
        """nGBPerJob and nMaxFilesPerJob after an incremental execution with these parameters."""
        await put(database, task_id, "done")
        assert (await command(producer, "reload_input", task_id, new_parameters=changes))["success"]
        await deliver(database, service, TaskRegistered(task_id=task_id))
        row = await task_row(database, task_id)
        assert row["status"] == "ready"
        return row["split_rule"].get("nGBPerJob"), row["split_rule"].get("nMaxFilesPerJob")

    assert await rules_after() == (5, None)
    async with database.begin(reason="measured") as work:
        await change_split_rule(work, task_id, {"nMaxFilesPerJob": 200})
    assert (await task_row(database, task_id))["measured_rules"] == ["nGBPerJob", "nMaxFilesPerJob"]
    assert await rules_after() == (None, 200)
    assert await rules_after(nGBPerJob=7) == (7, 200)
    assert await rules_after(nMaxFilesPerJob=9) == (7, 9)
    assert (await task_row(database, task_id))["measured_rules"] == []


async def test_a_retry_gives_priority_and_share_back_unless_they_are_to_be_kept(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    async with database.pool.acquire() as connection:
        for name, parent in (("root", None), ("Production", "root"), ("Express", "root")):
            expression = {"prod_source_label": "managed"} if name == "Production" else {}
            await insert(connection, "shares", {"gshare": name, "value": 50, "parent": parent, **expression})
    boosted = {"current_priority": 900, "gshare": "Express"}
    for keep, told in ((True, (900, "Express")), (False, (500, "Production"))):
        await end_files(database, task_id, finished=0, failed=3)
        await put(database, task_id, "finished", **boosted)
        assert (await command(producer, "retry", task_id, keep_gshare_priority=keep))["success"]
        row = await task_row(database, task_id)
        assert (row["current_priority"], row["gshare"]) == told
    assert (await command(producer, "change_share", task_id, share="Express"))["success"]
    await end_files(database, task_id, finished=0, failed=3)
    await put(database, task_id, "finished")
    assert (await command(producer, "retry", task_id))["success"]
    assert (await task_row(database, task_id))["gshare"] == "Express", "what was set by hand is the task's own"


async def set_limit(operator: httpx.AsyncClient, service: Service, key: str, value: int) -> None:
    setting = {"app": "jedi", "component": "retry_task", "key": f"{key}_managed", "value": value}
    assert (await operator.post("/api/v1/config/set", json=setting)).json()["success"]
    for action in service.on_start:
        await action()


@pytest.mark.parametrize(
    ("key", "value", "after", "code", "said"),
    [
        ("TASK_MAX_ATTEMPT", 2, "exhausted", rules.OK, "it was retried 2 times; allowed: 2"),
        ("MAX_JOB_FAILURE_RATE", 50, "exhausted", rules.OK, "60 % of its jobs failed; allowed: less than 50 %"),
        ("JOB_MAX_ATTEMPT", 3, "finished", rules.IRRELEVANT, "tried 3 times; allowed: fewer than 3"),
        ("TASK_MAX_ATTEMPT", 3, "ready", rules.OK, "is retried"),
        ("MAX_FAILED_HEP_SCORE_HOURS", 160, "exhausted", rules.OK,
         "its failed jobs used 160 HEP score hours; allowed: less than 160"),
        ("MAX_FAILED_HEP_SCORE_HOURS", 161, "ready", rules.OK, "is retried"),
        ("MAX_FAILED_HEP_SCORE_RATE", 66, "exhausted", rules.OK,
         "67 % of the HEP score hours of its jobs were those of failed ones; allowed: less than 66 %"),
        ("MIN_CPU_EFFICIENCY", 60, "exhausted", rules.OK,
         "its jobs used 50 % of the CPU time that they had; allowed: 60 % or more"),
        ("MIN_CPU_EFFICIENCY", 50, "ready", rules.OK, "is retried"),
    ],
)  # fmt: skip
async def test_a_task_that_was_tried_too_often_is_not_retried_unless_its_limits_are_to_be_ignored(
    database: Database,
    service: Service,
    producer: httpx.AsyncClient,
    operator: httpx.AsyncClient,
    task_id: int,
    key: str,
    value: int,
    after: str,
    code: int,
    said: str,
) -> None:
    await set_limit(operator, service, key, value)
    await end_files(database, task_id, finished=17, failed=3)
    await put(database, task_id, "finished", attempt_nr=2)
    async with database.pool.acquire() as connection:
        await insert(connection, "task_job_counts", {"task_id": task_id, "n_finished": 4, "n_failed": 6})
        # an hour of 8 cores of 10 HS06 that finished, and two hours of them that failed
        begun = await connection.fetchval("SELECT orrery_now() - interval '2 hours'")
        slot = {"queue": "Q_ALPHA", "core_count": 8, "start_time": begun}
        done = await archived_job(connection, task_id, status="finished", end_time=begun + timedelta(hours=1), **slot)
        report = {"job_status": "finished", "cpu_consumption_time": 4 * 3600}
        values = {"job_id": done, "attempt_number": 1, "state": "finished", "report": report}
        await insert(connection, "job_reports", values)
        await job(connection, task_id, status="failed", end_time=begun + timedelta(hours=2), **slot)
    reply = await command(producer, "retry", task_id)
    assert (reply["data"], said in reply["message"]) == (code, True), reply
    assert (await task_row(database, task_id))["status"] == after
    if after != "ready":
        assert (await command(producer, "retry", task_id, ignore_hard_exhausted=True))["success"]
        assert (await task_row(database, task_id))["status"] == "ready"


async def test_release_takes_what_is_being_staged_as_staged(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'staging' WHERE file_id % 2 = 0 AND type = 'input'")
    reply = await command(producer, "release", task_id)
    assert reply["message"] == f"task {task_id} is released: 10 units of input taken as staged"
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE status = 'ready' AND type = 'input'") == 20
    assert (await announced(database))[-1] == TaskReleased.routing_key()


async def test_jobs_of_a_task_that_is_reassigned_without_killing_go_on(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    async with database.read() as connection:
        a_job = {
            "job_id": 1, "task_id": task_id, "chunk_id": 1, "shape_id": 1, "current_priority": 1, "core_count": 1,
            "attempt_number": 1, "status": "activated", "queue": "Q", "resource_type": "SCORE", "gshare": "MC",
            "user_name": "u", "prod_source_label": "managed", "job_type": "normal",
        }  # fmt: skip
        await insert(connection, "jobs", a_job)
    assert (await command(producer, "reassign", task_id, nucleus="BETA"))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "reassigning", "soft waits for what is queued"
    await put(database, task_id, "running")
    assert (await command(producer, "reassign", task_id, nucleus="ALPHA", mode="nokill"))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["nucleus"], row["command"]) == ("running", "ALPHA", None)
    assert await value_of(database, "SELECT status FROM jobs") == "activated"
