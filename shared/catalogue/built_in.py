"""The built-in catalogue: schema `catalogue` in PostgreSQL, so registering joins the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from shared.catalogue.port import MOST_STOOD_FOR, DatasetFacts, NewFile, OneUse, Replica
from shared.db.queries import Queries
from shared.model.names import DATABASE_RELEASES, LATEST_RELEASE, WILDCARD, scope_of, stands_for_others

SQL = Queries.beside(__file__)


def _as_container(name: str, datasets: Sequence[str]) -> DatasetFacts:
    """A name that stands for others is read as a container of them."""
    return DatasetFacts(name, scope_of(name), "container", "frozen", constituents=tuple(datasets))


class BuiltInCatalogue:
    """`shared.catalogue.port.Catalogue` on PostgreSQL; stateless."""

    async def find(
        self, connection: asyncpg.Connection, names: Sequence[str], vo: str | None = None
    ) -> dict[str, DatasetFacts]:
        patterns = {name: await self._matching(connection, name, vo) for name in names if stands_for_others(name)}
        stood_for = [one for found in patterns.values() for one in found]
        known = await self._find(connection, [*(name for name in names if name not in patterns), *stood_for], vo)
        return known | {name: _as_container(name, found) for name, found in patterns.items() if found}

    async def _matching(self, connection: asyncpg.Connection, name: str, vo: str | None) -> list[str]:
        """The datasets that a name with wildcards stands for, and the newest database release."""
        pattern = DATABASE_RELEASES if name == LATEST_RELEASE else name
        like = pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_").replace(WILDCARD, "%")
        rows = await SQL.rows(connection, "matching_datasets", pattern=like, vo=vo, at_most=MOST_STOOD_FOR + 1)
        names = [str(row["name"]) for row in rows]
        return names[-1:] if name == LATEST_RELEASE else names

    async def _find(
        self, connection: asyncpg.Connection, names: Sequence[str], vo: str | None
    ) -> dict[str, DatasetFacts]:
        rows = await SQL.rows(connection, "find_datasets", names=list(names), vo=vo)
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
                row["of_vo"],
                row["owner"],
                row["readable_by_all"],
            )
            for row in rows
        }

    async def replicas(self, connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, tuple[Replica, ...]]:
        found: dict[str, list[Replica]] = {}
        for row in await SQL.rows(connection, "find_replicas", names=list(names)):
            replica = Replica(row["storage"], row["n_files"], row["n_bytes"], row["complete"])
            found.setdefault(row["name"], []).append(replica)
        return {name: tuple(copies) for name, copies in found.items()}

    async def create_container(self, connection: asyncpg.Connection, name: str, *, scope: str) -> None:
        """Register an empty container."""
        await SQL.run(connection, "create_dataset", scope=scope, name=name, kind="container")

    async def absent(self, connection: asyncpg.Connection, files: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        if not files:
            return set()
        rows = await SQL.rows(
            connection,
            "absent_files",
            datasets=[dataset for dataset, _ in files],
            lfns=[lfn for _, lfn in files],
        )
        return {(row["dataset"], row["lfn"]) for row in rows}

    async def create(
        self, connection: asyncpg.Connection, name: str, *, scope: str, container: str | None = None
    ) -> None:
        await SQL.run(connection, "create_dataset", scope=scope, name=name, kind="dataset")
        if container is not None and container != name:
            await self.create_container(connection, container, scope=scope)
            await SQL.run(connection, "put_into_container", container=container, name=name)

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
        await self._count(connection, new)
        await self._insert_copies(connection, [(one.dataset, one.lfn, one.storage) for one in files])
        return len(new)

    async def attach(self, connection: asyncpg.Connection, name: str, files: Sequence[tuple[str, str]]) -> None:
        """Files (scope, lfn) of other datasets, with their copies, become files of an open one too."""
        scopes, lfns = [scope for scope, _ in files], [lfn for _, lfn in files]
        await SQL.run(connection, "lock_datasets", names=[name])
        await self._count(connection, await SQL.rows(connection, "attach_files", name=name, scopes=scopes, lfns=lfns))
        copies = await SQL.rows(connection, "copies_of_attached", name=name, lfns=lfns)
        await self._insert_copies(connection, [(row["dataset"], row["lfn"], row["storage"]) for row in copies])

    async def _count(self, connection: asyncpg.Connection, new: Sequence[asyncpg.Record]) -> None:
        await SQL.run(
            connection,
            "count_new_files",
            dataset_ids=[row["dataset_id"] for row in new],
            sizes=[row["size_bytes"] for row in new],
            events=[row["n_events"] for row in new],
        )

    async def add_replicas(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        if not copies:
            return
        await SQL.run(connection, "lock_datasets", names=sorted({dataset for dataset, _, _ in copies}))
        await SQL.run(connection, "keep_brought", **_columns(copies))
        await self._insert_copies(connection, copies)

    async def bring(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]], use: OneUse) -> None:
        if not copies:
            return
        await SQL.run(connection, "lock_datasets", names=sorted({dataset for dataset, _, _ in copies}))
        await SQL.run(
            connection,
            "note_brought",
            **_columns(copies),
            task_id=use.task_id,
            request_id=use.request_id,
            lifetime_s=use.lifetime_s,
        )
        await self._insert_copies(connection, copies)

    async def drop_copies(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        if not copies:
            return
        names = sorted({dataset for dataset, _, _ in copies})
        await SQL.run(connection, "lock_datasets", names=names)
        await SQL.run(connection, "drop_copies", **_columns(copies))
        await SQL.run(connection, "drop_empty_replicas", names=names)

    async def _insert_copies(self, connection: asyncpg.Connection, copies: Sequence[tuple[str, str, str]]) -> None:
        await SQL.run(connection, "insert_file_replicas", **_columns(copies))

    async def delete_some(self, connection: asyncpg.Connection, dataset_id: int, at_most: int) -> bool:
        same = {"dataset_id": dataset_id}
        found = await SQL.rows(connection, "delete_files", at_most=at_most, **same)
        await SQL.run(connection, "delete_named_files", file_ids=[row["file_id"] for row in found])
        if len(found) == at_most:
            return True
        await SQL.run(connection, "delete_copies_of_dataset", **same)
        await SQL.run(connection, "delete_rules_of_dataset", **same)
        await SQL.run(connection, "delete_from_containers", **same)
        await SQL.run(connection, "delete_dataset", **same)
        return False

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


def _columns(copies: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    return {
        "datasets": [dataset for dataset, _, _ in copies],
        "lfns": [lfn for _, lfn, _ in copies],
        "storages": [storage for _, _, storage in copies],
    }
