"""Commands that change what a task is: its priority, share, place, rules and parameters."""

from __future__ import annotations

import httpx
import orjson
import pytest

from services.job_generation.store.needs import change_split_rule
from services.task_definition.tasks.policy import commands as rules
from shared.db import Database
from shared.events import (
    TaskCommanded,
    TaskCommandRequested,
    TaskDefined,
    TaskJumboSwitched,
    TaskReady,
    TaskRegistered,
    TaskReleased,
)
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.commanding import announced, command
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import analysis, production
from tests.rows import change, insert


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
    ("used", "told"),
    [
        (
            0,
            "nGBPerJob = 3, from its next jobs on; it decides about 20 of 20 units of input;"
            " jobs that exist keep theirs",
        ),
        (15, "; it decides about 5 of 20 units of input; jobs that exist keep theirs"),
        (20, "; all 20 units of input are in jobs: it decides only about what is tried again"),
    ],
)
async def test_a_rule_that_is_changed_says_what_it_still_reaches(
    database: Database, producer: httpx.AsyncClient, task_id: int, used: int, told: str
) -> None:
    async with database.read() as connection:
        await connection.execute(
            "UPDATE task_datasets SET n_files_used = $2 WHERE task_id = $1 AND type = 'input'", task_id, used
        )
    reply = await command(producer, "change_split_rule", task_id, attribute_name="NG", attribute_value=3)
    assert reply["data"] == 0 and reply["message"].endswith(told)


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


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("NG", "3", 3), ("NG", 3, 3), ("nGBPerJob", "3", 3), ("NG", "None", None), ("NG", "", None)],
)
async def test_the_value_of_a_rule_comes_as_the_clients_of_the_field_send_it(
    database: Database, producer: httpx.AsyncClient, task_id: int, name: str, value: object, rule: int | None
) -> None:
    reply = await command(producer, "change_split_rule", task_id, attribute_name=name, value=value)
    assert reply["data"] == 0, reply
    assert (await task_row(database, task_id))["split_rule"].get("nGBPerJob") == rule


async def test_jumbo_jobs_of_a_live_task_are_switched_on_and_off_by_their_number(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nFilesPerJob=1))
    ranges = {"nEventsPerWorker": 100}  # no queue of the grid runs the event service
    async with database.read() as connection:
        await change(
            connection,
            "UPDATE task_parameters SET task_parameters = task_parameters || $2 WHERE task_id = $1",
            task_id,
            ranges,
        )
    assert (await task_row(database, task_id))["use_jumbo"] is None

    async def after(value: int | None) -> tuple[object, object, list[object]]:
        reply = await command(producer, "change_split_rule", task_id, attribute_name="NJ", value=value)
        assert reply["data"] == 0, reply
        row = await task_row(database, task_id)
        statement = "SELECT body FROM outbox WHERE routing_key = $1 ORDER BY event_id"
        bodies = await rows_of(database, statement, TaskJumboSwitched.routing_key())
        switched = [orjson.loads(one["body"])["enabled"] for one in bodies]
        return row["use_jumbo"], row["split_rule"].get("nJumboJobs"), switched

    assert await after(2) == ("W", 2, [True])
    await put(database, task_id, "running", use_jumbo="R")
    assert await after(3) == ("R", 3, [True]), "jumbo jobs that run go on"
    assert await after(None) == ("D", None, [True, False])
    assert await after(1) == ("W", 1, [True, False, True])
    plain, _ = await define(database, service, producer, production("plain"))
    reply = await command(producer, "change_split_rule", plain, attribute_name="NJ", value=2)
    assert "nJumboJobs = 2: needs nEventsPerWorker" in reply["message"]


async def test_an_incremental_execution_reads_the_datasets_that_it_names_for_a_stream(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(nucleus="ALPHA", dsForIN="mc.evnt"))
    await put(database, task_id, "done")
    reply = await command(producer, "reload_input", task_id, new_parameters={"dsForOTHER": "data.a"})
    assert "dsForOTHER = 'data.a': allowed: dsFor with a stream of the task: IN" in reply["message"]
    assert (await command(producer, "reload_input", task_id, new_parameters={"dsForIN": "data:data.a"}))["data"] == 0
    await deliver(database, service, TaskRegistered(task_id=task_id))
    inputs = await rows_of(
        database,
        "SELECT dataset_name, n_files FROM task_datasets WHERE task_id = $1 AND type = 'input' AND status <> 'removed'",
        task_id,
    )
    assert ("data.a", 7) in [tuple(one) for one in inputs]
    kept = await value_of(database, "SELECT task_parameters FROM task_parameters WHERE task_id = $1", task_id)
    assert (kept["jobParameters"][0]["dataset"], kept["dsForIN"]) == ("data:data.a", "data:data.a")


@pytest.mark.parametrize(
    ("name", "value", "column", "key", "stored"),
    [
        ("ramCount", 3900, "ram_count", "ramCount", 3900),
        ("wallTime", 7200, "walltime", "walltime", 7200),
        ("cpuTime", 12, "cpu_time", "cpuTime", 12),
        ("coreCount", 8, "core_count", "coreCount", 8),
    ],
)
async def test_operators_change_what_the_jobs_of_a_running_task_need(
    database: Database,
    producer: httpx.AsyncClient,
    task_id: int,
    name: str,
    value: int,
    column: str,
    key: str,
    stored: int,
) -> None:
    await put(database, task_id, "running")
    reply = await command(producer, "change_attribute", task_id, attribute_name=name, value=value)
    assert reply["message"] == f"task {task_id}: {name} = {value}, from its next jobs on"
    row = await task_row(database, task_id)
    assert (row[column], row["status"]) == (stored, "running")
    parameters = await value_of(database, "SELECT task_parameters FROM task_parameters WHERE task_id = $1", task_id)
    assert parameters[key] == value, "an incremental execution keeps it"
    assert (await announced(database))[-1] == TaskCommanded.routing_key()


