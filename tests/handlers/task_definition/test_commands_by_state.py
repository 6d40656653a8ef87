"""Every command in every state of a task: the transition, or the refusal that names the state and what is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.command_table import COMMANDS
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from shared.states.task import MEANINGS
from tests.handlers.events import started
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, task_row
from tests.handlers.task_definition.world import analysis, production
from tests.rows import insert

#: states in which a command of the specification is refused by name; it has no arrow from those that only pass
REFUSED = {
    "kill": "finished done prepared broken aborted toabort aborting failed",
    "finish": "finished done prepared broken aborted toabort aborting failed",
    "pause": "finished failed done aborted broken paused",
}
PASSING = "aborting toabort finishing passed tobroken toretry toincexec toreassign reassigning"
_LIVE = "ready scouting scouted running pending throttled paused"
#: states in which the others are allowed
ALLOWED = {
    "retry": "finished failed exhausted aborted",
    "reload_input": "finished failed aborted done exhausted pending",
    "reassign": "defined ready running scouting scouted pending assigning exhausted",
    "resume": "paused throttled staging",
    "avalanche": "scouting",
    "release": "scouting pending running ready assigning defined",
    "reactivate": "finished failed exhausted aborted pending",
    "increase_attempts": _LIVE,
    "change_split_rule": f"{_LIVE} registered defined assigning",
    "recover_lost_files": f"{_LIVE} finished failed aborted exhausted done",
    **dict.fromkeys(
        ("change_attribute", "enable_jumbo_jobs", "enable_job_cloning"),
        f"{_LIVE} registered defined assigning exhausted",
    ),
    "disable_job_cloning": "",
}
#: commands that say something of a task besides; refused where it has ended, or is on its way to it
CHANGES = {
    "change_priority": {"priority": 700},
    "change_share": {"share": "Other"},
}
BODIES = {
    **CHANGES,
    "change_split_rule": {"attribute_name": "NG", "attribute_value": 3},
    "change_attribute": {"attribute_name": "ramCount", "value": 3000},
    "enable_jumbo_jobs": {"jumbo_jobs_total": 0},
}
#: where a task is after the command, from a state whose former state is running
AFTER = {
    "kill": {"": "aborting"},
    "finish": {"": "finishing"},
    "pause": {"": "paused"},
    "retry": {"": "ready", "exhausted": "running"},
    "reload_input": {"": "rerefine", "pending": "pending"},
    "reassign": {"": "assigning", "defined": "defined"},
    "resume": {"": "running", "staging": "staged"},
    "avalanche": {"": "scouting"},
    "release": {},
    "reactivate": {"": "ready", "exhausted": "running", "pending": "pending"},
    "increase_attempts": {},
    "change_split_rule": {},
    "recover_lost_files": {},
    "change_priority": {},
    "change_share": {},
    "change_attribute": {},
    "enable_jumbo_jobs": {},
    "enable_job_cloning": {},
    "disable_job_cloning": {},
}


def expected(command: str, status: str) -> str | None:
    """The state after the command; None where it is refused."""
    if command in CHANGES:
        allowed = status not in REFUSED["kill"].split()
    elif command in REFUSED:
        allowed = status not in REFUSED[command].split() and (
            status not in PASSING.split() or (command == "kill" and status not in ("passed", "tobroken"))
        )
    else:
        allowed = status in ALLOWED[command].split()
    return AFTER[command].get(status, AFTER[command].get("", status)) if allowed else None


#: what takes copies back needs copies: test_jobs_of_a_live_task_are_cloned_from_now_on_until_that_is_taken_back
@pytest.mark.parametrize("command", [one for one in AFTER if one != "disable_job_cloning"])
async def test_a_command_is_carried_out_or_refused_in_every_state(
    database: Database, service: Service, producer: httpx.AsyncClient, command: str
) -> None:
    async with database.pool.acquire() as connection:
        for position, share in enumerate(("MC", "Other")):
            await insert(connection, "shares", {"gshare": share, "value": 50, "position": position})
    task_id, _ = await define(database, service, producer, production())
    await end_files(database, task_id, finished=2, failed=3)
    for status in MEANINGS:
        await put(database, task_id, status, old_status="running", nucleus="ALPHA", walltime_unit="kSPerMB")
        before = await task_row(database, task_id)
        body = {"task_id": task_id, **BODIES.get(command, {})}
        reply = (await producer.post(f"/api/v1/task/{command}", json=body)).json()
        after = await task_row(database, task_id)
        wanted = expected(command, status)
        if wanted is None:
            assert (reply["success"], reply["data"]) == (False, rules.IRRELEVANT), (status, reply)
            assert f"for a task that is {status}; allowed: " in reply["message"]
            assert dict(after) == dict(before), f"a refused {command} changed a task that is {status}"
        else:
            assert (reply["success"], reply["data"]) == (True, 0), (status, reply)
            assert after["status"] == wanted, status
        await end_files(database, task_id, finished=0, failed=3)


async def test_every_command_says_what_is_allowed_and_has_a_path_and_a_verb() -> None:
    assert len({one.api_path for one in COMMANDS}) == len({one.cli_verb for one in COMMANDS}) == len(COMMANDS)
    assert {one.api_path for one in COMMANDS} == AFTER.keys(), "every command has its row of states above"
    assert all(one.states and one.does and one.leads_to for one in COMMANDS)
    assert not any("broken" in one.states for one in COMMANDS if one.name not in ("change_priority", "change_share"))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("kill", {"resaon": "typing"}, "resaon"),
        ("retry", {"new_parameters": [1]}, "new_parameters"),
        ("retry", {"discard_events": "perhaps"}, "discard_events"),
        ("reassign", {"mode": "gently"}, "mode"),
        ("reassign", {"mode": "hard", "soft": True}, "soft"),
        ("change_priority", {}, "priority"),
        ("reload_input", {"new_parameters": {"nEventsPerJob": 5}}, "nEventsPerJob"),
    ],
)
async def test_what_a_command_does_not_take_is_refused_by_name_and_changes_nothing(
    database: Database, service: Service, producer: httpx.AsyncClient, path: str, body: dict[str, Any], field: str
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "pending" if path == "reload_input" else "exhausted", old_status="ready")
    before = await task_row(database, task_id)
    reply = (await producer.post(f"/api/v1/task/{path}", json={"task_id": task_id, **body})).json()
    assert not reply["success"] and field in reply["message"], reply
    assert field in [one["field"].split(".")[0] for one in reply["problems"]]
    assert dict(await task_row(database, task_id)) == dict(before)


@pytest.mark.parametrize(
    ("make", "status", "path", "body"),
    [
        (production, "exhausted", "retry", {}),
        (analysis, "finished", "retry", {"ignore_hard_exhausted": True}),
        (analysis, "running", "reassign", {}),
        (analysis, "scouting", "avalanche", {}),
        (analysis, "running", "change_share", {"share": "User"}),
    ],
)
async def test_what_needs_production_is_refused_to_the_owner_of_the_task(
    database: Database,
    service: Service,
    producer: httpx.AsyncClient,
    user: httpx.AsyncClient,
    make: Any,
    status: str,
    path: str,
    body: dict[str, Any],
) -> None:
    task_id, _ = await define(database, service, producer, make("user.alice-demo.work", userName="alice"))
    await put(database, task_id, status)
    answer = await user.post(f"/api/v1/task/{path}", json={"task_id": task_id, **body})
    assert answer.status_code == 403 or answer.json()["data"] == rules.NOT_PERMITTED
    assert (await task_row(database, task_id))["status"] == status


async def outcomes(clients: Sequence[httpx.AsyncClient], path: str, body: dict[str, Any]) -> list[bool]:
    calls = [client.post(f"/api/v1/task/{path}", json=body) for client in clients for _ in range(4)]
    return [answer.json()["success"] for answer in await asyncio.gather(*calls)]


@pytest.mark.parametrize(
    ("path", "status", "after"),
    [("kill", "running", "aborting"), ("finish", "running", "finishing"), ("retry", "finished", "ready"),
     ("reload_input", "finished", "rerefine"), ("pause", "running", "paused"), ("resume", "paused", "running")],
)  # fmt: skip
async def test_the_same_command_given_at_once_to_two_replicas_acts_once(
    database: Database,
    service: Service,
    context: Context,
    authority: Authority,
    producer: httpx.AsyncClient,
    path: str,
    status: str,
    after: str,
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await end_files(database, task_id, finished=17, failed=3)
    await put(database, task_id, status, old_status="running", nucleus="ALPHA")
    replica = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(replica, authority, "prodteam", "production") as other:
        done = await outcomes([producer, other], path, {"task_id": task_id})
    assert sum(done) == 1
    assert (await task_row(database, task_id))["status"] == after
    told = await rows_of(database, "SELECT FROM outbox WHERE routing_key = 'task.commanded.v1'")
    assert len(told) == 1
    if path == "retry":
        attempts = await rows_of(database, "SELECT DISTINCT max_attempt FROM task_files WHERE status = 'ready'")
        assert [row["max_attempt"] for row in attempts] == [8], "more attempts were given once"
