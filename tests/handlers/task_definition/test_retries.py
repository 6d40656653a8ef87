"""Retries: which input they open again, with which parameters, and how often."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.db import Database
from shared.events import (
    TaskCommanded,
    TaskDefined,
    TaskReady,
    TaskRegistered,
)
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.commanding import announced, command
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import analysis, production
from tests.rows import archived_job, insert, job


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


#: what pbook sends as new parameters for its options (--memory, --maxCore, --loopingCheck, ...); a session of the
#: published client sends them all
OPTIONS_OF_PBOOK = {
    "ramCount": 3000, "maxCoreCount": 32, "loopingCheck": False, "avoidVP": True, "forceStaged": True,
    "nMaxFilesPerJob": 9,
}  # fmt: skip


async def test_a_retry_takes_every_option_that_pbook_has(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nucleus="ALPHA", nFilesPerJob=None))
    await end_files(database, task_id, finished=1, failed=19)
    await put(database, task_id, "finished", ram_count=7000, measured_units=["ram_count"])
    reply = await command(producer, "retry", task_id, new_parameters=OPTIONS_OF_PBOOK)
    assert reply["data"] == rules.INCREMENTAL, reply
    row = await task_row(database, task_id)
    rule = {name: row["split_rule"].get(name) for name in ("maxCoreCount", "noLoopingCheck", "avoidVP", "useLocalIO")}
    assert rule == {"maxCoreCount": 32, "noLoopingCheck": True, "avoidVP": True, "useLocalIO": True}
    assert (row["split_rule"]["nMaxFilesPerJob"], row["ram_count"], row["measured_units"]) == (9, 3000, [])
    assert row["status"] == "ready"
    kept = await value_of(database, "SELECT task_parameters FROM task_parameters WHERE task_id = $1", task_id)
    assert kept["noLoopingCheck"] is True and "loopingCheck" not in kept


@pytest.mark.parametrize(
    ("stated", "changed", "files"),
    [
        ({}, {"nGBPerJob": 2.0}, (None, None)),
        ({"nMaxFilesPerJob": 200}, {"nFilesPerJob": 300}, (300, 300)),
        ({"nMaxFilesPerJob": 200}, {"nFilesPerJob": 100}, (100, 200)),
        ({"nMaxFilesPerJob": 200, "nFilesPerJob": 100}, {"nMaxFilesPerJob": 9}, (9, 9)),
    ],
)
async def test_of_two_limits_of_files_the_changed_one_holds_and_whole_numbers_may_have_a_point(
    database: Database,
    producer: httpx.AsyncClient,
    service: Service,
    stated: dict[str, int],
    changed: dict[str, float],
    files: tuple[int | None, int | None],
) -> None:
    task = production(nucleus="ALPHA", **{"nFilesPerJob": None, **stated})
    task_id, _ = await define(database, service, producer, task)
    await end_files(database, task_id, finished=1, failed=19)
    await put(database, task_id, "finished")
    reply = await command(producer, "retry", task_id, new_parameters=changed)
    assert reply["data"] == rules.INCREMENTAL, reply
    rule = (await task_row(database, task_id))["split_rule"]
    assert (rule.get("nFilesPerJob"), rule.get("nMaxFilesPerJob")) == files
    assert {name: rule[name] for name in changed} == changed and type(rule[next(iter(changed))]) is int


async def test_two_limits_that_contradict_each_other_in_one_retry_are_refused(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=1, failed=19)
    await put(database, task_id, "finished")
    reply = await command(producer, "retry", task_id, new_parameters={"nFilesPerJob": 9, "nMaxFilesPerJob": 5})
    assert reply["data"] == rules.BAD_VALUE and "nFilesPerJob" in reply["message"]
