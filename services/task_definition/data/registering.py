"""Registers outputs of jobs in the catalogue; gives transfers a time by link, and completes them.

A job's outputs are registered once, whatever is delivered twice: a file is known by dataset and name, a copy by file
and storage.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from prometheus_client import Counter

from services.task_definition.data.naming import name_outputs
from services.task_definition.data.policy.transfers import (
    CLOSENESS_KEY,
    THROUGHPUT_KEYS,
    Speed,
    duration_s,
    fails,
    throughput_mb_s,
)
from services.task_definition.data.store.outputs import SQL
from services.task_definition.data.wishing import Wishes
from services.task_definition.parameters import ONE_TIME_COPY_DAYS, REQUEST_LOST_AFTER_S
from shared.brokerage.output_places import storage_of_file
from shared.catalogue.port import Catalogue, NewFile, OneUse
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, OutputsProduced, OutputsRegistered, TransfersCompleted, TransfersRequested
from shared.model.analysis import is_analysis
from shared.model.batches import batches
from shared.model.grid import Grid
from shared.model.job_report import JobReport, ReportedFile
from shared.snapshot import KnownGrid
from shared.states.job import FINAL as ENDED_JOB

log = logging.getLogger(__name__)

DUE_AT_MOST, DAY_S = 1000, 86_400.0
NO_SOURCE = "the catalogue knows no copy to read from"


@dataclass(frozen=True)
class Produced:
    """Holding jobs, files of them and ended ones, what was measured by file id, jobs without a storage.

    `new_datasets`: datasets of sites that come into their container with their first file; `of_ended`: datasets with
    logs of jobs that have ended. `writers`: the job of each file, by dataset and name. `succeeded`: holding jobs that
    did not fail.
    """

    job_ids: tuple[int, ...]
    files: Sequence[NewFile]
    described: Sequence[tuple[int, ReportedFile]]
    without_storage: tuple[int, ...]
    new_datasets: Sequence[Mapping[str, Any]]
    of_ended: tuple[str, ...]
    writers: Mapping[tuple[str, str], int]
    succeeded: frozenset[int]


class Data:
    """Handlers of `outputs.produced` and `transfers.requested`, and the periodic end of transfers."""

    def __init__(
        self,
        catalogue: Catalogue,
        parameters: Parameters,
        rng: random.Random,
        grid: KnownGrid,
        wishes: Wishes,
        unregistered: Counter,
    ) -> None:
        self._catalogue, self._parameters, self._random, self._grid = catalogue, parameters, rng, grid
        self._wishes, self._unregistered = wishes, unregistered

    async def on_outputs_produced(self, event: OutputsProduced, work: UnitOfWork) -> None:
        """Register files, sizes and checksums as the pilots reported them, where they were written.

        Those are the files that a pilot listed, and of a job that failed or was killed the log alone. Of VOs that have
        a catalogue outside they are registered there first.
        """
        job_ids = await self._first_copies(work, event.job_ids)
        if late := await name_outputs(work.connection, job_ids, self._catalogue):
            job_ids = [job_id for job_id in job_ids if job_id not in late]
            for some in batches(late, IDS_OF_EVENT):
                work.emit(OutputsRegistered(job_ids=(), names_taken_job_ids=tuple(some)))
        jobs = await _jobs(work.connection, job_ids)
        outside = {row["job_id"]: (row["task_id"], row["vo"]) for row in jobs if self._wishes.is_outside(row["vo"])}
        await self._wishes.add_files(work, outside)
        inside = [row for row in jobs if row["job_id"] not in outside]
        if inside:
            await self._register(work, inside)

    async def _first_copies(self, work: UnitOfWork, job_ids: Sequence[int]) -> list[int]:
        """The jobs without copies of others (useJobCloning) that came later: of each job one copy's outputs count.

        Nothing of the later ones is registered; they stay holding until job generation takes them back.
        """
        copies = await SQL.rows(work.connection, "lock_copies", job_ids=list(job_ids))
        if not copies:
            return list(job_ids)
        sets = [row["job_set_id"] for row in copies]
        await SQL.run(work.connection, "choose_copies", set_ids=sets, job_ids=[row["job_id"] for row in copies])
        chosen = {row["job_id"] for row in await SQL.rows(work.connection, "chosen_copies", set_ids=sorted(set(sets)))}
        late = {row["job_id"] for row in copies} - chosen
        return [job_id for job_id in job_ids if job_id not in late]

    async def register(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Outputs of holding jobs and logs of ended ones are in the catalogue; the dispatcher is told."""
        await self._register(work, await _jobs(work.connection, job_ids))

    async def _register(self, work: UnitOfWork, jobs: Sequence[asyncpg.Record]) -> None:
        found = await self._produced(work.connection, jobs)
        if not found.job_ids and not found.files:
            return
        await _describe(work.connection, found.described)
        for one in found.new_datasets:
            await self._catalogue.create(work.connection, one["name"], scope=one["scope"], container=one["container"])
        without_storage = set(found.without_storage)
        refused = await self._add_files(work, found) - without_storage
        for some in batches(found.job_ids, IDS_OF_EVENT):
            lost = tuple(job_id for job_id in some if job_id in without_storage)
            unknown = tuple(job_id for job_id in some if job_id in refused)
            registered = tuple(job_id for job_id in some if job_id not in without_storage and job_id not in refused)
            told = OutputsRegistered(job_ids=registered, without_storage_job_ids=lost, refused_job_ids=unknown)
            work.emit(told)

    async def _add_files(self, work: UnitOfWork, found: Produced) -> set[int]:
        """Add what was written; jobs that wait for files which their dataset does not take.

        A log that comes after the end of its task goes into its dataset all the same, unless that is not kept.
        """
        connection = work.connection
        closed = [name for name, is_kept in (await closed_logs(connection, found)).items() if is_kept]
        if closed:
            await self._catalogue.reopen(connection, closed)
        n_new = await self._catalogue.add_files(connection, found.files)
        if closed:
            await self._catalogue.freeze(connection, closed)
        if n_new >= len(found.files):
            return set()
        absent = await self._catalogue.absent(connection, [(one.dataset, one.lfn) for one in found.files])
        return _refused(work, found, sorted(absent), self._unregistered)

    async def produced(self, connection: asyncpg.Connection, job_ids: Sequence[int]) -> Produced:
        """What jobs wrote, as their pilots reported it: all of holding ones, the logs of those that ended."""
        return await self._produced(connection, await _jobs(connection, job_ids))

    async def _produced(self, connection: asyncpg.Connection, jobs: Sequence[asyncpg.Record]) -> Produced:
        holding = {row["job_id"] for row in jobs if row["is_holding"]}
        grid = await self._grid.grid(connection)
        rows = await SQL.rows(connection, "produced_outputs", job_ids=[row["job_id"] for row in jobs])
        written = _written(grid, {row["job_id"]: row for row in jobs}, rows)
        lost = {row["job_id"] for row, _, storage in written if storage is None}
        kept = [(row, found, storage) for row, found, storage in written if row["job_id"] not in lost]
        files = [
            NewFile(row["dataset_name"], row["lfn"], found.size_bytes, storage, None, found.checksum, found.guid)
            for row, found, storage in kept
            if storage is not None
        ]
        lost -= {row["job_id"] for row in jobs if row["reported_state"] == "failed"}  # the log alone, and nobody waits
        return Produced(
            tuple(sorted(holding)),
            files,
            [(row["file_id"], found) for row, found, _ in kept],
            tuple(sorted(lost)),
            _datasets_of_sites([row for row, _, _ in kept]),
            tuple(sorted({row["dataset_name"] for row, _, _ in kept if row["job_id"] not in holding})),
            {(row["dataset_name"], row["lfn"]): row["job_id"] for row, _, _ in kept},
            frozenset(row["job_id"] for row in jobs if row["is_holding"] and row["reported_state"] != "failed"),
        )

    async def on_transfers_requested(self, event: TransfersRequested, work: UnitOfWork) -> None:
        await self._start(work, await self._wishes.move(work, event.transfer_ids))

    async def look_after_transfers(self, work: UnitOfWork) -> None:
        """Periodic: end what is due; start requests whose event was lost."""
        lost_after_s = self._parameters.read(REQUEST_LOST_AFTER_S)
        lost = await SQL.rows(work.connection, "waiting_requests", older_than_s=lost_after_s, at_most=DUE_AT_MOST)
        if lost:
            await self._start(work, await self._wishes.move(work, [row["transfer_id"] for row in lost]))
        await self._complete(work)

    async def _start(self, work: UnitOfWork, transfer_ids: list[int]) -> None:
        """requested -> active with a due time. A transfer without a source fails at its time."""
        rows = await SQL.rows(work.connection, "requested_transfers", transfer_ids=transfer_ids)
        if not rows:
            return
        speed = self._parameters.filled(Speed)
        rates = await self._rates(work.connection, rows)
        durations, errors = [], []
        for row in rows:
            durations.append(duration_s(row["n_bytes"], rates[row["transfer_id"]], speed))
            failed = fails(self._random.random(), speed)
            error = "the transfer failed" if failed else None
            errors.append(NO_SOURCE if row["source_storage"] is None else error)
        await SQL.run(
            work.connection,
            "start_transfers",
            transfer_ids=[row["transfer_id"] for row in rows],
            durations_s=durations,
            errors=errors,
        )

    async def _rates(self, connection: asyncpg.Connection, rows: Sequence[asyncpg.Record]) -> dict[int, float]:
        """MB/s of each transfer's link."""
        names = sorted({name for row in rows for name in (row["source_storage"], row["destination_storage"]) if name})
        storages = (await self._grid.grid(connection)).storages
        sites = {name: storages[name].site for name in names if name in storages}
        pairs = {
            row["transfer_id"]: (sites.get(row["source_storage"]), sites.get(row["destination_storage"]))
            for row in rows
        }
        links = sorted({pair for pair in pairs.values() if None not in pair})
        metrics: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for row in await SQL.rows(
            connection,
            "links",
            sources=[source for source, _ in links],
            destinations=[destination for _, destination in links],
            keys=[*THROUGHPUT_KEYS, CLOSENESS_KEY],
        ):
            metrics[row["source"], row["destination"]][row["key"]] = row["value"]
        return {
            transfer_id: throughput_mb_s(metrics.get((source or "", target or ""), {}), same_site=source == target)
            for transfer_id, (source, target) in pairs.items()
        }

    async def _put_copies(self, connection: asyncpg.Connection, moved: Sequence[asyncpg.Record]) -> None:
        """Where files are now: outputs and input that is used many times stay, other input is for its task."""
        staying = [_copy(row) for row in moved if not row["is_for_one_use"]]
        await self._catalogue.add_replicas(connection, staying)
        lifetime_s = self._parameters.read(ONE_TIME_COPY_DAYS) * DAY_S
        for task_id in sorted({row["task_id"] for row in moved if row["is_for_one_use"]}):
            mine = [_copy(row) for row in moved if row["is_for_one_use"] and row["task_id"] == task_id]
            await self._catalogue.bring(connection, mine, OneUse(task_id, lifetime_s))

    async def _complete(self, work: UnitOfWork) -> None:
        """active -> done or failed where the time has come; copies registered, the dispatcher told."""
        rows = await SQL.rows(work.connection, "end_due_transfers", at_most=DUE_AT_MOST)
        if not rows:
            return
        rows = sorted(rows, key=lambda row: row["transfer_id"])
        done = [row for row in rows if row["status"] == "done"]
        moved = await SQL.rows(
            work.connection,
            "moved_files",
            transfer_ids=[row["transfer_id"] for row in done],
        )
        await self._put_copies(work.connection, moved)
        failed = {row["job_id"] for row in rows if row["status"] == "failed"}
        for some in batches(rows, IDS_OF_EVENT):
            job_ids = {row["job_id"] for row in some}
            work.emit(
                TransfersCompleted(
                    transfer_ids=tuple(row["transfer_id"] for row in some),
                    job_ids=tuple(sorted(job_ids - failed)),
                    failed_job_ids=tuple(sorted(job_ids & failed)),
                )
            )