@pytest.mark.parametrize(
    ("name", "column", "unit", "measured", "stated"),
    [
        ("cpuTime", "cpu_time", "cpu_time_unit", "mHS06sPerEvent", "HS06sPerEvent"),
        ("ramCount", "ram_count", "ram_unit", "MB", "MBPerCore"),
        ("wallTime", "walltime", "walltime_unit", "kSI2kseconds", None),
    ],
)
async def test_an_operator_s_value_is_in_the_unit_that_the_task_states_also_after_its_scouts(
    database: Database,
    producer: httpx.AsyncClient,
    task_id: int,
    name: str,
    column: str,
    unit: str,
    measured: str,
    stated: str | None,
) -> None:
    await put(database, task_id, "running", measured_units=["disk_io", column], **{column: 7, unit: measured})
    assert (await command(producer, "change_attribute", task_id, attribute_name=name, value=12))["success"]
    row = await task_row(database, task_id)
    assert (row[column], row[unit], row["measured_units"]) == (12, stated, ["disk_io"])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ioIntensity", 1, "attribute_name = 'ioIntensity': allowed: ramCount, wallTime, cpuTime, coreCount"),
        ("ramCount", -1, "ramCount"),
        ("coreCount", 5000, "coreCount"),
    ],
)
async def test_a_need_that_no_job_may_have_is_refused_and_nothing_changes(
    database: Database, producer: httpx.AsyncClient, task_id: int, name: str, value: int, said: str
) -> None:
    before = await task_row(database, task_id)
    reply = await command(producer, "change_attribute", task_id, attribute_name=name, value=value)
    assert (reply["success"], reply["data"]) == (False, rules.BAD_VALUE) and said in reply["message"], reply
    after = await task_row(database, task_id)
    assert {key: after[key] for key in ("ram_count", "core_count", "status")} == {
        key: before[key] for key in ("ram_count", "core_count", "status")
    }


async def test_users_change_no_needs_of_their_own_live_tasks(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, analysis())
    for verb, details in (
        ("change_attribute", {"attribute_name": "ramCount", "value": 1}),
        ("enable_jumbo_jobs", {"jumbo_jobs_total": 1}),
        ("enable_job_cloning", {}),
    ):
        reply = await user.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})
        assert reply.status_code == 403, (verb, reply.text)


async def test_jumbo_jobs_are_switched_on_and_off_for_a_live_task_of_the_event_service(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    with_ranges = "UPDATE task_parameters SET task_parameters = task_parameters || $1"
    async with database.pool.acquire() as connection:
        await change(connection, with_ranges, {"nEventsPerWorker": 10})
    await put(database, task_id, "scouting")
    reply = await command(producer, "enable_jumbo_jobs", task_id, jumbo_jobs_total=4, jumbo_jobs_per_site=2)
    assert reply["message"] == f"task {task_id}: 4 jumbo jobs, at most 2 at a site, from its next jobs on"
    row = await task_row(database, task_id)
    assert (row["use_jumbo"], row["split_rule"]["nJumboJobs"], row["split_rule"]["maxJumboPerSite"]) == ("W", 4, 2)
    bodies = await rows_of(
        database, "SELECT body FROM outbox WHERE routing_key = 'task.commanded.v1' ORDER BY event_id"
    )
    told = [orjson.loads(one["body"])["command"] for one in bodies]
    assert told == ["avalanche", "enable_jumbo_jobs"], "jumbo jobs do not wait for scouts"
    assert (await command(producer, "enable_jumbo_jobs", task_id, jumbo_jobs_total=0))["success"]
    row = await task_row(database, task_id)
    assert row["use_jumbo"] == "D" and "nJumboJobs" not in row["split_rule"]


async def test_jumbo_jobs_need_the_event_service(producer: httpx.AsyncClient, task_id: int) -> None:
    reply = await command(producer, "enable_jumbo_jobs", task_id, jumbo_jobs_total=4)
    assert (reply["data"], "needs nEventsPerWorker" in reply["message"]) == (rules.BAD_VALUE, True)


async def test_jobs_of_a_live_task_are_cloned_from_now_on_until_that_is_taken_back(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "running")
    body = {"jedi_task_id": task_id, "mode": "storeonce", "multiplicity": 3}  # as the field names the task here
    reply = (await producer.post("/api/v1/task/enable_job_cloning", json=body)).json()
    said = "3 copies of each job at 2 sites, storeonce, from its next jobs on"
    assert reply["message"] == f"task {task_id}: {said}"
    row = await task_row(database, task_id)
    rule = {name: row["split_rule"].get(name) for name in ("useJobCloning", "nEsConsumers", "nSitesPerJob")}
    assert rule == {"useJobCloning": "storeonce", "nEsConsumers": 3, "nSitesPerJob": 2}
    assert row["event_service"] == 3
    assert (await command(producer, "disable_job_cloning", task_id))["success"]
    row = await task_row(database, task_id)
    assert row["event_service"] == 0 and not row["split_rule"].keys() & rule.keys()
    reply = await command(producer, "disable_job_cloning", task_id)
    assert (reply["data"], reply["message"]) == (rules.IRRELEVANT, f"task {task_id} makes no copies of its jobs")
