"""An explanation that is asked for in part: few queues of few decisions, jobs counted so far and no further."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.api import offered
from services.task_definition.tasks.explaining import Asked, Explanation
from services.task_definition.tasks.store import reads
from shared.auth import Caller
from shared.cache import NullCache
from shared.db import Database
from shared.runtime.service import Service
from shared.snapshot import KnownGrid
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import production
from tests.rows import archived_job, insert, job

OPERATOR = Caller("op", frozenset({"operator"}), frozenset())
#: queues left out by memory, those far from passing first; then some by their state; then those that passed
N_MEMORY, N_OFFLINE, N_PASSED, N_JOBS, COUNT_TO = 30, 5, 4, 20_000, 100
_CHECK = {
    "tier": "configuration",
    "temporary": False,
    "words": [],
    "parameters": ["jobbroker.A"],
    "lifts": ["the grid"],
}
DECISION = {
    "kind": "job", "plugin": "production", "seed": 1, "world_version": 1, "outcome": "none", "chosen": [],
    "summary": {
        "considered": N_MEMORY + N_OFFLINE + N_PASSED, "passed": 0, "checks": {"memory": N_MEMORY},
        "nearest_miss": {"name": "M00/MCORE", "check": "memory", "tier": "configuration", "temporary": False,
                         "found": "memory of a job 6200 MB", "wanted": "maxrss of the queue 2000 MB"},
    },
    "names": [*(f"M{n // 2:02}/{'MCORE' if n % 2 else 'SCORE'}" for n in range(N_MEMORY)),
              *(f"OFF{n}" for n in range(N_OFFLINE)), *(f"GOOD{n}" for n in range(N_PASSED))],
    "codes": [*[1] * N_MEMORY, *[2] * N_OFFLINE, *[0] * N_PASSED],
    "found": [*[6200.0] * N_MEMORY, *[float("nan")] * (N_OFFLINE + N_PASSED)],
    "wanted": [*(2000.0 + n for n in range(N_MEMORY)), *[float("nan")] * (N_OFFLINE + N_PASSED)],
    "weights": [*[0.0] * (N_MEMORY + N_OFFLINE), *map(float, range(N_PASSED))],
    "checks": {"1": {**_CHECK, "name": "memory", "found": "memory of a job", "wanted": "maxrss", "unit": "MB"},
               "2": {**_CHECK, "name": "status", "found": "status", "wanted": "online", "unit": ""}},
}  # fmt: skip


async def decided(database: Database, service: Service, producer: httpx.AsyncClient, n_decisions: int) -> int:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for chunk_id in range(1, n_decisions + 1):
            await insert(connection, "brokerage_decisions", DECISION | {"task_id": task_id, "chunk_id": chunk_id})
        await job(connection, task_id, job_id=9, chunk_id=1, queue="Q")
    return task_id


async def asked(producer: httpx.AsyncClient, kind: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await producer.get(f"/api/v1/explain/{kind}", params=query)).json()["data"]
    return found


async def test_few_queues_of_each_check_are_told_the_nearest_first_and_how_many_there_are(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await decided(database, service, producer, 2)
    (first, second) = (await asked(producer, "task", task_id=task_id, counts=False, queues=3))["decisions"]
    assert [one["name"] for one in first["queues"]] == [
        "GOOD3", "GOOD2", "GOOD1", "M00/MCORE", "M14/MCORE", "M14/SCORE", "OFF0", "OFF1", "OFF2"
    ]  # fmt: skip
    assert first["by_check"] == [
        {"check": None, "n_queues": 4, "n_entries": 4}, {"check": "memory", "n_queues": 15, "n_entries": 30},
        {"check": "status", "n_queues": 5, "n_entries": 5},
    ]  # fmt: skip
    assert second["queues"] == [] and second["by_check"] == []
    named = await asked(producer, "task", task_id=task_id, counts=False, queues=99, decision=second["decision_id"])
    assert [len(one["queues"]) for one in named["decisions"]] == [0, N_MEMORY + N_OFFLINE + N_PASSED]


async def test_the_words_are_the_same_however_few_queues_are_told(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await decided(database, service, producer, 2)
    for kind, query in (("task", {"task_id": task_id}), ("job", {"job_id": 9})):
        whole, part = await asked(producer, kind, **query), await asked(producer, kind, **query, queues=0)
        assert part["text"] == whole["text"] and "nearest miss: M00/MCORE" in part["text"]
        assert [one["waits_for"] for one in part["decisions"]] == [one["waits_for"] for one in whole["decisions"]]
        assert len(whole["decisions"][0]["queues"]) == N_MEMORY + N_OFFLINE + N_PASSED
        assert not any(one["queues"] for one in part["decisions"])


async def with_many_jobs(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
            "                  status, queue, resource_type, gshare, user_name, prod_source_label, job_type)"
            " SELECT n, $1, 1, 1, 1, 1, 1, (ARRAY['activated', 'running', 'failed'])[1 + n % 3], 'Q' || n % 9, 'SCORE',"
            "        'S', 'u', 'managed', 'normal' FROM generate_series(1, $2::bigint) n",
            task_id,
            N_JOBS,
        )
        await connection.execute("SET session_replication_role = DEFAULT")
        for number in range(3):
            await archived_job(connection, task_id, job_id=N_JOBS + 1 + number)
        await connection.execute("ANALYZE jobs")
    return task_id


async def test_jobs_of_a_state_that_has_many_are_told_as_more_than(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await with_many_jobs(database, service, producer)
    found = await asked(producer, "task", task_id=task_id, count_to=COUNT_TO, queues=0)
    details = (await producer.get("/api/v1/task/get_details", params={"task_id": task_id, "count_to": COUNT_TO})).json()
    for told in (found, details["data"]):
        assert told["jobs"] == {"activated": 100, "failed": 100, "finished": 3, "running": 100}
        assert told["more_jobs"] == ["activated", "failed", "running"]
    assert "jobs: more than 100 activated, more than 100 failed, 3 finished, more than 100 running" in found["text"]
    assert sum(one["n_jobs"] for one in found["queues"]) == 3 * COUNT_TO
    whole = await asked(producer, "task", task_id=task_id)
    preview = {"command": "kill", "task_ids": str(task_id)}
    [previewed] = (await producer.get("/api/v1/task/preview_command", params=preview)).json()["data"]["tasks"]
    assert previewed["jobs"]["running"] == N_JOBS // 3 + 1 and previewed["more_jobs"] == []
    assert sum(whole["jobs"].values()) == N_JOBS + 3 and whole["more_jobs"] == []
    assert sum(one["n_jobs"] for one in whole["queues"]) == N_JOBS


async def test_a_preview_counts_so_many_jobs_of_each_state_and_no_more(
    database: Database, service: Service, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await with_many_jobs(database, service, producer)
    other, _ = await define(database, service, producer, production("task.other"))
    monkeypatch.setattr(offered, "COUNTED_TO", 2 * COUNT_TO)
    preview = {"command": "kill", "task_ids": f"{task_id},{other}"}
    [told, none] = (await producer.get("/api/v1/task/preview_command", params=preview)).json()["data"]["tasks"]
    assert told["jobs"] == {"activated": 100, "failed": 100, "finished": 3, "running": 100}
    assert told["more_jobs"] == ["activated", "failed", "running"]
    assert none["jobs"] == {} and none["more_jobs"] == []


@pytest.mark.parametrize("of", ["explanation", "details"])
async def test_rows_that_are_read_for_the_page_of_a_task_do_not_grow_with_its_jobs(
    database: Database, service: Service, producer: httpx.AsyncClient, of: str
) -> None:
    task_id = await with_many_jobs(database, service, producer)
    read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs'"
    async with database.read() as connection, connection.transaction():
        if of == "details":
            await reads.task_details(connection, task_id, OPERATOR, COUNT_TO)
        else:
            await Explanation(KnownGrid(NullCache())).task(connection, task_id, OPERATOR, Asked(count_to=COUNT_TO))
        n_rows = await connection.fetchval(read)
    assert COUNT_TO <= n_rows <= 8 * (COUNT_TO + 1)


async def test_two_decisions_are_compared_where_they_are_kept(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    task_id = await decided(database, service, producer, 1)
    names, codes = DECISION["names"], [0 if code == 2 else code for code in DECISION["codes"]]  # type: ignore[attr-defined]
    async with database.read() as connection:
        for changes in ({"names": names, "codes": codes}, {"kind": "task"}):
            await insert(connection, "brokerage_decisions", DECISION | changes | {"task_id": task_id, "chunk_id": 1})
        ids = await connection.fetch("SELECT decision_id FROM brokerage_decisions ORDER BY decision_id")
    first, second, other = (row["decision_id"] for row in ids)
    query = {"task_id": task_id, "first": first, "second": second, "limit": 2}
    found = await asked(producer, "difference", **query)
    assert [(one["name"], one["what"]) for one in found["changes"]] == [("OFF0", "passes now"), ("OFF1", "passes now")]
    assert found["n_changes"] == {"passes now": N_OFFLINE}
    assert (await asked(producer, "difference", **query | {"second": other}))["changes"] is None
    for client, ids_ in ((producer, {"second": 987_654}), (user, {})):
        answer = (await client.get("/api/v1/explain/difference", params=query | ids_)).json()
        assert answer["success"] is False and "not both kept" in answer["message"]
