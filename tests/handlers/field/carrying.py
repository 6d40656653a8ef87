"""Carries a task of the corpus from its submission to its merge jobs, and tells what came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from shared.db import Database
from shared.events import TaskProgressed, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from shared.task.rule_text import text_of_rules
from tests.handlers.events import deliver
from tests.handlers.field.corpus import FIELDS_TASK, HERE, SITE, Case, put_files
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

#: jobs that are ended before merging is tried, and what they wrote
MERGED_JOBS, OUTPUT_BYTES, LOG_BYTES = 3, 200_000_000, 5_000_000
#: case -> what is refused of it by its name and decides neither names nor texts: the rest of such a task is compared
LEFT_OUT = {
    "p_rules1": ("allowInputWAN", "useZipToPin", "notDiscardEvents", "decAttOnFailedES"),
    "p_rules3": ("switchEStoNormal", "maxNumJobs", "totNumJobs"),
}
#: what is refused by its value -> what the field reads of it
AS_READ = {("ipConnectivity", "full#6"): "full"}


class UncheckedStory(Story):
    """The invariants are checked once, at the end of all tasks."""

    async def check(self) -> None:
        return


@dataclass
class Came:
    """What became of a task: why it was refused or broken, or its row, datasets and jobs."""

    refused: str | None = None
    task: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)
    datasets: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    merge_jobs: list[dict[str, Any]] = field(default_factory=list)


class Carrier:
    """task_definition and job generation on one database, with brokerage, dispatch and pilots played."""

    def __init__(self, story: Story, service: Service, client: httpx.AsyncClient) -> None:
        self._story, self._service, self._client = story, service, client
        self._database: Database = story.database

    async def carry(self, case: Case, task_id: int) -> Came:
        """One task under a number that is in no other text of it."""
        if case.files:
            await put_files(self._database, {f"{name}{HERE}": files for name, files in case.files.items()})
        await self._value("SELECT setval('task_ids', $1, false)", task_id)
        given = _submitted(case, task_id)
        reply = (await self._client.post("/api/v1/task/submit", json={"task_parameters": given})).json()
        if not reply["success"]:
            return Came(refused=_as_the_field(str(reply["message"]), task_id))
        await deliver(self._database, self._service, TaskRegistered(task_id=task_id))
        status, why = await self._row("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
        if status == "topreprocess" and case.prepared is not None:
            await self._answer_of_preprocessing(task_id, case.prepared)
            status, why = await self._row("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
        if status not in ("assigning", "ready"):
            return Came(refused=_as_the_field(f"{status}: {why}", task_id))
        datasets = await self._story.fetch(
            "SELECT dataset_name, container_name, type, stream_name, attributes, storage_token FROM task_datasets"
            " WHERE task_id = $1 ORDER BY dataset_id",
            task_id,
        )
        await self._make_jobs(task_id, case)
        return await self._came(task_id, datasets)

    async def _answer_of_preprocessing(self, task_id: int, answer: dict[str, Any]) -> None:
        """The pre-processing job is made, and answers."""
        said = await self._story.hear(TaskReleased(task_id=task_id, status="topreprocess", reason="test"))
        jobs = await self._brokered(task_id, chunks_in(said))
        for event in await self._story.end(jobs, "finished", report={"meta_data": answer}):
            if isinstance(event, TaskProgressed):
                await deliver(self._database, self._service, event)

    async def _make_jobs(self, task_id: int, case: Case) -> None:
        async with self._database.begin(reason="the test plays task brokerage") as work:
            await work.connection.execute(
                "UPDATE tasks SET nucleus = $2, status = 'ready' WHERE task_id = $1 AND status = 'assigning'",
                task_id,
                SITE,
            )
        chunks = chunks_in(await self._story.hear(TaskReady(task_id=task_id)))
        while chunks:
            jobs = await self._brokered(task_id, chunks)
            kinds = await self._kinds(jobs)
            built = [job for job in jobs if kinds[job] == "build"]
            chunks = [] if not built else chunks_in(await self._story.end(built, "finished"))
        if case.made.get("merge_jobs") is not None:
            await self._merge(task_id)

    async def _brokered(self, task_id: int, chunks: list[int]) -> list[int]:
        """Jobs of these chunks and of those that they left."""
        [kind] = await self._row("SELECT resource_type FROM tasks WHERE task_id = $1", task_id)
        made: list[int] = []
        while chunks:
            said = await self._story.broker(task_id, chunks.pop(0), SITE, resource_type=kind)
            chunks += chunks_in(said)
            made += generated_in(said)
        return made

    async def _merge(self, task_id: int) -> None:
        """The first jobs are done and the others failed: the corpus merges what three jobs wrote."""
        found = await self._story.fetch(
            "SELECT job_id FROM jobs WHERE task_id = $1 AND job_type = 'normal' ORDER BY job_id", task_id
        )
        jobs = [row["job_id"] for row in found]
        if jobs[MERGED_JOBS:]:
            await self._story.end(jobs[MERGED_JOBS:], "failed", source="payload")
        written = await self._story.fetch(
            "SELECT lfn, type FROM task_files WHERE out_job_id = ANY($1::bigint[])", jobs[:MERGED_JOBS]
        )
        sizes = {one["lfn"]: LOG_BYTES if one["type"].endswith("log") else OUTPUT_BYTES for one in written}
        report = {"job_status": "finished", "outputs": {lfn: {"fsize": size} for lfn, size in sizes.items()}}
        said = await self._story.end(jobs[:MERGED_JOBS], "merging", report=report)
        [merged] = await self._row(
            "SELECT array_agg(chunk_id) FROM chunks WHERE task_id = $1 AND kind = 'merge'", task_id
        )
        await self._brokered(task_id, [one for one in chunks_in(said) if one in (merged or ())])

    async def _kinds(self, jobs: list[int]) -> dict[int, str]:
        rows = await self._story.fetch("SELECT job_id, job_type FROM jobs WHERE job_id = ANY($1::bigint[])", jobs)
        return {row["job_id"]: row["job_type"] for row in rows}

    async def _came(self, task_id: int, datasets: list[dict[str, Any]]) -> Came:
        [task] = await self._story.fetch("SELECT * FROM tasks WHERE task_id = $1", task_id)
        rows = await self._story.fetch(
            "SELECT j.job_type, s.spec, j.status FROM job_specs s JOIN jobs j USING (job_id)"
            " WHERE j.task_id = $1 ORDER BY j.job_id",
            task_id,
        )
        rules = text_of_rules(task["split_rule"])
        why = None
        if not rows:
            why = f"{task['status']}: {task['error_dialog']}"
        told = _plain(task_id, {"task": task, "datasets": datasets, "jobs": rows})
        jobs = [dict(row["spec"], kind=row["job_type"], status=row["status"]) for row in told["jobs"]]
        return Came(
            why and _as_the_field(why, task_id),
            told["task"],
            dict(part.partition("=")[::2] for part in rules.split(",") if part),
            told["datasets"],
            [one for one in jobs if one["kind"] not in ("merge", "preprocess")],
            [one for one in jobs if one["kind"] == "merge"],
        )

    async def _row(self, query: str, *arguments: Any) -> Any:
        async with self._database.read() as connection:
            return await connection.fetchrow(query, *arguments)

    async def _value(self, query: str, *arguments: Any) -> Any:
        async with self._database.begin(reason="test") as work:
            return await work.connection.fetchval(query, *arguments)


def _submitted(case: Case, task_id: int) -> dict[str, Any]:
    """What the case submits, by a user of ours, with names that no other case has and without scouts."""
    text = orjson.dumps(case.submitted).decode().replace(f"0{FIELDS_TASK}", f"0{task_id}")
    for name in case.files:
        bare = name.rpartition(":")[2]
        text = text.replace(bare, f"{bare}{HERE}")
    more = {"userName": "jdoe", "uniqueTaskName": False, "allowTaskDuplication": True, "skipScout": True}
    named: dict[str, Any] = orjson.loads(text)
    named |= {name: read for (name, said), read in AS_READ.items() if named.get(name) == said}
    return {name: value for name, value in {**named, **more}.items() if name not in LEFT_OUT.get(case.name, ())}


def _as_the_field(text: str, task_id: int) -> str:
    return text.replace(str(task_id), FIELDS_TASK)


def _plain(task_id: int, told: Any) -> Any:
    """As JSON, with the number of the field's task in place of ours."""
    return orjson.loads(_as_the_field(orjson.dumps(told, default=str).decode(), task_id))
