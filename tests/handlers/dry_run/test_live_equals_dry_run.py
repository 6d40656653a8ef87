"""A decision made live equals, seed included, the dry run of the world saved just before it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.cli.commands.dry_runs import decide
from services.cli.dry_run.deciding import DryRun
from services.job_brokerage.app import build as build_job_brokerage
from services.job_generation.app import build as build_job_generation
from services.task_brokerage.app import build as build_task_brokerage
from services.task_definition.app import build as build_task_definition
from shared.auth import install
from shared.db import Database
from shared.events import ChunkOffered, TaskDefined, TaskReady
from shared.model.task_file import parse_task_file
from shared.model.world_file import parse_world
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import analysis, import_world, production

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVENTS = {
    "dataset": "mc.evnt", "files": 20, "bytes": 20_000_000, "events": 20_000,
    "replicas": [{"storage": "ALPHA_DATADISK", "files": 20, "bytes": 20_000_000}],
}  # fmt: skip
COMPARED = ("kind", "plugin", "seed", "world_version", "outcome", "chosen", "names", "codes", "checks", "summary")
NUMBERS = ("found", "wanted", "weights")


@pytest.fixture
async def stopped(context: Context, database_url: str) -> AsyncIterator[Context]:
    """A context whose clock stands still, with a grid that has been busy and a catalogue."""
    database = await Database.connect(database_url, actor="test", now=lambda: AT)
    files = small_grid()
    files["network_metrics"]["GAMMA:ALPHA"] |= {
        "files": {"queued": {"Production Output": {"latest": 7, "timestamp": "2026-01-01T00:00:00"}}},
        "mbps": {"dashb": {"1h": 12.5, "timestamp": "2026-01-01T00:00:00"}},
    }
    await load_grid(database, files)
    await import_world(database)
    async with database.begin(reason="history") as work:
        for status, n_jobs in (("running", 40), ("activated", 9), ("assigned", -1)):
            await rows.insert(
                work.connection,
                "queue_statistics",
                {"queue": "Q_BETA", "resource_type": "SCORE", "gshare": "Undefined", "user_name": "bob",
                 "status": status, "n_jobs": n_jobs, "n_cores": n_jobs},
            )  # fmt: skip
        await work.connection.execute(
            "INSERT INTO queue_activity (queue, last_pilot_at, running_workers, n_slots) VALUES ('Q_GAMMA', $1, 3, 50)",
            AT,
        )
        await work.connection.execute("INSERT INTO nucleus_remaining_work VALUES ('ALPHA', 500, 1e9)")
        await work.connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('jobbroker', 'MAX_CANDIDATES', '2', 'int')"
        )
    yield replace(context, database=database)
    await database.close()


async def saved(service: Service, context: Context) -> dict[str, Any]:
    """What `orrery snapshot save` writes."""
    assert service.web is not None
    install(service.web, context.authority)
    token = context.authority.issue("prodteam", ["production"])
    transport = httpx.ASGITransport(service.web)
    async with httpx.AsyncClient(transport=transport, base_url="http://jobs") as client:
        reply = await client.get("/api/v1/grid/world", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return reply.json()["data"]


async def live(context: Context, kind: str) -> dict[str, Any]:
    async with context.database.read() as connection:
        statement = "SELECT * FROM brokerage_decisions WHERE kind = $1 ORDER BY decision_id DESC LIMIT 1"
        return dict(await connection.fetchrow(statement, kind))


def assert_same(row: dict[str, Any], world: dict[str, Any], task: dict[str, Any], brokerage: str) -> None:
    task = json.loads(json.dumps(task)) | {}
    task.setdefault("state", {})["seed"] = row["seed"]
    decision = DryRun(parse_world(json.loads(json.dumps(world)))).decide(brokerage, parse_task_file(task))
    packed = decision.packed()
    assert {name: packed[name] for name in COMPARED} == {name: row[name] for name in COMPARED}
    for name in NUMBERS:
        assert packed[name] == pytest.approx(list(row[name]), rel=0, abs=0, nan_ok=True)
    assert packed["terms"] == row["terms"]
    assert (decision.decided_at, decision.retry_at) == (row["decided_at"], row["retry_at"])


async def a_task(context: Context, parameters: dict[str, Any], *roles: str) -> tuple[int, list[Any]]:
    service = await started(build_task_definition(context))
    async with client_of(service, context.authority, "alice", *roles) as client:
        return await define(context.database, service, client, parameters)


async def chunk_of(context: Context, ready: TaskReady) -> ChunkOffered:
    generation = await started(build_job_generation(context))
    said = await deliver(context.database, generation, ready)
    return next(one for one in said if isinstance(one, ChunkOffered))


async def test_choosing_a_nucleus_live_equals_the_dry_run_of_the_world_saved_before(stopped) -> None:
    parameters = production(ioIntensity=500, ioIntensityUnit="kBPerS")
    _, said = await a_task(stopped, parameters, "production")
    defined = next(one for one in said if isinstance(one, TaskDefined))
    world = await saved(await started(build_job_brokerage(stopped)), stopped)
    await deliver(stopped.database, await started(build_task_brokerage(stopped)), defined)
    row = await live(stopped, "task")
    assert row["seed"] > 0
    assert_same(row, world, {"parameters": parameters, "inputs": [EVENTS]}, "task-brokerage")


async def test_ranking_queues_live_equals_the_dry_run_of_the_world_saved_before(stopped) -> None:
    parameters = production(nucleus="ALPHA", skipScout=True, coreCount=1)
    _, said = await a_task(stopped, parameters, "production")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    service = await started(build_job_brokerage(stopped))
    world = await saved(service, stopped)
    await deliver(stopped.database, service, offer)
    row = await live(stopped, "job")
    assert row["chosen"] and row["chunk_id"] == offer.chunk_id
    assert_same(row, world, {"parameters": parameters, "inputs": [EVENTS]}, "job-brokerage")


async def test_ranking_queues_for_analysis_live_equals_the_dry_run_of_the_world_saved_before(stopped) -> None:
    parameters = analysis(skipScout=None)
    task_id, said = await a_task(stopped, parameters, "user")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    service = await started(build_job_brokerage(stopped))
    world = await saved(service, stopped)
    await deliver(stopped.database, service, offer)
    row = await live(stopped, "job")
    async with stopped.database.read() as connection:
        files, n_bytes, n_events, name = await connection.fetchrow(
            "SELECT count(*), sum(f.fsize)::bigint, sum(f.n_events)::bigint, min(d.dataset_name) "
            "FROM task_files f JOIN task_datasets d USING (dataset_id) WHERE f.chunk_id = $1", offer.chunk_id,
        )  # fmt: skip
    copies = [{"storage": "ALPHA_DATADISK", "files": files, "bytes": n_bytes}]
    copies.append({"storage": "BETA_DATADISK", "files": files * 3 // 7, "bytes": int(n_bytes * (3 / 7))})
    inputs = [{"dataset": name, "files": files, "bytes": n_bytes, "events": n_events, "replicas": copies}]
    state = {"task_id": task_id, "user_name": "alice", "nucleus": None, "scout": True}
    assert_same(row, world, {"parameters": parameters, "inputs": inputs, "state": state}, "analysis-brokerage")


async def test_the_command_decides_every_line_of_a_task_file_and_says_what_if(stopped, tmp_path: Path) -> None:
    world = tmp_path / "world.json"
    world.write_text(json.dumps(await saved(await started(build_job_brokerage(stopped)), stopped)))
    good = {"parameters": production(nucleus="ALPHA", coreCount=1, skipScout=True), "inputs": [EVENTS]}
    bad = {"parameters": production(ramCount=-1)}
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(json.dumps(one) for one in (good, bad)))
    first, second = decide("job-brokerage", world, str(tasks), [], [], 7)
    assert (first["outcome"], first["seed"], len(first["candidates"])) == ("chosen", 7, 2)
    assert any("ramCount" in problem for problem in second["problems"])
    changed, _ = decide(
        "job-brokerage", world, str(tasks), ["MAX_CANDIDATES=1"], ["Q_ALPHA.status=offline"], None
    )  # fmt: skip
    assert len(changed["candidates"]) <= 1
    excluded = {one["name"]: one["check"] for one in changed["exclusions"]}
    assert excluded["Q_ALPHA/SCORE"] == "status"


async def test_a_user_may_not_save_the_world_because_the_usage_of_others_is_in_it(stopped) -> None:
    service = build_job_brokerage(stopped)
    assert service.web is not None
    install(service.web, stopped.authority)
    headers = {"Authorization": f"Bearer {stopped.authority.issue('alice', ['user'])}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service.web), base_url="http://jobs") as client:
        assert (await client.get("/api/v1/grid/world", headers=headers)).status_code == 403
