"""A task on its way through job generation: the tests say what brokerage and dispatch do, and the invariants are
checked after every step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from services.job_generation.app import build
from services.watchdog.checking.run import Violation, run_checks
from shared.db import Database
from shared.events import (
    ChunkBrokered,
    ChunkOffered,
    ChunkUnplaceable,
    Event,
    JobsFailed,
    JobsFinished,
    JobsGenerated,
    JobsMerging,
    QueueChoice,
    TaskReady,
    TaskReleased,
)
from shared.runtime.service import Context, Service
from tests import rows
from tests.databases import Databases
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid

COMMAND_LINE = "--in=${IN} --max=${MAXEVENTS} --skip=${SKIPEVENTS} --out=${OUTPUT0}"
PATH = {
    "running": ("activated", "sent", "running"),
    "finished": ("activated", "sent", "running", "holding", "finished"),
    "merging": ("activated", "sent", "running", "holding", "merging"),
    "failed": ("activated", "sent", "running", "failed"),
    "closed": ("activated", "closed"),
    "cancelled": ("activated", "cancelled"),
}


class Story:
    """One database with a small grid, the service, and what was announced so far."""

    def __init__(self, database: Database, service: Service, find: Callable[[], Awaitable[list[Violation]]]) -> None:
        self.database, self.service = database, service
        self.said: list[Event] = []
        self._find_violations = find

    @classmethod
    async def begin(cls, context: Context, databases: Databases) -> Story:
        find = partial(databases.ask, context.settings.database_url, run_checks)
        story = cls(context.database, await started(build(context)), find)
        grid = small_grid()
        for record in grid["queues"].values():
            record["jobseed"] = "all"
        await load_grid(context.database, grid)
        return story

    async def hear(self, event: Event) -> Sequence[Event]:
        """Deliver one event; every invariant holds afterwards."""
        said = await deliver(self.database, self.service, event)
        self.said.extend(said)
        await self.check()
        return said

    async def check(self) -> None:
        found = [str(one) for one in await self._find_violations() if one.check not in UNSENT]
        assert found == [], found

    async def fetch(self, query: str, *arguments: Any) -> list[dict[str, Any]]:
        async with self.database.read() as connection:
            return [dict(row) for row in await connection.fetch(query, *arguments)]

    async def value(self, query: str, *arguments: Any) -> Any:
        async with self.database.read() as connection:
            return await connection.fetchval(query, *arguments)

    async def task(
        self,
        *,
        n_files: int = 4,
        opened: int | None = None,
        rule: dict[str, Any] | None = None,
        command_line: str = COMMAND_LINE,
        n_events: int | None = 100,
        seeds: bool = False,
        secondary: dict[str, Any] | None = None,
        merge: bool = False,
        status: str = "ready",
        **values: Any,
    ) -> int:
        """A defined task with files and output templates, as task_definition leaves it."""
        rule = {"nFilesPerJob": 1, "skipScout": True, **({"mergeOutput": True} if merge else {}), **(rule or {})}
        async with self.database.read() as connection:
            task_id: int = await rows.task(
                connection,
                status=status,
                split_rule=rule,
                trans_path="Sim_tf.py",
                resource_type="SCORE",
                **{"core_count": 1, "ram_count": 1000, "ram_unit": "MBPerCore", **values},
            )
            await rows.insert(connection, "task_parameters", {"task_id": task_id, "task_parameters": {}})
            lines = {"normal": command_line, "merge": "-t ${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}" if merge else None}
            template = {"task_id": task_id, "job_parameters_template": lines}
            await rows.insert(connection, "job_parameters_templates", template)
            master = await rows.dataset(
                connection,
                task_id,
                dataset_name=f"mc.input.{task_id}",
                stream_name="IN",
                n_files=n_files,
                n_files_to_be_used=n_files if opened is None else opened,
                n_events_used=0,
            )
            await self._files(connection, task_id, master, n_files, "mc.input", n_events=n_events)
            if secondary is not None:
                await self._secondary(connection, task_id, master, **secondary)
            if seeds:
                await rows.dataset(
                    connection, task_id, type="random_seed", stream_name="RNDMSEED", attributes={"offset": 500}
                )
            for stream, kind in (("OUTPUT0", "output"), ("LOG0", "log")):
                await self._output(connection, task_id, stream, kind, "HITS" if kind == "output" else "log")
                if merge:
                    await self._output(connection, task_id, stream, f"trn_{kind}", f"panda.um.{kind}")
        return task_id

    async def _files(
        self, connection: Any, task_id: int, dataset_id: int, count: int, name: str, **values: Any
    ) -> None:
        for number in range(count):
            await rows.file(
                connection,
                task_id,
                dataset_id,
                lfn=f"{name}._{number:05d}.root",
                fsize=1_000_000,
                max_attempt=3,
                **values,
            )

    async def _secondary(self, connection: Any, task_id: int, master: int, *, n_files: int, **attributes: Any) -> None:
        dataset_id = await rows.dataset(
            connection,
            task_id,
            dataset_name=f"mc.minbias.{task_id}",
            stream_name="IN_MINBIAS",
            master_id=master,
            n_files=n_files,
            n_files_to_be_used=n_files,
            attributes=attributes,
        )
        await self._files(connection, task_id, dataset_id, n_files, "minbias")

    async def _output(self, connection: Any, task_id: int, stream: str, kind: str, name: str) -> None:
        dataset_stream = f"TRN_{stream}" if kind.startswith("trn_") else stream
        dataset_id = await rows.dataset(
            connection, task_id, dataset_name=f"mc.{kind}.{task_id}", type=kind, stream_name=dataset_stream
        )
        values = {
            "task_id": task_id,
            "dataset_id": dataset_id,
            "stream_name": stream,
            "out_type": kind,
            "file_name_template": f"{name}.{task_id}._${{SN/P}}.root",
        }
        await rows.insert(connection, "output_templates", values)

    async def ready(self, task_id: int) -> list[int]:
        """TaskReady; ids of the chunks that were offered."""
        said = await self.hear(TaskReady(task_id=task_id))
        return chunks_in(said)

    async def broker(
        self,
        task_id: int,
        chunk_id: int,
        *queues: str,
        max_jobs: int | None = None,
        resource_type: str = "SCORE",
        for_jumbo: Sequence[str] = (),
    ) -> Sequence[Event]:
        """Brokerage ranked these queues; `for_jumbo`: those that may get a jumbo job, ranked or not."""
        candidates = tuple(
            QueueChoice(queue=one, resource_type=resource_type, weight=1.0, max_jobs=max_jobs)
            for one in queues or ("Q_ALPHA",)
        )
        event = ChunkBrokered(
            chunk_id=chunk_id,
            task_id=task_id,
            decision_id=1,
            candidates=candidates,
            jumbo_queues=_unranked(for_jumbo, resource_type),
        )
        return await self.hear(event)

    async def unplaceable(
        self, task_id: int, chunk_id: int, *, for_jumbo: Sequence[str] | None = ()
    ) -> Sequence[Event]:
        """No queue passed; `for_jumbo` None: no brokerage decided, the files were picked for too long."""
        async with self.database.read() as connection:
            now = await connection.fetchval("SELECT orrery_now()")
        event = ChunkUnplaceable(
            chunk_id=chunk_id,
            task_id=task_id,
            decision_id=1,
            reason="no queue is online",
            retry_at=now + timedelta(hours=1),
            jumbo_queues=None if for_jumbo is None else _unranked(for_jumbo, "SCORE"),
        )
        return await self.hear(event)

    async def jobs_of(self, task_id: int, *queues: str, resource_type: str = "SCORE") -> list[int]:
        """Offer and broker until nothing is offered any more; all job ids."""
        chunks = await self.ready(task_id)
        while chunks:
            chunks = [
                new
                for chunk in chunks
                for new in chunks_in(await self.broker(task_id, chunk, *queues, resource_type=resource_type))
            ]
        found = await self.fetch("SELECT job_id FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
        return [row["job_id"] for row in found]

    async def move(self, job_ids: Sequence[int], to: str, *, source: str | None = None, report: Any = None) -> None:
        """What dispatch does: the jobs end in a state, by allowed steps, without telling anybody yet."""
        async with self.database.begin(reason="the test plays dispatch") as work:
            for status in PATH[to]:
                await work.connection.execute(
                    "UPDATE jobs SET status = $2, state_change_time = orrery_now(), error_source = $3,"
                    " start_time = CASE WHEN $2 = 'running' THEN orrery_now() - interval '1 hour' ELSE start_time END,"
                    " end_time = CASE WHEN $2 = $4 AND $2 <> 'running' THEN orrery_now() END"
                    " WHERE job_id = ANY($1::bigint[]) AND status <> $2"
                    " AND NOT ($2 = 'activated' AND status <> 'defined')"
                    " AND NOT ($2 = 'sent' AND status = 'running')",
                    list(job_ids),
                    status,
                    source,
                    to,
                )
            if to in ("finished", "merging"):
                await self._register(work.connection, job_ids, report)
            for job_id in job_ids if report is not None else ():
                await work.connection.execute(
                    "INSERT INTO job_reports (job_id, attempt_number, state, report)"
                    " SELECT job_id, attempt_number, $2, $3 FROM jobs WHERE job_id = $1",
                    job_id,
                    to,
                    report,
                )

    async def _register(self, connection: Any, job_ids: Sequence[int], report: Any) -> None:
        """What task_definition does before these states: all outputs are registered, or those that a report lists."""
        outputs = await connection.fetch(
            "SELECT file_id, lfn FROM task_files"
            " WHERE out_job_id = ANY($1::bigint[]) AND status IN ('running', 'defined')",
            list(job_ids),
        )
        listed = (report or {}).get("outputs")
        for row in outputs:
            if listed is None:
                await rows.register(connection, row["file_id"])
            elif row["lfn"] in listed:
                one = listed[row["lfn"]]
                checksum = f"ad:{one['adler32']}" if one.get("adler32") else None
                await rows.register(
                    connection, row["file_id"], size_bytes=one.get("fsize", 0), checksum=checksum, guid=one.get("guid")
                )

    async def end(
        self, job_ids: Sequence[int], to: str, *, source: str | None = None, report: Any = None
    ) -> Sequence[Event]:
        """Jobs end and everybody hears of it."""
        await self.move(job_ids, to, source=source, report=report)
        event = {"finished": JobsFinished, "merging": JobsMerging}.get(to, JobsFailed)
        return await self.hear(event(job_ids=tuple(job_ids)))

    async def look_at_idle_tasks(self) -> list[Event]:
        """What generation does periodically."""
        said: list[Event] = []
        for name in ("look-at-waiting-job-sets", "look-at-idle-tasks"):
            periodic = next(one for one in self.service.periodic if one.name == name)
            async with self.database.begin(reason="periodic") as work:
                await periodic.run(work)
                said += work.emitted
        await self.check()
        return said

    async def released(self, task_id: int) -> Sequence[Event]:
        """What the watchdog does with a pending task whose time has come."""
        async with self.database.begin(reason="the test plays the watchdog") as work:
            await work.connection.execute(
                "UPDATE tasks SET status = coalesce(old_status, status), old_status = NULL, retry_at = NULL"
                " WHERE task_id = $1",
                task_id,
            )
        return await self.hear(TaskReleased(task_id=task_id, status="running", reason="waited long enough"))

    async def status(self, task_id: int) -> str:
        return str(await self.value("SELECT status FROM tasks WHERE task_id = $1", task_id))

    async def files(self, task_id: int, kind: str = "input") -> list[str]:
        """States of the files of a type, in order."""
        found = await self.fetch(
            "SELECT status FROM task_files WHERE task_id = $1 AND type = $2 ORDER BY file_id", task_id, kind
        )
        return [row["status"] for row in found]


#: the outbox has no relay in these tests
UNSENT = frozenset({"i10_event_not_published"})


def chunks_in(said: Sequence[Event]) -> list[int]:
    return [event.chunk_id for event in said if isinstance(event, ChunkOffered)]


def generated_in(said: Sequence[Event]) -> list[int]:
    return [job_id for event in said if isinstance(event, JobsGenerated) for job_id in event.job_ids]


def _unranked(queues: Sequence[str], resource_type: str) -> tuple[QueueChoice, ...]:
    return tuple(QueueChoice(queue=one, resource_type=resource_type, weight=1.0) for one in queues)
