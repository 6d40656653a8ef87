"""Writes what is wanted of a catalogue outside, in the transaction of the change that wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import asyncpg

from services.task_definition.data.policy.outside import grouped
from services.task_definition.data.store.catalogue_requests import SQL
from services.task_definition.parameters import READ_FRESH_FOR_S
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork


class Wishes:
    """For VOs whose data is in the built-in catalogue there is nothing to wish."""

    def __init__(self, vos: Collection[str], parameters: Parameters) -> None:
        self.vos = sorted(vos)
        self._parameters = parameters
        #: set when something was written: a worker of this process need not wait for its next look
        self.written = asyncio.Event()

    def is_outside(self, vo: str) -> bool:
        return vo in self.vos

    async def unread(self, work: UnitOfWork, task_id: int, vo: str, names: Sequence[str]) -> dict[str, str | None]:
        """Datasets to be read before the task goes on, with what went wrong so far; asked for here."""
        if not names or not self.is_outside(vo):
            return {}
        fresh_for_s = self._parameters.read(READ_FRESH_FOR_S)
        rows = await SQL.rows(work.connection, "unread", vo=vo, names=list(names), fresh_for_s=fresh_for_s)
        await self._add(work, task_id, vo, "read", {row["name"]: {} for row in rows})
        return {row["name"]: row["reason"] for row in rows}

    async def read_again(self, work: UnitOfWork, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Input of live tasks (task_id, vo, asked_for) is read outside again, if it was not lately."""
        by_task: dict[tuple[int, str], set[str]] = {}
        for one in inputs:
            if self.is_outside(one["vo"]):
                by_task.setdefault((one["task_id"], one["vo"]), set()).add(one["asked_for"])
        for (task_id, vo), names in sorted(by_task.items()):
            await self.unread(work, task_id, vo, sorted(names))

    async def create(self, work: UnitOfWork, task_id: int, vo: str, datasets: Iterable[Mapping[str, Any]]) -> None:
        """Register a task's output datasets: each with scope, name and container."""
        wanted = list(datasets)
        if wanted and self.is_outside(vo):
            names = [one[name] for one in wanted for name in ("name", "container") if one[name]]
            await SQL.run(work.connection, "belong_to", vo=vo, names=names)
            await self._add(work, task_id, vo, "create", {f"task {task_id}": {"datasets": wanted}})

    async def add_files(self, work: UnitOfWork, jobs: Mapping[int, tuple[int, str]]) -> None:
        """Register the outputs of jobs: task and VO by job."""
        if not jobs:
            return
        task_ids = sorted({task_id for task_id, _ in jobs.values()})
        rows = await SQL.rows(work.connection, "jobs_being_registered", task_ids=task_ids, job_ids=sorted(jobs))
        asked = {row["job_id"] for row in rows}
        by_task: dict[tuple[int, str], list[int]] = {}
        for job_id in sorted(jobs.keys() - asked):
            by_task.setdefault(jobs[job_id], []).append(job_id)
        for (task_id, vo), job_ids in by_task.items():
            await self._add(work, task_id, vo, "add_files", {f"{len(job_ids)} jobs": {"job_ids": job_ids}})

    async def close(
        self, work: UnitOfWork, task_id: int, vo: str, datasets: Mapping[str, bool], leftovers: Mapping[str, list[str]]
    ) -> None:
        """Nothing is added to these any more, leftovers are taken out.

        True: the dataset is transient, and no rule keeps it.
        """
        if not datasets or not self.is_outside(vo):
            return
        scopes = await self._scopes(work.connection, list(datasets))
        for name, lfns in leftovers.items():
            details = {"scope": scopes.get(name), "lfns": lfns}
            await self._add(work, task_id, vo, "remove_files", {name: details})
        known = [{"scope": scopes[name], "name": name} for name in sorted(scopes)]
        await self._add(work, task_id, vo, "close", {f"task {task_id}": {"datasets": known}})
        kept = {name: {"scope": scopes[name]} for name in sorted(scopes) if not datasets[name]}
        await self._add(work, task_id, vo, "keep", kept)

    async def stage(self, work: UnitOfWork, row: Mapping[str, Any], *, lifetime_s: float) -> None:
        """A stage-in: its dataset is wanted on disk for so long."""
        scopes = await self._scopes(work.connection, [row["dataset_name"]])
        details = {
            "stage_in_id": row["stage_in_id"],
            "dataset": row["dataset_name"],
            "scope": scopes[row["dataset_name"]],
            "source": row["source_storage"],
            "destination": row["destination_storage"],
            "lifetime_s": lifetime_s,
        }
        subject = f"{row['dataset_name']} at {row['destination_storage']}"
        await self._add(work, row["task_id"], row["vo"], "stage", {subject: details})

    async def read_now(self, work: UnitOfWork, task_id: int, vo: str, name: str) -> None:
        """A dataset is read again, however lately that was done."""
        await self._add(work, task_id, vo, "read", {name: {}})

    async def keep_at(
        self, work: UnitOfWork, task_id: int, vo: str, storage: str, datasets: Mapping[str, str | None]
    ) -> None:
        """Whole copies of these (scopes by name) are wanted at a storage, for as long as they like."""
        wanted = {
            f"{name} at {storage}": {"scope": scope, "name": name, "storage": storage}
            for name, scope in sorted(datasets.items())
        }
        await self._add(work, task_id, vo, "keep", wanted)

    async def expire(
        self, work: UnitOfWork, task_id: int, vo: str, datasets: Sequence[Mapping[str, Any]], lifetime_s: float | None
    ) -> None:
        """These, with scope and name, may be deleted after so long; None: not until that is said again."""
        if datasets and self.is_outside(vo):
            lifetime = None if lifetime_s is None else int(lifetime_s)
            details = {"datasets": [dict(one) for one in datasets], "lifetime_s": lifetime}
            await self._add(work, task_id, vo, "expire", {f"{len(datasets)} datasets": details})

    async def release(self, work: UnitOfWork, rules: Sequence[Mapping[str, Any]]) -> None:
        """Rules (vo, task_id, rule_id) whose copies no job uses any more are cancelled."""
        for one in rules:
            if self.is_outside(one["vo"]):
                rule_id = one["rule_id"]
                await self._add(work, one["task_id"], one["vo"], "release", {f"rule {rule_id}": {"rule_id": rule_id}})

    async def reopen(self, work: UnitOfWork, task_id: int, vo: str, names: Sequence[str]) -> None:
        """Files may be added again."""
        if names and self.is_outside(vo):
            rows = await SQL.rows(work.connection, "scopes_of", names=list(names))
            known = [{"scope": row["scope"], "name": row["name"], "stays": row["expires"]} for row in rows]
            await self._add(work, task_id, vo, "reopen", {f"task {task_id}": {"datasets": known}})

    async def move(self, work: UnitOfWork, transfer_ids: Sequence[int]) -> list[int]:
        """Make requests of transfers whose VO has a catalogue outside; the others of them."""
        rows = []
        if self.vos:
            rows = await SQL.rows(work.connection, "group_transfers", transfer_ids=list(transfer_ids), vos=self.vos)
        for some in grouped([dict(row) for row in rows]):
            first = some[0]
            request_id = await SQL.value(
                work.connection,
                "add_move",
                vo=first["vo"],
                task_id=first["task_id"],
                storage=first["destination_storage"],
                details={"activity": first["activity"], "direction": first["direction"]},
            )
            ids = [row["transfer_id"] for row in some]
            await SQL.run(work.connection, "begin_transfers", request_id=request_id, transfer_ids=ids)
            work.after_commit(self.written.set)
        taken = {row["transfer_id"] for row in rows}
        return [one for one in transfer_ids if one not in taken]

    async def look_sooner(self, work: UnitOfWork, rule_ids: Sequence[str], vos: Sequence[str]) -> int:
        """Something was said of these rules: they are looked at now; how many of them are waited for."""
        rows = await SQL.rows(work.connection, "look_sooner", rule_ids=list(rule_ids), vos=list(vos))
        work.after_commit(self.written.set)
        return len(rows)

    async def _scopes(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, str]:
        return {row["name"]: row["scope"] for row in await SQL.rows(connection, "scopes_of", names=list(names))}

    async def _add(
        self, work: UnitOfWork, task_id: int, vo: str, kind: str, details: Mapping[str, Mapping[str, Any]]
    ) -> None:
        if details:
            await SQL.run(
                work.connection,
                "add_requests",
                vo=vo,
                task_id=task_id,
                kind=kind,
                subjects=list(details),
                details=[dict(one) for one in details.values()],
            )
            work.after_commit(self.written.set)
