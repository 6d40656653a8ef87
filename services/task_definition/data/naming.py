"""Gives outputs by expression (`regex|EXPR`) the names of the files that payloads wrote.

That is done before they are registered: the row of a job's output is called as the first of its files, and each other
file gets a row of its own beside it (PanDA: Adder, variable number of outputs). A name belongs to one job: who comes
later is not registered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import asyncpg

from services.task_definition.data.store.outputs import SQL
from shared.catalogue import Catalogue
from shared.model.outputs_by_expression import BY_EXPRESSION, files_by_expression


async def name_outputs(connection: asyncpg.Connection, job_ids: Sequence[int], catalogue: Catalogue) -> list[int]:
    """Name what holding jobs wrote; those of which another file has a name already, and nothing was named.

    A name that only a failed attempt or a lost file has is free again, and its file leaves the catalogue.
    """
    rows = await SQL.rows(connection, "outputs_by_expression", job_ids=list(job_ids), begins=f"{BY_EXPRESSION}%")
    if not rows:
        return []
    await SQL.rows(connection, "lock_names", datasets=sorted({row["dataset_name"] for row in rows}))
    by_job: dict[int, list[asyncpg.Record]] = defaultdict(list)
    for row in rows:
        by_job[row["job_id"]].append(row)
    tasks = {row["job_id"]: row["task_id"] for row in rows}
    datasets = {row["file_id"]: row["dataset_name"] for row in rows}
    named = {job_id: _files(outputs) for job_id, outputs in by_job.items()}
    taken = await _taken(connection, named, tasks, datasets)
    late, kept = list[int](), list[tuple[int, str]]()
    for job_id, files in sorted(named.items()):
        names = {(tasks[job_id], lfn) for _, lfn in files}
        if names & taken:
            late.append(job_id)
        else:
            taken |= names
            kept += files
    await _free(connection, [(datasets[file_id], lfn) for file_id, lfn in kept], catalogue)
    await _name(connection, kept)
    return late


async def _taken(
    connection: asyncpg.Connection,
    named: Mapping[int, Sequence[tuple[int, str]]],
    tasks: Mapping[int, int],
    datasets: Mapping[int, str],
) -> set[tuple[int, str]]:
    """(task, name) of files that others have."""
    wanted = sorted({(tasks[job_id], datasets[file_id], lfn) for job_id in named for file_id, lfn in named[job_id]})
    found = await SQL.rows(
        connection,
        "taken_names",
        task_ids=[task_id for task_id, _, _ in wanted],
        datasets=[name for _, name, _ in wanted],
        lfns=[lfn for _, _, lfn in wanted],
    )
    return {(row["task_id"], row["lfn"]) for row in found}


async def _free(connection: asyncpg.Connection, names: Sequence[tuple[str, str]], catalogue: Catalogue) -> None:
    datasets, lfns = [dataset for dataset, _ in names], [lfn for _, lfn in names]
    freed = await SQL.rows(connection, "free_names", datasets=datasets, lfns=lfns)
    await catalogue.remove_files(connection, sorted((row["dataset_name"], row["lfn"]) for row in freed))


def _files(outputs: Sequence[asyncpg.Record]) -> list[tuple[int, str]]:
    """(file id of the output, name) of each file that a job wrote for an expression."""
    ids = {one["lfn"]: one["file_id"] for one in outputs}
    listed = sorted(outputs[0]["outputs"] or {})
    found = files_by_expression(list(ids), listed)
    return [(ids[expected], lfn) for expected, lfns in found.items() for lfn in lfns]


async def _name(connection: asyncpg.Connection, files: Sequence[tuple[int, str]]) -> None:
    first: dict[int, str] = {}
    others: list[tuple[int, str]] = []
    for file_id, lfn in files:
        if file_id in first:
            others.append((file_id, lfn))
        else:
            first[file_id] = lfn
    await SQL.run(connection, "name_outputs", file_ids=list(first), lfns=list(first.values()))
    if others:
        ids, lfns = [file_id for file_id, _ in others], [lfn for _, lfn in others]
        await SQL.run(connection, "add_outputs", file_ids=ids, lfns=lfns)
