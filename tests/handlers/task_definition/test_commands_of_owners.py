"""What owners may not do with their own tasks: undo what production decided, leave a throttle, try for ever."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.db import Database
from shared.events import TaskCommandRequested
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, put, task_row, value_of
from tests.handlers.task_definition.test_accounts import post
from tests.handlers.task_definition.world import analysis, production


@pytest.fixture
async def own(database: Database, service: Service, user: httpx.AsyncClient) -> int:
    """An analysis task of alice, running."""
    found, _ = await define(database, service, user, analysis())
    await put(database, found, "running", nucleus="ALPHA")
    return found


async def give(client: httpx.AsyncClient, verb: str, task_id: int, **details: Any) -> dict[str, Any]:
    return await post(client, f"task/{verb}", {"task_id": task_id, **details})


@pytest.mark.parametrize("who", ["producer", "operator"])
async def test_what_production_paused_its_owner_does_not_let_go_on(
    database: Database,
    own: int,
    user: httpx.AsyncClient,
    producer: httpx.AsyncClient,
    operator: httpx.AsyncClient,
    who: str,
) -> None:
    other = producer if who == "producer" else operator
    assert (await give(other, "pause", own))["success"]
    refused = await give(user, "resume", own)
    assert refused["data"] == rules.NOT_PERMITTED
    assert refused["message"].startswith("resume needs the role production: pause by ")
    assert (await give(other, "resume", own))["success"]
    assert (await give(user, "pause", own))["success"] and (await give(user, "resume", own))["success"]
    assert (await task_row(database, own))["status"] == "running"


async def test_what_production_killed_its_owner_revives_by_no_command(
    database: Database, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    assert (await give(producer, "kill", own))["success"]
    await put(database, own, "aborted")
    await end_files(database, own, finished=0, failed=1)
    for verb in ("retry", "reactivate", "reload_input", "recover_lost_files"):
        refused = await give(user, verb, own)
        assert refused["data"] == rules.NOT_PERMITTED and "kill by prodteam" in refused["message"], verb
    assert (await task_row(database, own))["status"] == "aborted"
    assert (await give(producer, "retry", own))["success"]
    await put(database, own, "running")
    assert (await give(user, "kill", own))["success"]
    await put(database, own, "aborted")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(user, "retry", own))["success"], "one's own kill is one's own to undo"


async def test_an_owner_who_pauses_or_kills_takes_no_hold_away(
    own: int, database: Database, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    await give(producer, "pause", own)
    assert (await give(user, "kill", own))["success"]
    await put(database, own, "aborted")
    assert "pause by prodteam" in (await give(user, "retry", own))["message"]


async def test_what_the_watchdog_paused_goes_on_by_production_and_what_it_finished_by_its_owner(
    database: Database, service: Service, own: int, user: httpx.AsyncClient
) -> None:
    ask = {"task_id": own, "requested_by": "watchdog", "reason": "too many jobs fail"}
    await deliver(database, service, TaskCommandRequested(command="pause", **ask))
    assert (await give(user, "resume", own))["data"] == rules.NOT_PERMITTED
    await put(database, own, "running", hold=None)
    await deliver(database, service, TaskCommandRequested(command="finish", **ask))
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(user, "retry", own))["success"]


async def test_a_parent_revives_no_child_that_production_ended(
    database: Database, service: Service, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    child, _ = await define(database, service, user, analysis("user.alice.child"), parent_tid=own)
    await put(database, child, "running")
    await give(producer, "finish", child)
    await put(database, child, "finished")
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(user, "retry", own))["success"]
    assert (await task_row(database, child))["status"] == "finished"
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(producer, "retry", own))["success"]
    assert (await task_row(database, child))["status"] == "rerefine"


async def test_a_parent_revives_no_child_of_somebody_else_without_production(
    database: Database, service: Service, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    child, _ = await define(database, service, user, analysis("user.alice.child"), parent_tid=own)
    await put(database, child, "finished", user_name="bob")
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(user, "retry", own))["success"]
    assert (await task_row(database, child))["status"] == "finished"
    told = "SELECT outcome FROM audit_log WHERE target = $1 AND verb = 'task.incexec'"
    assert await value_of(database, told, f"task:{child}") == (
        f"refused: its parent {own} is retried: it is not of alice"
    )
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    assert (await give(producer, "retry", own))["success"]
    assert (await task_row(database, child))["status"] == "rerefine"


async def test_a_parent_gives_its_children_no_more_attempts_than_their_owner_may(
    database: Database, service: Service, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    await put(database, own, "finished")
    child, _ = await define(database, service, user, analysis("user.alice.child"), parent_tid=own)
    await put(database, child, "running", nucleus="ALPHA")
    assert (await give(user, "increase_attempts", child, increase=38))["success"]
    for who, status in ((user, "finished"), (producer, "rerefine")):
        await put(database, child, "finished")
        await end_files(database, child, finished=0, failed=1)
        await put(database, own, "finished")
        await end_files(database, own, finished=0, failed=1)
        assert (await give(who, "retry", own))["success"]
        assert (await task_row(database, child))["status"] == status
    told = "SELECT outcome FROM audit_log WHERE target = $1 AND verb = 'task.incexec' ORDER BY audit_id LIMIT 1"
    assert "5 more attempts need the role production" in await value_of(database, told, f"task:{child}")


async def test_an_owner_leaves_no_throttle_by_resume_nor_by_pause_and_resume(
    database: Database, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    later = await value_of(database, "SELECT orrery_now() + interval '2 hours'")
    await put(database, own, "throttled", old_status="running", retry_at=later)
    assert (await give(user, "resume", own))["data"] == rules.NOT_PERMITTED
    assert (await give(user, "pause", own))["success"]
    refused = await give(user, "resume", own)
    assert refused["data"] == rules.NOT_PERMITTED and "it is throttled until" in refused["message"]
    assert (await task_row(database, own))["status"] == "paused"
    await put(database, own, "paused", held_until=await value_of(database, "SELECT orrery_now()"))
    assert (await give(user, "resume", own))["success"], "its time is over"
    await put(database, own, "throttled", old_status="running", retry_at=later)
    assert (await give(producer, "resume", own))["success"]


async def test_an_owner_leaves_no_throttle_by_kill_or_finish_and_retry(
    database: Database, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    for verb in ("kill", "finish"):
        later = await value_of(database, "SELECT orrery_now() + interval '2 hours'")
        await put(database, own, "throttled", old_status="running", retry_at=later)
        assert (await give(user, verb, own))["success"]
        await put(database, own, "aborted", retry_at=None)
        await end_files(database, own, finished=0, failed=1)
        refused = await give(user, "retry", own)
        assert refused["data"] == rules.NOT_PERMITTED and "it is throttled until" in refused["message"], verb
        await put(database, own, "aborted", held_until=await value_of(database, "SELECT orrery_now()"))
        assert (await give(user, "retry", own))["success"], "its time is over"
        assert (await task_row(database, own))["hold"] is None


async def test_owners_raise_attempts_up_to_a_limit_and_production_beyond(
    database: Database, own: int, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    most = "SELECT max(max_attempt) FROM task_files f JOIN task_datasets d USING (dataset_id) WHERE d.task_id = $1"
    assert await value_of(database, most, own) == 10
    assert (await give(user, "increase_attempts", own, increase=38))["success"]
    refused = await give(user, "increase_attempts", own, increase=3)
    assert refused["data"] == rules.NOT_PERMITTED and await value_of(database, most, own) == 48
    assert refused["message"] == (
        "3 more attempts need the role production: a unit of its input has 48 already; allowed: at most 50 together"
    )
    await put(database, own, "finished")
    await end_files(database, own, finished=0, failed=1)
    for verb in ("retry", "reactivate", "reload_input"):
        assert "at most 50 together" in (await give(user, verb, own))["message"], verb
    assert (await give(user, "reactivate", own, keep_attempt_nr=True))["success"], "it gives no more attempts"
    assert (await give(producer, "increase_attempts", own, increase=100))["success"]
    assert await value_of(database, most, own) == 148


async def test_a_user_states_no_more_attempts_than_owners_may_give(
    user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    refused = (await user.post("/api/v1/task/submit", json={"task_parameters": analysis(maxAttempt=51)})).json()
    [one] = [one for one in refused["problems"] if one["field"] == "maxAttempt"]
    assert one["allowed"] == "needs the role production; allowed: at most 50"
    assert (await user.post("/api/v1/task/submit", json={"task_parameters": analysis(maxAttempt=50)})).json()["success"]
    assert (await producer.post("/api/v1/task/submit", json={"task_parameters": production(maxAttempt=51)})).json()[
        "success"
    ]
