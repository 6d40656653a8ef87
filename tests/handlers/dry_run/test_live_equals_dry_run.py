"""A decision made live equals, seed included, the dry run of the world saved just before it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
from services.task_definition.tasks.policy.task_file import parse_task_file
from shared.brokerage.explained import explain_row
from shared.db import Database
from shared.events import ChunkOffered, TaskDefined, TaskReady
from shared.model.world_file import parse_world
from shared.runtime.service import Context, Service
from tests import rows
from tests.applications import application_of
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
            "INSERT INTO queue_activity (queue, last_pilot_at, running_workers) VALUES ('Q_GAMMA', $1, 3)", AT
        )
        await work.connection.execute(
            "INSERT INTO queue_slots VALUES ('Q_GAMMA', 'SCORE', 50, NULL), ('Q_GAMMA', '', 30, NULL), "
            "('Q_GAMMA', 'MCORE', 900, $1)",
            AT - timedelta(hours=1),
        )
        await work.connection.execute("INSERT INTO nucleus_remaining_work VALUES ('ALPHA', 500, 1e9)")
        await work.connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('jobbroker', 'MAX_CANDIDATES', '2', 'int')"
        )
    yield replace(context, database=database)
    await database.close()


async def asked(service: Service, context: Context, path: str, **query: Any) -> dict[str, Any]:
    """The service's answer to somebody of production."""
    token = context.authority.issue("prodteam", ["production"])
    transport = httpx.ASGITransport(application_of(service, context.authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://jobs") as client:
        headers = {"Authorization": f"Bearer {token}"}
        reply = await client.get(f"/api/v1/{path}", params=query, headers=headers, timeout=60)
    return reply.json()


async def saved(service: Service, context: Context) -> dict[str, Any]:
    """What `orrery snapshot save` writes."""
    return (await asked(service, context, "grid/world"))["data"]


async def saved_task(context: Context, task_id: int) -> dict[str, Any]:
    """What `orrery snapshot task` writes."""
    service = await started(build_task_definition(context))
    [file] = (await asked(service, context, "task/task_files", task_id=task_id))["data"]
    return file


async def live(context: Context, kind: str) -> dict[str, Any]:
    async with context.database.read() as connection:
        statement = "SELECT * FROM brokerage_decisions WHERE kind = $1 ORDER BY decision_id DESC LIMIT 1"
        return dict(await connection.fetchrow(statement, kind))


def assert_same(row: dict[str, Any], world: dict[str, Any], task: dict[str, Any], brokerage: str) -> None:
    task = json.loads(json.dumps(task)) | {}
    (task["state"] if brokerage == "task-brokerage" else task["chunk"])["seed"] = row["seed"]
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


async def measured(context: Context, task_id: int) -> None:
    """As if scouts had measured the task, a retry had changed its rules and a command its priority."""
    async with context.database.begin(reason="measured") as work:
        await work.connection.execute(
            "UPDATE tasks SET ram_count = 1700, ram_unit = 'MBPerCore', cpu_time = 4100, "
            "cpu_time_unit = 'mHS06sPerEvent', io_intensity = 310, io_intensity_unit = 'kBPerS', "
            "out_disk_count = 77, out_disk_unit = 'kBPerEvent', "
            "disk_io = 12, disk_io_unit = 'kBPerS', current_priority = 870, base_walltime = 90, "
            'split_rule = split_rule || \'{"nFilesPerJob": 3, "t1Weight": 1}\' WHERE task_id = $1',
            task_id,
        )


async def assert_job_brokerage_can_be_repeated(context: Context, task_id: int, offer: ChunkOffered, brokerage: str):
    service = await started(build_job_brokerage(context))
    world, task = await saved(service, context), await saved_task(context, task_id)
    await deliver(context.database, service, offer)
    row = await live(context, "job")
    assert row["chunk_id"] == task["chunk"]["chunk_id"] == offer.chunk_id
    assert_same(row, world, task, brokerage)
    after = await saved_task(context, task_id)
    assert after["chunk"]["seed"] == row["seed"]
    return row


@pytest.mark.parametrize("is_measured", [False, True])
async def test_choosing_a_nucleus_live_equals_the_dry_run_of_world_and_task_saved_before(stopped, is_measured) -> None:
    parameters = production(ioIntensity=500, ioIntensityUnit="kBPerS")
    task_id, said = await a_task(stopped, parameters, "production")
    defined = next(one for one in said if isinstance(one, TaskDefined))
    if is_measured:
        await measured(stopped, task_id)
    service = await started(build_job_brokerage(stopped))
    world, task = await saved(service, stopped), await saved_task(stopped, task_id)
    assert task["parameters"]["taskName"] == parameters["taskName"] and "chunk" not in task
    await deliver(stopped.database, await started(build_task_brokerage(stopped)), defined)
    row = await live(stopped, "task")
    assert row["seed"] > 0
    assert_same(row, world, task, "task-brokerage")


@pytest.mark.parametrize("is_measured", [False, True])
async def test_ranking_queues_live_equals_the_dry_run_of_world_and_task_saved_before(stopped, is_measured) -> None:
    parameters = production(nucleus="ALPHA", skipScout=True, coreCount=1)
    task_id, said = await a_task(stopped, parameters, "production")
    if is_measured:
        await measured(stopped, task_id)
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    row = await assert_job_brokerage_can_be_repeated(stopped, task_id, offer, "job-brokerage")
    assert row["chosen"]


async def test_ranking_queues_for_units_of_raised_memory_live_equals_the_dry_run_and_leaves_small_queues_out(
    stopped,
) -> None:
    task_id, said = await a_task(stopped, production(nucleus="ALPHA", skipScout=True, coreCount=1), "production")
    async with stopped.database.begin(reason="every unit ran out of memory once") as work:
        await work.connection.execute("UPDATE task_files SET ram_count = 8000 WHERE task_id = $1", task_id)
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    assert (await saved_task(stopped, task_id))["chunk"]["ram_mb"] == 8000
    row = await assert_job_brokerage_can_be_repeated(stopped, task_id, offer, "job-brokerage")
    assert {name.partition("/")[2] for name in row["chosen"]} <= {"SCORE_HIMEM"}
    checks = {entry["name"]: entry.get("check") for entry in explain_row(row)}
    assert checks["Q_ALPHA/SCORE"] == "memory_too_large", "slots of 2000 MB"


async def test_ranking_queues_without_input_live_equals_the_dry_run_of_world_and_task_saved_before(stopped) -> None:
    parameters = production(
        inputs=[], nucleus="ALPHA", noInput=True, nEvents=1000, nEventsPerJob=100, nFilesPerJob=None
    )
    task_id, said = await a_task(stopped, parameters, "production")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    row = await assert_job_brokerage_can_be_repeated(stopped, task_id, offer, "job-brokerage")
    assert row["chosen"]


@pytest.mark.parametrize("waited_h", [1, 30])
async def test_placing_a_merge_chunk_live_equals_the_dry_run_of_world_and_task_saved_before(stopped, waited_h) -> None:
    task_id, said = await a_task(stopped, production(nucleus="ALPHA", skipScout=True, coreCount=1), "production")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    async with stopped.database.begin(reason="a merge chunk that waits for its queue") as work:
        await work.connection.execute(
            "UPDATE chunks SET kind = 'merge', queue = 'Q_BETA', priority = 1500, created_at = $2 WHERE chunk_id = $1",
            offer.chunk_id, AT - timedelta(hours=waited_h),
        )  # fmt: skip
    row = await assert_job_brokerage_can_be_repeated(stopped, task_id, offer, "job-brokerage")
    considered = {name.split("/")[0] for name in row["chosen"]}
    assert (considered <= {"Q_BETA"}) == (waited_h < 24)
    await assert_no_end_changes_the_chunk(stopped, task_id)


async def assert_no_end_changes_the_chunk(context: Context, task_id: int) -> None:
    """Since when merging waits, too, is told as it was when the chunk was placed."""
    before = (await saved_task(context, task_id))["chunk"]
    for status in ("used", "returned"):
        async with context.database.begin(reason="its end") as work:
            await work.connection.execute(
                "UPDATE task_files SET chunk_id = NULL, status = 'ready' WHERE chunk_id = $1", before["chunk_id"]
            )
            await work.connection.execute("SET LOCAL session_replication_role = replica")
            await work.connection.execute(
                "UPDATE chunks SET status = $2 WHERE chunk_id = $1", before["chunk_id"], status
            )  # fmt: skip
        assert (await saved_task(context, task_id))["chunk"] == before


async def test_ranking_queues_for_analysis_live_equals_the_dry_run_of_world_and_task_saved_before(stopped) -> None:
    task_id, said = await a_task(stopped, analysis(skipScout=None), "user")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    await assert_job_brokerage_can_be_repeated(stopped, task_id, offer, "analysis-brokerage")


async def status_of(context: Context, chunk_id: int) -> str:
    async with context.database.read() as connection:
        return await connection.fetchval("SELECT status FROM chunks WHERE chunk_id = $1", chunk_id)


async def assert_the_last_chunk_can_be_repeated(context: Context, task_id: int, said: list[Any], status: str) -> None:
    """Each dataset of the container has a chunk; the last is in the file however it ended, as it was when offered."""
    generation, service = await started(build_job_generation(context)), await started(build_job_brokerage(context))
    ready = next(one for one in said if isinstance(one, TaskReady))
    offers = [one for one in await deliver(context.database, generation, ready) if isinstance(one, ChunkOffered)]
    names = []
    for offer in offers:
        world, before = await saved(service, context), await saved_task(context, task_id)
        names.append([part["dataset"] for part in before["chunk"]["inputs"]])
        [placed] = await deliver(context.database, service, offer)
        await deliver(context.database, generation, placed)
    assert names == [["data.a"], ["data.b"]]
    row, after = await live(context, "job"), await saved_task(context, task_id)
    assert await status_of(context, after["chunk"]["chunk_id"]) == status
    assert after["chunk"] == before["chunk"] | {"seed": row["seed"]}
    assert_same(row, world, after, "analysis-brokerage")


async def test_a_used_chunk_of_a_container_of_two_datasets_is_decided_as_it_was_live(stopped) -> None:
    task_id, said = await a_task(stopped, analysis(skipScout=True), "user", "production")
    await assert_the_last_chunk_can_be_repeated(stopped, task_id, said, "used")


async def test_a_returned_chunk_of_a_container_of_two_datasets_is_decided_as_it_was_live(stopped) -> None:
    task_id, said = await a_task(stopped, analysis(skipScout=True), "user", "production")
    files = small_grid()
    for queue in files["queues"].values():
        queue["status"] = "offline"
    await load_grid(stopped.database, files)
    await assert_the_last_chunk_can_be_repeated(stopped, task_id, said, "returned")


async def test_a_task_file_has_the_seed_of_each_brokerage_and_each_takes_its_own(stopped) -> None:
    task_id, said = await a_task(stopped, production(skipScout=True, coreCount=1), "production")
    defined = next(one for one in said if isinstance(one, TaskDefined))
    service = await started(build_job_brokerage(stopped))
    said = await deliver(stopped.database, await started(build_task_brokerage(stopped)), defined)
    of_nucleus = await live(stopped, "task")
    offer = await chunk_of(stopped, next(one for one in said if isinstance(one, TaskReady)))
    await deliver(stopped.database, service, offer)
    of_chunk = await live(stopped, "job")
    file = await saved_task(stopped, task_id)
    assert (file["state"]["seed"], file["chunk"]["seed"]) == (of_nucleus["seed"], of_chunk["seed"])
    dry_run = DryRun(parse_world(json.loads(json.dumps(await saved(service, stopped)))))
    given = parse_task_file(file)
    assert dry_run.decide("task-brokerage", given).seed == of_nucleus["seed"]
    assert dry_run.decide("job-brokerage", given).seed == of_chunk["seed"]


async def test_a_task_that_does_not_exist_is_named_and_nothing_is_saved(stopped) -> None:
    task_id, _ = await a_task(stopped, production(), "production")
    service = await started(build_task_definition(stopped))
    reply = await asked(service, stopped, "task/task_files", task_id=[task_id, 987654])
    assert (reply["success"], reply["data"]) == (False, {"task_ids": [987654]})
    assert "987654" in reply["message"] and str(task_id) not in reply["message"].split()


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
    headers = {"Authorization": f"Bearer {stopped.authority.issue('alice', ['user'])}"}
    for service, path in (
        (build_job_brokerage(stopped), "grid/world"),
        (build_task_definition(stopped), "task/task_files?task_id=1"),
    ):
        web = application_of(service, stopped.authority)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://service") as client:
            assert (await client.get(f"/api/v1/{path}", headers=headers)).status_code == 403
