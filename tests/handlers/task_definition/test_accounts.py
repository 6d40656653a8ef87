"""Groups, users and work queues over HTTP: who may, what is refused, what is recorded, and that tasks follow."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.desk.policy.work_queues import WorkQueue
from services.task_definition.desk.store.work_queues import matching_tasks
from shared.auth import Authority
from shared.db import Database
from shared.events import TaskCommanded, TaskMeasured
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row
from tests.handlers.task_definition.test_tasks_of_other_vos import client_of
from tests.handlers.task_definition.world import analysis, production
from tests.rows import insert

QUEUES: list[dict[str, Any]] = [
    {"queue_id": 1, "name": "simulation", "label": "managed", "vo": "demo", "order": 10,
     "criteria": "processingType IN (:p1,:p2)", "variables": "p1:evgen,p2:simul"},
    {"queue_id": 2, "name": "rest", "label": "managed", "vo": "demo", "share": 40, "stretchable": True},
]  # fmt: skip


async def post(client: httpx.AsyncClient, path: str, body: Any) -> dict[str, Any]:
    reply = await client.post(f"/api/v1/{path}", json=body)
    return {"status": reply.status_code, **reply.json()}


async def get(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    return (await client.get(f"/api/v1/{path}")).json()["data"]


async def audited(database: Database) -> list[str]:
    return [row["verb"] for row in await rows_of(database, "SELECT verb FROM audit_log ORDER BY audit_id")]


async def test_groups_are_made_changed_listed_and_forgotten(
    database: Database, operator: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    assert (await post(operator, "group/set", {"name": "higgs", "vo": "demo", "JobShare": 300}))["success"]
    assert (await post(operator, "group/set", {"name": "higgs", "vo": "demo", "JOB_SHARING": True}))["success"]
    await post(operator, "user/set", {"user_name": "alice", "groups": ["higgs"]})
    assert await get(user, "group/list") == [
        {
            "name": "higgs",
            "vo": "demo",
            "job_share": 300.0,
            "job_sharing": True,
            "allows_background": False,
            "n_users": 1,
        }
    ]
    twice = {"groups": [{"name": "a", "vo": "demo"}, {"name": "a", "vo": "demo"}]}
    assert not (await post(operator, "group/load", twice))["success"]
    assert (await post(operator, "group/load", {"groups": [{"name": "top", "vo": "demo"}]}))["success"]
    assert [one["name"] for one in await get(user, "group/list")] == ["top"]
    assert (await post(operator, "group/remove", {"name": "top", "vo": "demo"}))["success"]
    assert not (await post(operator, "group/remove", {"name": "top", "vo": "demo"}))["success"]
    assert await audited(database) == ["group.set", "group.set", "user.set", "group.load", "group.remove"]


async def test_users_see_themselves_and_production_sees_all(
    operator: httpx.AsyncClient, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    listed = [{"user_name": "alice", "GRIDPREF": "sk", "quota": 1.5}, {"user_name": "bob", "cap_running_jobs": 5}]
    assert (await post(operator, "user/load", {"users": listed}))["success"]
    [own] = await get(user, "user/list")
    assert (own["user_name"], own["grid_pref"], own["quota"]) == ("alice", "ks", 1.5)
    assert [text.split(":")[0] for text in own["may"]] == ["may download key pairs", "super user"]
    assert [one["user_name"] for one in await get(producer, "user/list")] == ["alice", "bob"]
    assert (await post(operator, "user/set", {"user_name": "bob", "grid_pref": "g"}))["success"]
    [_, bob] = await get(producer, "user/list")
    assert (bob["grid_pref"], bob["cap_running_jobs"]) == ("g", 5), "what is not given stays"
    assert (await post(operator, "user/remove", {"user_name": "bob"}))["success"]
    assert not (await post(operator, "user/remove", {"user_name": "bob"}))["success"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("user/set", {"user_name": "a", "grid_pref": "kx"}, "grid_pref"),
        ("user/set", {"user_name": "a", "cap_running_jobs": 0}, "cap_running_jobs"),
        ("user/set", {"user_name": "a", "nonsense": 1}, "nonsense"),
        ("group/set", {"name": "a", "vo": "demo", "job_share": -1}, "job_share"),
        ("work_queue/load", {"work_queues": [{**QUEUES[0], "criteria": "status = 'x'"}]}, "work_queues.simulation"),
        ("work_queue/load", {"work_queues": [{**QUEUES[0], "status": "broken"}]}, "status"),
        ("work_queue/load", {"work_queues": [{**QUEUES[0], "variables": "p1"}]}, "work_queues.simulation.variables"),
        ("user/set", {"user_name": "a", "groups": ["nobody"]}, "groups"),
        ("user/load", {"users": [{"user_name": "a", "groups": ["nobody"]}]}, "users.a.groups"),
    ],
)
async def test_bad_input_names_its_field(operator: httpx.AsyncClient, path: str, body: Any, field: str) -> None:
    reply = await post(operator, path, body)
    assert not reply["success"] and any(field in one["field"] or field in one["message"] for one in reply["problems"])


@pytest.mark.parametrize(
    "path",
    ["group/set", "group/load", "user/set", "user/load", "work_queue/set", "work_queue/load", "work_queue/remove"],
)
async def test_operators_alone_write(producer: httpx.AsyncClient, path: str) -> None:
    assert (await post(producer, path, {}))["status"] == 403


async def test_criteria_with_a_working_group_say_who_may_use_a_queue(
    service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    criteria = {"criteria": "workingGroup = :g", "variables": "g:demo/gpu"}
    queue = {"queue_id": 7, "name": "gpu", "label": "user", "vo": "demo", "order": 1, **criteria}
    assert (await post(operator, "work_queue/set", {"work_queue": queue}))["success"]
    wanted = {"workQueueName": "gpu", "workingGroup": "demo/gpu"}
    async with (
        client_of(service, authority, "alice", "user", "demo", "demo/gpu") as member,
        client_of(service, authority, "alice", "user", "demo") as other,
    ):
        for client, said, field in (
            (member, wanted, None),
            (member, {"workQueueName": "gpu"}, "workQueueName"),
            (other, {"workQueueName": "gpu"}, "workQueueName"),
            (other, wanted, "workingGroup"),
        ):
            reply = await post(client, "task/submit", {"task_parameters": analysis(**said), "dry_run": True})
            assert {one["field"] for one in reply.get("problems", [])} == ({field} if field else set()), reply


async def test_criteria_with_a_user_name_say_who_may_use_a_queue_and_are_told_to_members_of_its_vo(
    service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    criteria = {"criteria": "userName IN (:a, :b)", "variables": "a:alice,b:bob"}
    queue = {"queue_id": 7, "name": "two", "label": "user", "vo": "demo", "order": 1, **criteria}
    assert (await post(operator, "work_queue/set", {"work_queue": queue}))["success"]
    async with (
        client_of(service, authority, "alice", "user", "demo") as alice,
        client_of(service, authority, "eve", "user", "demo") as eve,
        client_of(service, authority, "carl", "user", "cms") as carl,
    ):
        for client, name, problems in ((alice, "alice", []), (eve, "eve", ["workQueueName"])):
            task = analysis(f"user.{name}.two", workQueueName="two", userName="alice")
            reply = await post(client, "task/submit", {"task_parameters": task, "dry_run": True})
            assert [one["field"] for one in reply.get("problems", [])] == problems, reply
        for client, told in ((alice, criteria), (carl, {"criteria": None, "variables": None})):
            [row] = await get(client, "work_queue/list")
            assert {name: row[name] for name in criteria} == told and row["name"] == "two"


async def test_a_task_is_mapped_when_it_comes_and_an_unknown_queue_is_refused(
    database: Database, service: Service, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    assert (await post(operator, "work_queue/load", {"work_queues": QUEUES}))["success"]
    first, _ = await define(database, service, producer, production("one", processingType="simul"))
    second, _ = await define(database, service, producer, production("two", processingType="reprocessing"))
    assert (await task_row(database, first))["work_queue_id"] == 1
    assert (await task_row(database, second))["work_queue_id"] == 2
    body = {"task_parameters": production("three", workQueueName="nowhere")}
    reply = await post(producer, "task/submit", body)
    assert not reply["success"] and "workQueueName" in str(reply["problems"]) and "simulation" in str(reply["problems"])
    assert [(one["name"], one["n_tasks"]) for one in await get(producer, "work_queue/list")] == [
        ("simulation", 1),
        ("rest", 1),
    ]
    left_out = await post(operator, "work_queue/load", {"work_queues": [QUEUES[1]]})
    assert [one["field"] for one in left_out["problems"]] == ["work_queues.simulation"]
    assert "1 live tasks are in it" in str(left_out["problems"])
    await put(database, first, "done")
    assert (await post(operator, "work_queue/load", {"work_queues": [QUEUES[1]]}))["success"]
    assert [(one["name"], one["status"]) for one in await get(producer, "work_queue/list")] == [
        ("simulation", "inactive"),
        ("rest", "active"),
    ]


async def test_a_work_queue_is_removed_unless_live_tasks_have_it_and_stays_inactive_where_ended_ones_do(
    database: Database, service: Service, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    assert (await post(operator, "work_queue/load", {"work_queues": QUEUES}))["success"]
    task_id, _ = await define(database, service, producer, production("one", processingType="simul"))
    assert (await post(operator, "work_queue/remove", {"queue_id": 2}))["success"]
    refused = await post(operator, "work_queue/remove", {"queue_id": 1})
    assert not refused["success"] and "live tasks" in str(refused["problems"])
    await put(database, task_id, "done")
    assert (await post(operator, "work_queue/remove", {"queue_id": 1}))["success"]
    listed = [(one["name"], one["status"]) for one in await get(producer, "work_queue/list")]
    assert listed == [("simulation", "inactive")]
    assert not (await post(operator, "work_queue/remove", {"queue_id": 2}))["success"]
    assert (await audited(database))[-2:] == ["work_queue.remove 2", "work_queue.remove 1"]


async def test_a_refusal_of_criteria_is_in_words_that_somebody_typed(operator: httpx.AsyncClient) -> None:
    for criteria in ("processingType =", "processingType = 'a' AND", "(coreCount = 1", "site IN ()"):
        reply = await post(operator, "work_queue/set", {"work_queue": {**QUEUES[1], "criteria": criteria}})
        told = str(reply["problems"])
        assert not reply["success"] and "allowed: " in told, told
        assert not [word for word in ("sqlglot", "Expecting", "keyword", "token", "<class") if word in told], told


async def test_lists_show_groups_and_users_of_the_callers_vos(
    database: Database, service: Service, authority: Authority, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    for vo in ("demo", "other"):
        assert (await post(operator, "group/set", {"name": f"of-{vo}", "vo": vo}))["success"]
    await define(database, service, producer, production("one"))
    [owner] = [row["user_name"] for row in await rows_of(database, "SELECT user_name FROM tasks")]
    await define(database, service, producer, production("two", userName="stranger"))
    for name in (owner, "stranger"):
        assert (await post(operator, "user/set", {"user_name": name}))["success"]
    async with client_of(service, authority, "prodteam", "production", "demo") as of_demo:
        assert [one["name"] for one in await get(of_demo, "group/list")] == ["of-demo"]
        assert [one["user_name"] for one in await get(of_demo, "user/list")] == [owner]
    async with client_of(service, authority, "chief", "production", "other") as of_other:
        assert await get(of_other, "user/list") == []
    assert [one["user_name"] for one in await get(operator, "user/list")] == sorted([owner, "stranger"])


async def test_python_and_the_statement_agree_on_which_tasks_match(
    database: Database, service: Service, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    """Of the queue that takes a task, and of every other, the statement counts what Python says."""
    await define(database, service, producer, production("one", processingType="simul", coreCount=8))
    for criteria, expected in (
        ("processingType = 'simul'", 1),
        ("processingType = 'simul' AND coreCount < 8", 0),
        ("campaign IS NULL OR campaign LIKE '%'", 1),
        ("NOT site = 'X'", 0),
        ("splitRule LIKE '%' AND eventService = 0", 1),
        ("workingGroup IN ('a', 'b') OR coreCount BETWEEN 8 AND 9", 1),
    ):
        async with database.read() as connection:
            queue = WorkQueue(1, "q", "managed", "demo", criteria=criteria)
            assert await matching_tasks(connection, queue) == expected, criteria
    changed = {**QUEUES[0], "criteria": "coreCount = 8", "variables": None}
    reply = await post(operator, "work_queue/set", {"work_queue": changed, "dry_run": True})
    assert reply["data"] == {"matching_tasks": {"simulation": 1}, "without_effect": []}
    assert await get(producer, "work_queue/list") == []


@pytest.mark.parametrize(("letters", "expected"), [("", 500), ("k", 500), ("s", 1500), ("g", 500)])
async def test_analysis_of_super_users_has_priority_1500(
    database: Database,
    service: Service,
    operator: httpx.AsyncClient,
    user: httpx.AsyncClient,
    letters: str,
    expected: int,
) -> None:
    assert (await post(operator, "user/set", {"user_name": "alice", "grid_pref": letters}))["success"]
    task_id, _ = await define(database, service, user, analysis(taskPriority=500))
    row = await task_row(database, task_id)
    assert (row["current_priority"], row["task_priority"]) == (expected, expected)


@pytest.mark.parametrize(("letters", "expected"), [("", 500), ("g", 1500), ("s", 1500)])
async def test_group_analysis_of_super_groups_has_priority_1500_and_production_has_its_own(
    database: Database,
    service: Service,
    operator: httpx.AsyncClient,
    producer: httpx.AsyncClient,
    letters: str,
    expected: int,
) -> None:
    assert (await post(operator, "user/set", {"user_name": "alice", "grid_pref": letters}))["success"]
    of_group = analysis("group.higgs.one", userName="alice", workingGroup="higgs", taskPriority=500)
    task_id, _ = await define(database, service, producer, of_group)
    assert (await task_row(database, task_id))["current_priority"] == expected
    task_id, _ = await define(database, service, producer, production("of.alice", userName="alice"))
    assert (await task_row(database, task_id))["current_priority"] == 500


async def test_class_share_and_work_queue_are_found_again_when_a_task_was_measured_or_moved(
    database: Database, service: Service, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    async with database.read() as connection:
        for place, (name, expression) in enumerate({"Small": "MCORE$", "Large": ".*HIMEM"}.items()):
            await connection.execute(
                "INSERT INTO shares (gshare, value, position, resource_type) VALUES ($1, 50, $2, $3)",
                name,
                place,
                expression,
            )
    at_beta = {**QUEUES[1], "criteria": "site = 'BETA'", "variables": None, "order": 1}
    assert (await post(operator, "work_queue/load", {"work_queues": [at_beta]}))["success"]
    task_id, _ = await define(database, service, producer, production("one"))
    row = await task_row(database, task_id)
    assert (row["resource_type"], row["gshare"], row["work_queue_id"]) == ("MCORE", "Small", None)
    await put(database, task_id, "running", ram_count=3000)
    emitted = await deliver(database, service, TaskMeasured(task_id=task_id))
    assert emitted == (TaskCommanded(task_id=task_id, command="change_share", status="running"),)
    row = await task_row(database, task_id)
    assert (row["resource_type"], row["gshare"]) == ("MCORE_HIMEM", "Large")
    assert await deliver(database, service, TaskMeasured(task_id=task_id)) == ()
    assert (await post(producer, "task/reassign", {"task_id": task_id, "site": "BETA"}))["success"]
    assert (await task_row(database, task_id))["work_queue_id"] == 2


async def test_class_share_and_work_queue_are_found_again_with_every_command_that_changes_attributes(
    database: Database, service: Service, operator: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    async with database.read() as connection:
        for place, (name, expression) in enumerate({"Small": "MCORE$", "Large": ".*HIMEM"}.items()):
            row = {"gshare": name, "value": 50, "position": place, "resource_type": expression}
            await insert(connection, "shares", row)
    by_site = {**QUEUES[1], "queue_id": 3, "name": "beta", "criteria": "site = 'BETA'", "order": 1}
    by_rule = {**QUEUES[1], "queue_id": 4, "name": "whole", "criteria": "splitRule LIKE '%nMaxFiles%'", "order": 2}
    assert (await post(operator, "work_queue/load", {"work_queues": [by_site, by_rule]}))["success"]
    task_id, _ = await define(database, service, producer, production("one"))

    async def classes() -> tuple[Any, ...]:
        row = await task_row(database, task_id)
        return row["resource_type"], row["gshare"], row["work_queue_id"]

    await put(database, task_id, "running", nucleus="ALPHA", ram_count=3000, measured_units=["ram_count"])
    await deliver(database, service, TaskMeasured(task_id=task_id))
    assert await classes() == ("MCORE_HIMEM", "Large", None)
    rule = {"attribute_name": "MF", "attribute_value": 9}
    assert (await post(producer, "task/change_split_rule", {"task_id": task_id, **rule}))["success"]
    assert await classes() == ("MCORE_HIMEM", "Large", 4)
    await end_files(database, task_id, finished=1, failed=2)
    await put(database, task_id, "finished")
    assert (await post(producer, "task/reload_input", {"task_id": task_id}))["success"]
    assert await classes() == ("MCORE", "Small", 4), "the memory is what the parameters say"
    await put(database, task_id, "finished")
    at_beta = {"task_id": task_id, "new_parameters": {"site": "BETA"}}
    assert (await post(producer, "task/retry", at_beta))["success"]
    assert await classes() == ("MCORE", "Small", 3)
