"""Data: outputs of jobs registered in the catalogue, transfers given a time by their link and completed when it comes.

A job's outputs are registered once, whatever is delivered twice: a file is known by dataset and name, a copy by file
and storage.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import asyncpg

from services.task_definition.policy.transfers import (
    CLOSENESS_KEY,
    THROUGHPUT_KEYS,
    Speed,
    duration_s,
    fails,
    throughput_mb_s,
)
from shared.catalogue.port import Catalogue, NewFile
from shared.config.parameters import Parameters
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.events import OutputsProduced, OutputsRegistered, TransfersCompleted, TransfersRequested
from shared.model.job_report import JobReport, ReportedFile

_SQL = Queries.beside(__file__, "data.sql")
COMPONENT = "catalogue"
DUE_AT_MOST, REQUEST_LOST_AFTER_S = 1000, 60.0
NO_SOURCE = "the catalogue knows no copy to read from"


class Data:
    """Handlers of `outputs.produced` and `transfers.requested`, and the periodic end of transfers."""

    def __init__(self, catalogue: Catalogue, parameters: Parameters, rng: random.Random) -> None:
        self._catalogue, self._parameters, self._random = catalogue, parameters, rng

    async def on_outputs_produced(self, event: OutputsProduced, work: UnitOfWork) -> None:
        """Files, sizes and checksums as the pilots reported them, at the storage where they were written: those that a
        pilot listed, and of a job that failed the log alone."""
        jobs = await _SQL.rows(work.connection, "holding_jobs", job_ids=list(event.job_ids))
        if not jobs:
            return
        storages = await self._output_storages(work.connection, jobs)
        reported = {row["job_id"]: _reported(row["report"]) for row in jobs}
        failed = {row["job_id"] for row in jobs if row["reported_state"] == "failed"}
        rows = await _SQL.rows(work.connection, "produced_outputs", job_ids=[row["job_id"] for row in jobs])
        known = await self._known_storages(work.connection, reported.values())
        files, measured = [], []
        for row in rows:
            found = reported[row["job_id"]].get(row["lfn"])
            if found is None or (row["job_id"] in failed and not row["is_log"]):
                continue
            storage = found.storage if found.storage in known else storages[row["job_id"]]
            measured.append((row["file_id"], found))
            files.append(
                NewFile(
                    row["dataset_name"], row["lfn"], found.size_bytes, storage or "", None, found.checksum, found.guid
                )
            )
        await _describe(work.connection, measured)
        await self._catalogue.add_files(work.connection, files)
        work.emit(OutputsRegistered(job_ids=tuple(row["job_id"] for row in jobs)))

    @staticmethod
    async def _known_storages(
        connection: asyncpg.Connection, reports: Iterable[Mapping[str, ReportedFile]]
    ) -> dict[str | None, str]:
        """Which of the storages that pilots name exist, with their sites."""
        named = sorted({one.storage for report in reports for one in report.values() if one.storage})
        rows = await _SQL.rows(connection, "sites_of_storages", storages=named) if named else []
        return {row["storage"]: row["site"] for row in rows}

    async def on_transfers_requested(self, event: TransfersRequested, work: UnitOfWork) -> None:
        await self._start(work, list(event.transfer_ids))

    async def look_after_transfers(self, work: UnitOfWork) -> None:
        """Periodic: end what is due; start requests whose event was lost."""
        lost_after_s = self._parameters.get(COMPONENT, "REQUEST_LOST_AFTER_S", default=REQUEST_LOST_AFTER_S)
        lost = await _SQL.rows(work.connection, "waiting_requests", older_than_s=lost_after_s, at_most=DUE_AT_MOST)
        if lost:
            await self._start(work, [row["transfer_id"] for row in lost])
        await self._complete(work)

    async def _start(self, work: UnitOfWork, transfer_ids: list[int]) -> None:
        """requested -> active with a due time. A transfer without a source fails at its time."""
        rows = await _SQL.rows(work.connection, "requested_transfers", transfer_ids=transfer_ids)
        if not rows:
            return
        speed = self._speed()
        rates = await self._rates(work.connection, rows)
        durations, errors = [], []
        for row in rows:
            durations.append(duration_s(row["n_bytes"], rates[row["transfer_id"]], speed))
            failed = fails(self._random.random(), speed)
            error = "the transfer failed" if failed else None
            errors.append(NO_SOURCE if row["source_storage"] is None else error)
        await _SQL.run(
            work.connection,
            "start_transfers",
            transfer_ids=[row["transfer_id"] for row in rows],
            durations_s=durations,
            errors=errors,
        )

    def _speed(self) -> Speed:
        get = self._parameters.get
        return Speed(
            get(COMPONENT, "TRANSFER_SPEED_UP", default=1.0),
            get(COMPONENT, "TRANSFER_LATENCY_S", default=10.0),
            get(COMPONENT, "TRANSFER_FAILURE_PERCENT", default=0.0),
        )

    async def _rates(self, connection: asyncpg.Connection, rows: Sequence[asyncpg.Record]) -> dict[int, float]:
        """MB/s of each transfer's link."""
        names = sorted({name for row in rows for name in (row["source_storage"], row["destination_storage"]) if name})
        sites = {
            row["storage"]: row["site"] for row in await _SQL.rows(connection, "sites_of_storages", storages=names)
        }
        pairs = {
            row["transfer_id"]: (sites.get(row["source_storage"]), sites.get(row["destination_storage"]))
            for row in rows
        }
        links = sorted({pair for pair in pairs.values() if None not in pair})
        metrics: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for row in await _SQL.rows(
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

    async def _complete(self, work: UnitOfWork) -> None:
        """active -> done or failed where the time has come; copies registered, the dispatcher told."""
        rows = await _SQL.rows(work.connection, "end_due_transfers", at_most=DUE_AT_MOST)
        if not rows:
            return
        rows = sorted(rows, key=lambda row: row["transfer_id"])
        done = [row for row in rows if row["status"] == "done"]
        moved = await _SQL.rows(
            work.connection,
            "moved_files",
            job_ids=[row["job_id"] for row in done],
            directions=[row["direction"] for row in done],
            storages=[row["destination_storage"] for row in done],
        )
        await self._catalogue.add_replicas(
            work.connection, [(row["dataset_name"], row["lfn"], row["storage"]) for row in moved]
        )
        failed = sorted({row["job_id"] for row in rows if row["status"] == "failed"})
        work.emit(
            TransfersCompleted(
                transfer_ids=tuple(row["transfer_id"] for row in rows),
                job_ids=tuple(sorted({row["job_id"] for row in done} - set(failed))),
                failed_job_ids=tuple(failed),
            )
        )

    async def _output_storages(self, connection: asyncpg.Connection, jobs: Sequence[asyncpg.Record]) -> dict[int, str]:
        """Where each job's queue writes."""
        queues = sorted({row["queue"] for row in jobs})
        rows = await _SQL.rows(connection, "storages_of_queues", queues=queues)
        places: dict[str, dict[str, Any] | None] = dict.fromkeys(queues)
        places.update({row["queue"]: dict(row) for row in rows})
        return {
            row["job_id"]: output_storage(places[row["queue"]], row["prod_source_label"], row["queue"]) for row in jobs
        }


def output_storage(place: Mapping[str, Any] | None, label: str, queue: str) -> str:
    """The first storage a queue writes to for this kind of work, else its site's; the queue's name if it is unknown."""
    if place is None:
        return queue
    endpoints: Mapping[str, Sequence[str]] = place["astorages"] or {}
    analysis = ("write_lan_analysis",) if label in ("user", "panda") else ()
    for activity in (*analysis, "write_lan", "write_lan_analysis"):
        if endpoints.get(activity):
            return str(endpoints[activity][0])
    return str(place["default_storage"] or next(iter(place["site_storages"] or ()), queue))


def _reported(report: Mapping[str, Any] | None) -> dict[str, ReportedFile]:
    """Files by name."""
    return {one.lfn: one for one in JobReport.from_stored(report or {}).outputs}


async def _describe(connection: asyncpg.Connection, measured: Sequence[tuple[int, ReportedFile]]) -> None:
    await _SQL.run(
        connection,
        "describe_outputs",
        file_ids=[file_id for file_id, _ in measured],
        sizes=[one.size_bytes for _, one in measured],
        guids=[one.guid for _, one in measured],
        checksums=[one.checksum for _, one in measured],
    )
