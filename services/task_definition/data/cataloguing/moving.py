"""Transfers of jobs as rules of a catalogue outside (JEDI: Direct replica lookup)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import asyncpg

from services.task_definition.data.cataloguing.working import CatalogueRequest, Done, Later
from services.task_definition.data.policy.outside import LOOKED_UP_ABOVE
from services.task_definition.data.store.catalogue_requests import SQL
from services.task_definition.data.wishing import Wishes
from services.task_definition.parameters import ONE_TIME_COPY_DAYS, RULE_LOOK_UP_S
from shared.catalogue.outside import DataName, NewCollection, NewRule, OutsideCatalogue
from shared.catalogue.port import Catalogue, OneUse
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, TransfersCompleted
from shared.model.batches import batches

#: files that are put into a dataset, or looked up, together
TOGETHER = 1000
DAY_S = 86_400.0


class OutsideMoving:
    """The files of several jobs are one dataset with one rule; its end is the end of their transfers."""

    def __init__(self, database: Database, inside: Catalogue, parameters: Parameters, wishes: Wishes) -> None:
        self._database, self._inside, self._parameters, self._wishes = database, inside, parameters, wishes

    async def move(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done | Later:
        """Make the rule, or see how far it is."""
        async with self._database.read() as connection:
            transfers = await SQL.rows(connection, "transfers_of_request", request_id=request.request_id)
            files = await SQL.rows(connection, "files_to_move", request_id=request.request_id)
            is_used = await SQL.value(connection, "is_used_by_jobs", request_id=request.request_id)
        if not any(row["is_wanted"] for row in transfers):
            if request.rule_id is not None and not is_used:  # else it is released after use
                await catalogue.cancel(request.rule_id)
            text = "no job waits for it any more"
            return Done(lambda work: self._end(work, request, transfers, files, error=text), reason=text)
        if request.rule_id is None:
            return await self._begin(request, catalogue, files)
        return await self._look(request, request.rule_id, catalogue, transfers, files)

    async def release(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """No job uses any more what a rule brought: it is cancelled, and its copies may go."""
        await catalogue.cancel(request.details["rule_id"])
        return Done()

    async def _begin(
        self, request: CatalogueRequest, catalogue: OutsideCatalogue, files: Sequence[asyncpg.Record]
    ) -> Later:
        name = DataName(catalogue.transfer_scope, f"orrery.transfer.{request.task_id}.{request.request_id}")
        about = {"task_id": request.task_id}
        lifetime_s = int(self._copy_lifetime_s())
        await catalogue.create([NewCollection(name, lifetime_s=lifetime_s, metadata=about)])
        dids = sorted({DataName(row["scope"], row["lfn"]) for row in files})
        collection = (await catalogue.collections([name])).get(name)
        if collection is None or collection.is_open:  # else it was made before a crash
            for some in batches(dids, TOGETHER):
                await catalogue.attach(name, some)
            await catalogue.close([name])
        rule_id = await catalogue.create_rule(
            NewRule(
                name,
                request.subject,
                request.details["activity"],
                lifetime_s,
                comment=f"{request.details['direction']} of jobs of task {request.task_id}",
            )
        )
        return Later(
            self._parameters.read(RULE_LOOK_UP_S), rule_id, apply=lambda work: self._keep(work, request, files)
        )

    async def _keep(self, work: UnitOfWork, request: CatalogueRequest, files: Sequence[asyncpg.Record]) -> None:
        """Datasets that are used many times are wanted whole where some of their files are brought, and stay there."""
        if request.details["direction"] != "input":
            return
        wanted = {row["dataset_name"]: row["dataset_scope"] for row in files if not row["is_for_one_use"]}
        await self._wishes.keep_at(work, request.task_id, request.vo, request.subject, wanted)

    async def _look(
        self,
        request: CatalogueRequest,
        rule_id: str,
        catalogue: OutsideCatalogue,
        transfers: Sequence[asyncpg.Record],
        files: Sequence[asyncpg.Record],
    ) -> Done | Later:
        found = (await catalogue.look_at([rule_id]))[rule_id]
        if found.outcome == "done":
            return Done(lambda work: self._end(work, request, transfers, files))
        if found.outcome == "gone":
            text = f"rule {rule_id} brings nothing: {found.reason}"
            return Done(lambda work: self._end(work, request, transfers, files, error=text), is_lost=True, reason=text)
        async with self._database.read() as connection:
            task = await SQL.row(connection, "task_of_request", task_id=request.task_id)
        here: list[asyncpg.Record] = []
        if task is not None and task["current_priority"] > LOOKED_UP_ABOVE:
            here = await _arrived(request.subject, catalogue, transfers, files)
        return Later(
            self._parameters.read(RULE_LOOK_UP_S),
            reason=found.reason or None,
            apply=(lambda work: self._end(work, request, here, files)) if here else None,
        )

    async def _put_copies(
        self, work: UnitOfWork, request: CatalogueRequest, arrived: Sequence[asyncpg.Record], places: Mapping[int, str]
    ) -> None:
        """Where files are now: outputs and input that is used many times stay, other input is for its task."""
        copies: dict[bool, set[tuple[str, str, str]]] = {True: set(), False: set()}
        for row in arrived:
            copies[row["is_for_one_use"]].add((row["dataset_name"], row["lfn"], places[row["transfer_id"]]))
        await self._inside.add_replicas(work.connection, sorted(copies[False]))
        use = OneUse(request.task_id, self._copy_lifetime_s(), request.request_id)
        await self._inside.bring(work.connection, sorted(copies[True]), use)

    def _copy_lifetime_s(self) -> float:
        return self._parameters.read(ONE_TIME_COPY_DAYS) * DAY_S

    async def _end(
        self,
        work: UnitOfWork,
        request: CatalogueRequest,
        transfers: Sequence[asyncpg.Record],
        files: Sequence[asyncpg.Record],
        *,
        error: str | None = None,
    ) -> None:
        """Transfers end together; copies are in the cache, and the dispatcher is told."""
        ended = await SQL.rows(
            work.connection,
            "end_transfers",
            transfer_ids=[row["transfer_id"] for row in transfers],
            status="done" if error is None else "failed",
            error=error,
        )
        if not ended:
            return
        ids = {row["transfer_id"] for row in ended}
        if error is None:
            places = {row["transfer_id"]: row["destination_storage"] for row in transfers}
            arrived = [row for row in files if row["transfer_id"] in ids]
            await self._put_copies(work, request, arrived, places)
        for some in batches(ended, IDS_OF_EVENT):
            job_ids = tuple(sorted({row["job_id"] for row in some}))
            work.emit(
                TransfersCompleted(
                    transfer_ids=tuple(sorted(row["transfer_id"] for row in some)),
                    job_ids=job_ids if error is None else (),
                    failed_job_ids=() if error is None else job_ids,
                )
            )


async def _arrived(
    storage: str,
    catalogue: OutsideCatalogue,
    transfers: Sequence[asyncpg.Record],
    files: Sequence[asyncpg.Record],
) -> list[asyncpg.Record]:
    """Transfers of which every file is at a storage, though others of the rule are not."""
    missing: dict[int, set[DataName]] = defaultdict(set)
    for row in files:
        missing[row["transfer_id"]].add(DataName(row["scope"], row["lfn"]))
    wanted = sorted({file for some in missing.values() for file in some})
    here = set[DataName]()
    for asked in batches(wanted, TOGETHER):
        async for some in catalogue.copies_of_files(asked):
            here |= {file for file, place in some if place == storage}
    return [row for row in transfers if missing[row["transfer_id"]] <= here]
