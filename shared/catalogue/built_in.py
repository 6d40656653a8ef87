"""The built-in catalogue: schema `catalogue` in PostgreSQL, so registering joins the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import asyncpg

from shared.catalogue.port import DatasetFacts, FeedRequest, FeedResult, NewFile, Replica
from shared.db.queries import Queries

SQL = Queries.beside(__file__)
#: a dataset of ten million files takes minutes to copy
FEED_TIMEOUT_S = 3600


class BuiltInCatalogue:
    """`shared.catalogue.port.Catalogue` on PostgreSQL; stateless."""

    async def find(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, DatasetFacts]:
        rows = await SQL.rows(connection, "find_datasets", names=list(names))
        return {
            row["name"]: DatasetFacts(
                row["name"],
                row["scope"],
                row["kind"],
                row["state"],
                row["n_files"],
                row["n_bytes"],
                row["n_events"],
                tuple(row["constituents"] or ()),
                row["attributes"],
            )
            for row in rows
        }

    async def replicas(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, tuple[Replica, ...]]:
        found: dict[str, list[Replica]] = {}
        for row in await SQL.rows(connection, "find_replicas", names=list(names)):
            replica = Replica(row["storage"], row["n_files"], row["n_bytes"], row["complete"])
            found.setdefault(row["name"], []).append(replica)
        return {name: tuple(copies) for name, copies in found.items()}

    async def create(
        self, connection: asyncpg.Connection, name: str, *, scope: str, container: str | None = None
    ) -> None:
        await SQL.run(connection, "create_dataset", scope=scope, name=name, kind="dataset")
        if container is not None and container != name:
            await SQL.run(connection, "create_dataset", scope=scope, name=container, kind="container")
            await SQL.run(connection, "put_into_container", container=container, name=name)

    async def feed(self, connection: asyncpg.Connection, request: FeedRequest) -> FeedResult:
        arguments = asdict(request)
        for name in ("include", "exclude", "skip_files_used_by"):
            arguments[name] = list(arguments[name])
        arguments["names"] = None if request.names is None else list(request.names)
        row = await SQL.one(connection, "feed", timeout_s=FEED_TIMEOUT_S, **arguments)
        return FeedResult(row["n_units"], row["n_files"], row["n_events"])

    async def add_files(self, connection: asyncpg.Connection, files: Sequence[NewFile]) -> int:
        if not files:
            return 0
        await SQL.run(connection, "lock_datasets", names=sorted({one.dataset for one in files}))
        new = await SQL.rows(
            connection,
            "insert_files",
            datasets=[one.dataset for one in files],
            lfns=[one.lfn for one in files],
            sizes=[one.size_bytes for one in files],
            events=[one.n_events for one in files],
            checksums=[one.checksum for one in files],
            guids=[one.guid for one in files],
        )
        await SQL.run(
            connection,
            "count_new_files",
            dataset_ids=[row["dataset_id"] for row in new],
            sizes=[row["size_bytes"] for row in new],
            events=[row["n_events"] for row in new],
        )
        await self._insert_copies(connection, [(one.dataset, one.lfn, one.storage) for one in files])
        return len(new)

    async def add_replicas(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        if not copies:
            return
        await SQL.run(connection, "lock_datasets", names=sorted({dataset for dataset, _, _ in copies}))
        await self._insert_copies(connection, copies)

    async def _insert_copies(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        await SQL.run(
            connection,
            "insert_file_replicas",
            datasets=[dataset for dataset, _, _ in copies],
            lfns=[lfn for _, lfn, _ in copies],
            storages=[storage for _, _, storage in copies],
        )

    async def remove_files(self, connection: asyncpg.Connection, files: Sequence[tuple[str, str]]) -> int:
        if not files:
            return 0
        datasets, lfns = [dataset for dataset, _ in files], [lfn for _, lfn in files]
        await SQL.run(connection, "lock_datasets", names=sorted(set(datasets)))
        await SQL.run(connection, "remove_file_replicas", datasets=datasets, lfns=lfns)
        return int(await SQL.value(connection, "remove_files", datasets=datasets, lfns=lfns))

    async def freeze(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        await SQL.run(connection, "lock_datasets", names=sorted(names))
        await SQL.run(connection, "freeze_datasets", names=list(names))
        await SQL.run(connection, "complete_replicas", names=list(names))

    async def reopen(self, connection: asyncpg.Connection, names: Sequence[str]) -> None:
        await SQL.run(connection, "lock_datasets", names=sorted(names))
        await SQL.run(connection, "reopen_datasets", names=list(names))
