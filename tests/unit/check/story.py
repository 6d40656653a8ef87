"""A small healthy story: one task in the middle of its work, with everything that the invariants ask for."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from tests import rows


@dataclass(frozen=True)
class Story:
    """Input: one file finished (by the archived job), one running (in the live job), one picked, one ready."""

    task: int
    input: int
    output: int
    seeds: int
    finished_file: int
    running_file: int
    picked_file: int
    ready_file: int
    finished_output: int
    running_output: int
    seed: int
    chunk: int
    archived_job: int
    live_job: int


async def tell(connection: asyncpg.Connection) -> Story:
    task = await rows.task(connection, status="running", prod_source_label="managed")
    for was, became in ((None, "registered"), ("registered", "defined"), ("defined", "ready"), ("ready", "running")):
        await rows.log(connection, task, "task", entity_id=task, from_status=was, to_status=became)
    master = await rows.dataset(
        connection,
        task,
        n_files=4,
        n_files_to_be_used=4,
        n_files_used=3,
        n_files_finished=1,
        n_events=40,
        n_events_used=30,
    )
    output = await rows.dataset(
        connection, task, type="output", n_files=2, n_files_used=2, n_files_finished=1, status="running"
    )
    seeds = await rows.dataset(connection, task, type="random_seed", n_files=1, n_files_used=1)
    await rows.insert(
        connection,
        "output_templates",
        {"task_id": task, "dataset_id": output, "file_name_template": "out.${SN}.root", "serial_nr": 3},
    )
    chunk = await rows.chunk(connection, task, status="offered")
    archived = await rows.archived_job(connection, task, status="finished")
    live = await rows.job(connection, task, status="running")
    files = [
        await rows.file(connection, task, master, n_events=10, **values)
        for values in (
            {"status": "finished", "job_id": archived}, {"status": "running", "job_id": live},
            {"status": "picked", "chunk_id": chunk}, {"status": "ready"},
        )
    ]  # fmt: skip
    outputs = [
        await rows.file(connection, task, output, type="output", status=status, out_job_id=job)
        for status, job in (("finished", archived), ("running", live))
    ]
    await rows.register(connection, outputs[0])
    seed = await rows.file(connection, task, seeds, type="random_seed", status="running", job_id=live)
    for job, file in ((archived, files[0]), (live, files[1])):
        await rows.job_file(connection, job, file, is_master=True)
    await rows.job_file(connection, live, seed)
    await _log_jobs_and_files(connection, task, live, files, outputs)
    return Story(task, master, output, seeds, *files, *outputs, seed, chunk, archived, live)


async def _log_jobs_and_files(
    connection: asyncpg.Connection, task: int, live: int, files: list[int], outputs: list[int]
) -> None:
    for was, became in (("defined", "activated"), ("activated", "sent"), ("sent", "running")):
        await rows.log(connection, task, "job", entity_id=live, from_status=was, to_status=became)
    finished, running, picked, _ready = files
    for was, became, ids in (
        ("ready", "picked", [finished, running, picked]),
        ("picked", "running", [finished, running]),
        ("running", "finished", [finished]),
        ("running", "finished", [outputs[0]]),
    ):
        await rows.log(connection, task, "file", entity_ids=ids, from_status=was, to_status=became)
