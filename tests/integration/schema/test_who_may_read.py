"""SQL's `orrery_may_read` is the rule DETAILS, for every caller and every row."""

from __future__ import annotations

import json
from itertools import product

from shared.auth import Authority, Caller
from shared.auth.access import DETAILS, Whose
from shared.auth.caller import Credential
from shared.auth.reach import Reach
from shared.db import Database
from tests import rows

OWNERS, VOS = ("ada", "bob", "", None), ("atlas", "cms", "", None)
GROUPS = ((), ("atlas",), ("cms",), ("atlas/production", "cms"), ("atlas/production",), ("atlas", "cms"))
ROLES = ((), ("user",), ("production",), ("pilot",), ("operator",), ("user", "production"))
MAPPING = {"*/production": ["production"], "*": ["user"]}


def callers() -> list[Caller]:
    """Callers with roles of their own and of groups, each with and without a claimed VO."""
    found = []
    for roles, groups, is_of_every_vo in product(ROLES, GROUPS, (True, False)):
        holder = Credential("ada", frozenset(roles), frozenset(groups), MAPPING, is_of_every_vo=is_of_every_vo)
        claims = [None, *{group.partition("/")[0] for group in groups}]
        found += [holder.acting(origin) for origin in claims]
    return found


async def test_the_function_lets_through_what_the_rule_does(database: Database) -> None:
    asked = "SELECT coalesce(orrery_may_read($1, $2, $3, $4, $5), false)"
    async with database.read() as connection:
        for caller in callers():
            reach = Reach.of(caller)
            for owner, vo in product(OWNERS, VOS):
                told = await connection.fetchval(asked, owner, vo, *reach)
                assert told is DETAILS.allows(caller, Whose.of(owner, vo)), (caller, owner, vo)
                if reach.owner is not None and told:
                    assert owner == reach.owner


async def test_lists_by_what_is_hidden_go_by_the_readers_own_tasks(database: Database, authority: Authority) -> None:
    from services.job_dispatch.store.job_reads import SQL as JOBS
    from services.task_definition.tasks.store.reads import SQL as TASKS

    async with database.read() as connection:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO tasks (task_id, task_name, user_name, status, vo) SELECT n, 'task.' || n, 'user' || n % 500,"
            " 'done', CASE WHEN n > 20 THEN 'atlas' ELSE 'cms' END FROM generate_series(1, 20000) n"
        )
        first = await rows.job(connection, 1)
        await connection.execute(
            "INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('job_id', $1 + n, 'task_id', n))).*"
            " FROM jobs j, generate_series(1, 20000) n WHERE j.job_id = $1",
            first,
        )
        await connection.execute("ANALYZE tasks, jobs")
        await connection.execute("SET plan_cache_mode = force_custom_plan")
        reach = {"reader": "user7", "own_vos": ["atlas"], "produced_vos": [], "told_only": True, "owner": "user7"}
        of_vo = {"vo": "cms", "at_most": 51, "skip": 0, "told_only": False, "owner": None}
        for statements, name, given, index in (
            (TASKS, "list_tasks", {"name": "task%", "at_most": 100, "skip": 0}, "tasks_user"),
            (TASKS, "list_tasks", of_vo, "tasks_vo_newest"),
            (JOBS, "list_jobs", {"queue": "Q1", "no_queue": "NONE", "size": 100}, "jobs_task"),
        ):
            values = [(reach | given).get(one) for one in statements.parameters(name)]
            plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statements.text(name)}", *values)
            assert index in str(plan), (name, plan)
            nodes = _nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
            whole = [one["Relation Name"] for one in nodes if one["Node Type"] == "Seq Scan"]
            assert not {"tasks", "jobs"} & set(whole), (name, whole)
        await connection.execute("RESET plan_cache_mode")
        await connection.execute("RESET session_replication_role")


def _nodes(node: dict) -> list[dict]:  # type: ignore[type-arg]
    return [node, *(below for one in node.get("Plans", []) for below in _nodes(one))]
