"""The gate of a share and resource type: its number and its order hold for two generators at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.job_generation.app import build
from services.job_generation.throttle.gate_order import Cycle, CycleRule, WaitingTask, in_turn, served
from services.job_generation.throttle.store import gates
from services.job_generation.throttle.throttle import ThrottleScope
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskReady
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.events import deliver, started
from tests.handlers.job_generation.story import Story, chunks_in
from tests.handlers.job_generation.test_generating import look_for_shares_with_room

LIMIT, QUEUED = 20, 18
#: jobs that are let through from 18 queued ones on: while no more than the limit are queued
ROOM = LIMIT + 1 - QUEUED
RULE = CycleRule(n_tasks=2, super_high_percent=50.0)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_shares = count(1)


async def with_parameters(context: Context, databases: Databases) -> Story:
    """A story with a limit of queued jobs and short cycles."""
    settings_of_gates = (
        ("prod_job_throttler", "NQUEUELIMIT", LIMIT),
        ("anal_job_throttler", "NQUEUELIMIT", LIMIT),
        ("jobgen", "NTASKS", RULE.n_tasks),
        ("dbproxy", "SUPER_HIGH_PRIO_TASK_RATIO", int(RULE.super_high_percent)),
    )
    async with context.database.read() as connection:
        for component, key, value in settings_of_gates:
            await connection.execute(
                "INSERT INTO parameters (app, component, key, value, type) VALUES ('jedi', $1, $2, $3, 'int')",
                component,
                key,
                str(value),
            )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    return await Story.begin(context, databases)


async def queued(story: Story, gshare: str, n_jobs: int) -> None:
    """So many jobs of the share wait at queues, and generators count them anew."""
    await story.fetch(
        "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', $1, 'u', 'activated', $2, $2)"
        " ON CONFLICT (queue, resource_type, gshare, user_name, status, vo) DO UPDATE SET n_jobs = excluded.n_jobs",
        gshare,
        n_jobs,
    )
    await story.fetch("UPDATE generation_gates SET counted_at = NULL WHERE gshare = $1", gshare)


async def tasks_of_users(story: Story, gshare: str, asked: Sequence[tuple[int, str]]) -> list[int]:
    """Tasks of one job each that the gate holds; the first waits longest."""
    await queued(story, gshare, LIMIT + 5)
    tasks = [
        await story.task(n_files=1, gshare=gshare, current_priority=priority, user_name=user, prod_source_label="user")
        for priority, user in asked
    ]
    for task_id in tasks:
        assert await story.ready(task_id) == []
    await queued(story, gshare, QUEUED)
    return tasks


async def served_in_order(story: Story, gshare: str) -> list[int]:
    """Tasks with a chunk, in the order in which the gate let them through."""
    rows = await story.fetch(
        "SELECT c.task_id FROM chunks c JOIN tasks t USING (task_id) WHERE t.gshare = $1 ORDER BY c.chunk_id", gshare
    )
    return [row["task_id"] for row in rows]


def expected_order(tasks: Sequence[int], asked: Sequence[tuple[int, str]]) -> list[int]:
    """As one generator serves them, one after the other."""
    left = [
        WaitingTask(task_id, priority, user, BEGIN + timedelta(seconds=place))
        for place, (task_id, (priority, user)) in enumerate(zip(tasks, asked, strict=True))
    ]
    order, cycle = [], Cycle()
    while left:
        first = in_turn(left, cycle, RULE)[0]
        order.append(first.task_id)
        left.remove(first)
        cycle = served(cycle, first, RULE)
    return order


ASKED = st.lists(
    st.tuples(st.sampled_from([100, 500, 1500, 1600]), st.sampled_from(["alice", "bob"])), min_size=1, max_size=6
)


@settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip
@given(asked=ASKED, seed=st.integers(0, 2**16))
async def test_number_and_order_of_a_gate_hold_for_two_generators_at_once(
    context: Context, databases: Databases, asked: list[tuple[int, str]], seed: int
) -> None:
    gshare = f"Share {next(_shares)}"
    story = await (with_parameters(context, databases) if gshare == "Share 1" else Story.begin(context, databases))
    generators = [await started(build(context)) for _ in range(2)]
    tasks = await tasks_of_users(story, gshare, asked)
    wanted = expected_order(tasks, asked)[:ROOM]
    done: list[int] = []
    arrivals = random.Random(seed)
    for _ in range(len(tasks)):
        order = arrivals.sample(tasks, len(tasks))
        await asyncio.gather(
            *(
                deliver(context.database, generators[place % 2], TaskReady(task_id=task_id))
                for place, task_id in enumerate(order)
            )
        )
        done = await served_in_order(story, gshare)
        assert done == wanted[: len(done)]
        if len(done) == len(wanted):
            break
    assert done == wanted, "whoever is first in the gate's order goes on in each round, so nobody waits for ever"


async def test_who_comes_before_its_turn_is_told_who_goes_first(context: Context, databases: Databases) -> None:
    story = await with_parameters(context, databases)
    low, high = await tasks_of_users(story, "MC", [(100, "alice"), (500, "bob")])
    assert await story.ready(low) == []
    [said] = await story.fetch("SELECT reason, numbers FROM generation_decisions WHERE task_id = $1", low)
    assert said["reason"] == f"1 tasks are served before, the first is {high} of priority 500"
    assert said["numbers"]["tasks_ahead"] == 1
    assert len(await story.ready(high)) == 1 and len(await story.ready(low)) == 1


async def test_what_one_generator_offered_is_counted_by_the_other_at_once(
    context: Context, databases: Databases
) -> None:
    story = await with_parameters(context, databases)
    other = await started(build(context))
    first, second, third = [
        await story.task(n_files=11, gshare="MC", current_priority=priority) for priority in (500, 500, 499)
    ]
    assert len(await story.ready(first)) == 1
    assert len(chunks_in(await deliver(context.database, other, TaskReady(task_id=second)))) == 1
    assert await story.ready(third) == []
    numbers = await story.value("SELECT numbers FROM generation_decisions WHERE task_id = $1", third)
    assert numbers["offered"] == 22


async def test_a_task_that_cannot_go_on_holds_nobody_back(context: Context, databases: Databases) -> None:
    story = await with_parameters(context, databases)
    low, high = await tasks_of_users(story, "MC", [(100, "alice"), (500, "bob")])
    await story.fetch("UPDATE waits SET not_before = orrery_now() + interval '1 hour' WHERE task_id = $1", high)
    assert len(await story.ready(low)) == 1


async def test_tasks_are_woken_in_the_order_of_their_gate(context: Context, databases: Databases) -> None:
    story = await with_parameters(context, databases)
    tasks = await tasks_of_users(story, "MC", [(500, "alice"), (500, "alice"), (500, "bob"), (1500, "bob")])
    [(woken, _)] = await look_for_shares_with_room(story)
    assert woken == (tasks[3], tasks[0], tasks[2], tasks[1])


async def test_a_share_that_runs_too_much_makes_fewer_jobs_at_a_time(story: Story) -> None:
    await story.fetch("INSERT INTO shares (gshare, value) VALUES ('A', 60), ('B', 40) RETURNING 1")
    for gshare, status, n_jobs in (("A", "running", 90), ("B", "running", 10)):
        await story.fetch(
            "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', $1, 'u', $2, $3, $3)", gshare, status, n_jobs
        )
    for key in ("NQUEUECAP_A", "NQUEUECAP_B"):
        await story.fetch(
            "INSERT INTO parameters (app, component, key, value, type)"
            " VALUES ('jedi', 'prod_job_throttler', $1, '1250', 'int')",
            key,
        )
    await story.fetch("INSERT INTO parameters (app, component, key, value, type)"
                      " VALUES ('jedi', 'prod_job_throttler', 'NQUEUELIMIT', '1', 'int')")  # fmt: skip
    await story.fetch("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for start in story.service.on_start:
        await start()
    for gshare, expected in (("A", 166), ("B", 250)):
        task_id = await story.task(n_files=1, gshare=gshare)
        [chunk_id] = await story.ready(task_id)
        assert await story.value("SELECT max_jobs FROM chunks WHERE chunk_id = $1", chunk_id) == expected


async def test_of_tasks_that_are_woken_together_none_holds_another(context: Context, databases: Databases) -> None:
    story = await with_parameters(context, databases)
    tasks = await tasks_of_users(story, "MC", [(500, "alice"), (500, "bob"), (100, "bob")])
    [(woken, _)] = await look_for_shares_with_room(story)
    assert woken == tuple(tasks)
    assert len(await story.ready(tasks[2])) == 1, "the news of the others may come later"


async def test_input_that_cannot_be_used_brings_no_task_to_its_gate(context: Context, databases: Databases) -> None:
    story = await with_parameters(context, databases)
    low, high = await tasks_of_users(story, "MC", [(100, "alice"), (500, "bob")])
    await story.fetch("UPDATE task_files SET status = 'broken' WHERE task_id = $1 AND type = 'input'", high)
    decisions = "SELECT count(*) FROM generation_decisions WHERE task_id = $1"
    before = await story.value(decisions, high)
    assert len(await story.ready(low)) == 1, "a task that has nothing to go on with is not waited for"
    assert await story.ready(high) == [] and await story.value(decisions, high) == before


async def test_gates_of_several_tasks_are_taken_in_one_order(
    context: Context, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await with_parameters(context, databases)
    for gshare in ("MC", "Analysis", "Test"):
        await story.task(n_files=1, gshare=gshare)
    await story.fetch("UPDATE tasks SET retry_at = orrery_now()")
    taken: list[str] = []
    lock = gates.lock_gate

    async def noted(work: UnitOfWork, scope: ThrottleScope) -> gates.GateRow:
        taken.append(scope.gshare)
        return await lock(work, scope)

    monkeypatch.setattr(gates, "lock_gate", noted)
    assert len(chunks_in(await story.look_at_idle_tasks())) == 3
    assert taken == ["Analysis", "MC", "Test"]