async def closed_logs(connection: asyncpg.Connection, found: Produced) -> dict[str, bool]:
    """Of the datasets with logs of jobs that ended, those that are closed; whether each is kept."""
    rows = await SQL.rows(connection, "closed_logs", names=list(found.of_ended)) if found.of_ended else ()
    return {row["name"]: row["is_kept"] for row in rows}


async def _jobs(connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[asyncpg.Record]:
    """Read those that hold, and those that ended otherwise: of these the log is registered, for people."""
    holding = await SQL.rows(connection, "holding_jobs", job_ids=list(job_ids))
    others = sorted(set(job_ids) - {row["job_id"] for row in holding})
    states = sorted(ENDED_JOB - {"finished"})
    ended = await SQL.rows(connection, "ended_jobs", job_ids=others, ended=states) if others else ()
    return [*holding, *ended]


def _refused(work: UnitOfWork, found: Produced, absent: Sequence[tuple[str, str]], unregistered: Counter) -> set[int]:
    """Jobs that succeeded, of which the catalogue has not all files now; those files are told and counted."""
    refused = {found.writers[one] for one in absent} & found.succeeded
    for dataset, lfn in absent:
        is_output = found.writers[dataset, lfn] in refused
        level = logging.ERROR if is_output else logging.INFO
        log.log(level, "dataset %s does not take %s: it is closed, or not there any more", dataset, lfn)
        work.after_commit(unregistered.labels("output" if is_output else "late log").inc)
    return refused


def _copy(row: asyncpg.Record) -> tuple[str, str, str]:
    return row["dataset_name"], row["lfn"], row["storage"]


def _written(
    grid: Grid, jobs: Mapping[int, asyncpg.Record], rows: Sequence[asyncpg.Record]
) -> list[tuple[asyncpg.Record, ReportedFile, str | None]]:
    """Each output that its pilot listed, with its storage; of a job that failed the log alone.

    What would be another VO's by its name is registered nowhere.
    """
    reported = {job_id: _reported(job["report"]) for job_id, job in jobs.items()}
    listed = []
    for row in rows:
        job, found = jobs[row["job_id"]], reported[row["job_id"]].get(row["lfn"])
        if found is not None and (row["is_log"] or job["reported_state"] != "failed"):
            analysis = is_analysis(job["task_type"], job["prod_source_label"])
            written_at = storage_of_file(grid, job["queue"], found.storage, row["token"], analysis=analysis)
            listed.append((row, found, None if row["is_foreign"] else written_at))
    return listed


def _datasets_of_sites(rows: Sequence[asyncpg.Record]) -> list[Mapping[str, Any]]:
    new = {row["dataset_name"]: row for row in rows if row["new_in_container"] is not None}
    return [
        {"name": name, "scope": row["scope"], "container": row["new_in_container"]} for name, row in sorted(new.items())
    ]


def _reported(report: Mapping[str, Any] | None) -> dict[str, ReportedFile]:
    """Files by name."""
    return {one.lfn: one for one in JobReport.from_stored(report or {}).outputs}


async def _describe(connection: asyncpg.Connection, measured: Sequence[tuple[int, ReportedFile]]) -> None:
    await SQL.run(
        connection,
        "describe_outputs",
        file_ids=[file_id for file_id, _ in measured],
        sizes=[one.size_bytes for _, one in measured],
        guids=[one.guid for _, one in measured],
        checksums=[one.checksum for _, one in measured],
    )
