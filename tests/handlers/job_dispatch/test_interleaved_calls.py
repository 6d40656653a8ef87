"""Acquires, reports, kills, time-outs and priority changes at once, at two replicas, against a sequential model.

Each round's operations run at the same time on PostgreSQL. Some order of them must give, one after the other, the same
answers and the same jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.lifecycle.transitions import kill_jobs
from services.watchdog.checking import run_checks
from services.watchdog.store.due import expire
from shared.auth import Authority
from shared.runtime.service import Context
from shared.timeouts.judging import Expiry
from shared.timeouts.rule import WatchedJob
from tests.handlers.job_dispatch.calls import ACQUIRE, UPDATE
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.sequential_model import ON_NODE, Acquire, Change, Model, ModelJob, Operation, Reported

PILOTS = ("pilot-1", "pilot-2")
#: a given pilot may not have reported the job before: those it has are likelier
PLACES = st.integers(0, 5)
ACQUIRES = st.builds(Acquire, st.sampled_from(PILOTS), st.integers(0, 1), st.sampled_from([None, None, "a", "b"]))
REPORTS = st.builds(
    Reported, st.sampled_from(PILOTS), st.integers(0, 1), PLACES,
    st.sampled_from(["starting", "running", "finished", "failed"]), st.sampled_from([1, 1, 1, None, 2]),
)  # fmt: skip
CHANGES = st.builds(Change, st.sampled_from(["kill", "time out", "priority"]), PLACES, st.sampled_from([0, 100, 500]))
ROUNDS = st.lists(
    st.lists(st.one_of(ACQUIRES, ACQUIRES, REPORTS, REPORTS, CHANGES), min_size=1, max_size=3), min_size=4, max_size=12
)
LOST = Expiry("failed", "lost-heartbeat", 100, "its pilot is silent")


@dataclass
class Replicas:
    """Two dispatchers on one database, and a client of each pilot at each."""

    parts: Sequence[Parts]
    clients: dict[tuple[int, str], httpx.AsyncClient]
    rows: Rows

    async def do(self, operation: Operation, ids: Sequence[int]) -> Any:
        """The answer to one operation."""
        if isinstance(operation, Acquire):
            headers = {"Idempotency-Key": operation.key} if operation.key else {}
            pilot = self.clients[operation.replica, operation.pilot]
            answer = await pilot.post(ACQUIRE, json={"site_name": "Q1"}, headers=headers)
            assert answer.status_code == 200, answer.text
            jobs = answer.json()["data"]["jobs"]
            return jobs[0]["PandaID"] if jobs else None
        job_id = ids[operation.place % len(ids)]
        if isinstance(operation, Reported):
            said: dict[str, Any] = {"job_id": job_id, "job_status": operation.status}
            if operation.attempt is not None:
                said["attempt_nr"] = operation.attempt
            answer = await self.clients[operation.replica, operation.pilot].post(UPDATE, json=said)
            assert answer.status_code == 200, answer.text
            found = answer.json()
            return found["data"]["command"] if found["success"] else f"refused: {found['data']['command']}"
        return await self._change(operation, job_id)

    async def _change(self, operation: Change, job_id: int) -> bool:
        async with self.rows.database.begin(reason=operation.what) as work:
            if operation.what == "kill":
                return bool(await kill_jobs(work, [job_id], "killed"))
            if operation.what == "priority":
                return bool(await Reordering().set_priorities(work, {job_id: operation.priority}))
            row = await work.connection.fetchrow("SELECT * FROM jobs WHERE job_id = $1", job_id)
            judged = WatchedJob(
                job_id, row["status"], row["creation_time"], row["state_change_time"], row["heartbeat_at"],
                row["current_priority"], row["prod_source_label"], row["queue"],
            )  # fmt: skip
            return bool((await expire(work.connection, [judged], LOST)).job_ids)

    async def stored(self) -> dict[int, tuple[str, int]]:
        """State and priority of each job."""
        async with self.rows.database.read() as connection:
            found = await connection.fetch("SELECT job_id, status, current_priority FROM jobs ORDER BY job_id")
        return {row["job_id"]: (row["status"], row["current_priority"]) for row in found}


@pytest.fixture
async def replicas(context: Context, rows: Rows, authority: Authority) -> AsyncIterator[Replicas]:
    both = [build_parts(replace(context, metrics=CollectorRegistry())) for _ in range(2)]
    for parts in both:
        for action in parts.service.on_start:
            await action()
        parts.windows.limits.band = 0
    clients = {(place, name): client(both[place], authority, name, "pilot") for place in (0, 1) for name in PILOTS}
    yield Replicas(both, clients, rows)
    for one in clients.values():
        await one.aclose()
    for parts in both:
        await parts.close()


async def begin_again(replicas: Replicas, n_jobs: int) -> Model:
    """New jobs, and nothing of the example before."""
    async with replicas.rows.database.pool.acquire() as connection:
        await connection.execute(
            "TRUNCATE jobs, job_specs, job_claims, job_reports, job_progress, transition_log, outbox"
        )
    return Model({job_id: ModelJob() for job_id in await replicas.rows.jobs(n_jobs)})


async def run_round(replicas: Replicas, model: Model, operations: Sequence[Operation]) -> Model:
    """Do these at once; the model after an order in which they could have been done."""
    for parts in replicas.parts:
        parts.windows.forget_all()  # as after any news: what is in memory may be old, but need not be
    ids = model.ids()
    answers = await asyncio.gather(*(replicas.do(one, ids) for one in operations))
    stored = await replicas.stored()
    for order in permutations(range(len(operations))):
        tried = model.copy()
        if all(tried.allows(operations[at], answers[at], alone=len(operations) == 1) for at in order):
            expected = {job_id: (job.status, job.priority) for job_id, job in tried.jobs.items()}
            if expected == stored:
                return tried
    raise AssertionError(f"no order of {operations} explains {answers} and {stored}, from {model}")


async def check_rows(replicas: Replicas, model: Model) -> None:
    """Claims name who has each job; nothing was given twice, changed after its end or reported by others."""
    async with replicas.rows.database.read() as connection:
        claims = {row["job_id"]: row["subject"] for row in await connection.fetch("SELECT * FROM job_claims")}
        broken = await run_checks(connection)
    for job_id, job in model.jobs.items():
        assert job.status not in ON_NODE or claims[job_id] == job.holder
    assert [one for one in broken if one.invariant in ("I4", "I6", "I7")] == []


@settings(
    max_examples=50, derandomize=True, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(n_jobs=st.integers(1, 6), rounds=ROUNDS)
async def test_calls_at_once_do_what_some_order_of_them_would_do(
    replicas: Replicas, n_jobs: int, rounds: list[list[Operation]]
) -> None:
    model = await begin_again(replicas, n_jobs)
    for operations in rounds:
        model = await run_round(replicas, model, operations)
    for _ in range(n_jobs + 1):  # nothing is lost: what waits is given, the best first, until there is none
        model = await run_round(replicas, model, [Acquire("pilot-1", 0, None)])
    assert model.waiting() == []
    await check_rows(replicas, model)
