"""Work for whole lives: tasks of one file a job, and whether each job ended once and well."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

import asyncpg
import httpx

from deploy.local.system import LocalSystem
from tests.performance.bench_latency import task_without_input

SETTLED_S, LOOK_EVERY_S = 60.0, 0.2
PLACES = ("CERN-PROD_DATADISK", "BNL-OSG2_DATADISK", "FZK-LCG2_DATADISK", "MWT2_DATADISK", "RAL-LCG2-ECHO_DATADISK")
_DONE_TASKS = "SELECT count(*) FROM tasks WHERE task_id = ANY($1) AND status = 'done'"
_JOBS = """
WITH ended AS (SELECT job_id, status FROM jobs WHERE task_id = ANY($1)
               UNION ALL SELECT job_id, status FROM jobs_archive WHERE task_id = ANY($1))
SELECT count(*) AS jobs, count(DISTINCT job_id) AS "different jobs",
       count(*) FILTER (WHERE status = 'finished') AS "finished jobs" FROM ended
"""
_FILES = """
SELECT type, sum(n_files_finished)::bigint AS finished, sum(n_files_failed)::bigint AS failed FROM task_datasets
WHERE task_id = ANY($1) AND type IN ('input', 'output', 'log') GROUP BY type
"""
_REGISTERED = """
SELECT d.type, count(*) AS files, count(DISTINCT f.lfn) AS names, count(f.checksum) AS checksums
FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
JOIN catalogue.files f ON f.dataset_id = c.dataset_id
WHERE d.task_id = ANY($1) AND d.type IN ('output', 'log') GROUP BY d.type
"""
_REGISTERED_COUNTS = ("files", "names", "checksums")


async def submit(system: LocalSystem, http: httpx.AsyncClient, n_tasks: int, n_files: int) -> list[int]:
    """So many tasks, each with its part of the files."""
    names = [f"mc23_13p6TeV.{uuid.uuid4().hex[:12]}.DAOD_PHYSLITE.e1" for _ in range(n_tasks)]
    url = system.urls["task-definition"][0] + "/api/v1/"
    datasets = [_input_dataset(name, n_files // n_tasks) for name in names]
    content = {"format": "orrery-catalogue/1", "vo": "atlas", "description": "benchmark", "datasets": datasets}
    await posted(http, url + "catalogue/import", content)
    found = []
    for name in names:
        task = _analysis_task(f"user.benchmark.{uuid.uuid4().hex[:12]}", name)
        found.append(int(await posted(http, url + "task/submit", {"task_parameters": task})))
    return found


async def posted(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> Any:
    """The data of the answer."""
    answer = (await http.post(url, json=body)).json()
    if not answer["success"]:
        raise SystemExit(f"{url} was refused: {answer}")
    return answer["data"]


def _input_dataset(name: str, n_files: int) -> dict[str, Any]:
    """Files that some sites have."""
    series = {"lfn": f"{name}._{{serial:06d}}.root", "count": n_files, "size_bytes": 1_000_000, "n_events": 10}
    replicas = [{"storage": one} for one in PLACES]
    return {"scope": "mc23_13p6TeV", "name": name, "file_series": [series], "replicas": replicas}


def _analysis_task(name: str, dataset: str) -> dict[str, Any]:
    """A task of one file a job, without scouts."""
    task = task_without_input(name)
    for field in ("noInput", "nEvents", "nEventsPerJob"):
        del task[field]
    read = {"type": "template", "param_type": "input", "value": '-i "${IN/T}"', "dataset": f"mc23_13p6TeV:{dataset}"}
    return task | {"nFilesPerJob": 1, "jobParameters": [*task["jobParameters"], read]}


async def faults(database: asyncpg.Connection, task_ids: Sequence[int], n_files: int) -> list[str]:
    """What is wrong once the tasks are done. Each file must have one job, finished, counted and registered."""
    expected = dict.fromkeys(("jobs", "different jobs", "finished jobs", "finished input files"), n_files)
    expected |= {f"finished {type_} files": n_files for type_ in ("output", "log")}
    expected |= {f"registered {type_} {one}": n_files for type_ in ("output", "log") for one in _REGISTERED_COUNTS}
    expected |= {"done tasks": len(task_ids), "failed files": 0}
    found = await _counted(database, task_ids)
    return [f"{name}: {found.get(name, 0)} instead of {n}" for name, n in expected.items() if found.get(name, 0) != n]


async def _counted(database: asyncpg.Connection, task_ids: Sequence[int]) -> dict[str, int]:
    """What there is of each kind, once all tasks are done or do not get done."""
    ends_at, n_done = time.monotonic() + SETTLED_S, 0
    while n_done < len(task_ids) and time.monotonic() < ends_at:
        await asyncio.sleep(LOOK_EVERY_S)
        n_done = await database.fetchval(_DONE_TASKS, task_ids)
    row = await database.fetchrow(_JOBS, task_ids)
    found = {"done tasks": n_done, "failed files": 0, **(row or {})}
    for type_, finished, failed in await database.fetch(_FILES, task_ids):
        found[f"finished {type_} files"] = finished
        found["failed files"] += failed
    for type_, *counts in await database.fetch(_REGISTERED, task_ids):
        found |= {f"registered {type_} {one}": n for one, n in zip(_REGISTERED_COUNTS, counts, strict=True)}
    return found
