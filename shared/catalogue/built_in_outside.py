"""The built-in catalogue as a source, registrar and mover: every call is a transaction of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.catalogue.built_in import BuiltInCatalogue
from shared.catalogue.outside import (
    SLICE,
    CatalogueTrouble,
    Collection,
    DataName,
    FileFacts,
    NewCollection,
    NewRule,
    RuleProgress,
)
from shared.catalogue.port import OPEN, NewFile, Replica
from shared.db.database import Database
from shared.db.queries import Queries

SQL = Queries.beside(__file__)
LIFETIME = "lifetime_s"


class BuiltInOutside:
    """`shared.catalogue.outside.OutsideCatalogue` on PostgreSQL; a rule takes `moves_s` seconds."""

    def __init__(self, database: Database, *, moves_s: float = 0.0) -> None:
        self._database, self._moves_s = database, moves_s
        self._inside = BuiltInCatalogue()
        self.transfer_scope = "orrery"

    async def collections(self, names: Sequence[DataName]) -> dict[DataName, Collection]:
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "collections", names=[one.name for one in names])
        found = {}
        for row in rows:
            name = DataName(row["scope"], row["name"])
            parts = tuple(map(DataName, row["part_scopes"], row["part_names"]))
            found[name] = Collection(
                name, row["kind"], row["state"] == OPEN, row["n_files"], row["n_bytes"], parts, row["attributes"]
            )
        return {name: found[name] for name in names if name in found}

    async def matching(self, pattern: DataName, at_most: int) -> tuple[DataName, ...]:
        async with self._database.read() as connection:
            found = (await self._inside.find(connection, [pattern.name])).get(pattern.name)
        names = found.constituents if found is not None else ()
        known = await self.collections([DataName(pattern.scope, name) for name in names])
        return tuple(known)[:at_most]

    async def files(self, name: DataName) -> AsyncIterator[Sequence[FileFacts]]:
        after = 0
        while True:
            async with self._database.read() as connection:
                rows = await SQL.rows(connection, "files_after", name=name.name, after=after, at_most=SLICE)
            if not rows:
                return
            after = rows[-1]["file_id"]
            yield [
                FileFacts(
                    DataName(row["scope"], row["lfn"]),
                    row["size_bytes"],
                    row["n_events"],
                    row["checksum"],
                    row["guid"],
                    row["lumi_block"],
                )
                for row in rows
            ]

    async def registered(self, names: Sequence[DataName]) -> dict[DataName, FileFacts]:
        return {}

    async def copies(self, name: DataName) -> tuple[Replica, ...]:
        async with self._database.read() as connection:
            found = (await self._inside.replicas(connection, [name.name])).get(name.name, ())
        [facts] = (await self.collections([name])).values() or [None]
        return tuple(replace(one, complete=facts is not None and one.n_files == facts.n_files) for one in found)

    async def copies_of_files(self, names: Sequence[DataName]) -> AsyncIterator[Sequence[tuple[DataName, str]]]:
        after, wanted = 0, [one.name for one in names]
        while True:
            async with self._database.read() as connection:
                rows = await SQL.rows(connection, "copies_after", names=wanted, after=after, at_most=SLICE)
            if not rows:
                return
            after = rows[-1]["file_id"]
            yield [(DataName(row["scope"], row["lfn"]), storage) for row in rows for storage in row["storages"]]

    async def create(self, new: Sequence[NewCollection]) -> None:
        async with self._database.begin(reason="collections registered") as work:
            for one in new:
                connection, scope, name = work.connection, one.name.scope, one.name.name
                if one.kind == "container":
                    await self._inside.create_container(connection, name, scope=scope)
                else:
                    inside = one.container.name if one.container else None
                    await self._inside.create(connection, name, scope=scope, container=inside)
                metadata = {**one.metadata, **({} if one.lifetime_s is None else {LIFETIME: one.lifetime_s})}
                if metadata:
                    await SQL.run(connection, "describe", name=name, attributes=metadata)

    async def add_files(self, dataset: DataName, files: Sequence[NewFile]) -> None:
        await self._check_open(dataset)
        async with self._database.begin(reason="files registered") as work:
            await self._inside.add_files(work.connection, [replace(one, dataset=dataset.name) for one in files])

    async def attach(self, dataset: DataName, files: Sequence[DataName]) -> None:
        await self._check_open(dataset)
        async with self._database.begin(reason="files attached") as work:
            await self._inside.attach(work.connection, dataset.name, [(one.scope, one.name) for one in files])

    async def remove_files(self, dataset: DataName, files: Sequence[DataName]) -> None:
        async with self._database.begin(reason="files taken out") as work:
            await self._inside.remove_files(work.connection, [(dataset.name, one.name) for one in files])

    async def close(self, names: Sequence[DataName]) -> None:
        async with self._database.begin(reason="collections closed") as work:
            await self._inside.freeze(work.connection, [one.name for one in names])

    async def reopen(self, names: Sequence[DataName]) -> None:
        async with self._database.begin(reason="collections reopened") as work:
            await self._inside.reopen(work.connection, [one.name for one in names])

    async def set_lifetime(self, name: DataName, lifetime_s: int | None) -> None:
        await self.describe(name, {LIFETIME: lifetime_s})

    async def describe(self, name: DataName, metadata: Mapping[str, Any]) -> None:
        async with self._database.begin(reason="metadata set") as work:
            if not await SQL.run(work.connection, "describe", name=name.name, attributes=dict(metadata)):
                raise CatalogueTrouble(f"{name} is not in the catalogue")

    async def create_rule(self, new: NewRule) -> str:
        async with self._database.begin(reason="rule made") as work:
            rule_id = await SQL.value(
                work.connection,
                "create_rule",
                name=new.name.name,
                storage=new.storage,
                activity=new.activity,
                comment=new.comment,
                lifetime_s=new.lifetime_s,
            )
        if rule_id is None:
            raise CatalogueTrouble(f"{new.name} is not in the catalogue")
        return str(rule_id)

    async def look_at(self, rule_ids: Sequence[str]) -> dict[str, RuleProgress]:
        states = dict.fromkeys(rule_ids, RuleProgress("gone", "there is no such rule"))
        known = [int(one) for one in rule_ids if one.isdigit()]
        async with self._database.begin(reason="rules looked at") as work:
            for row in await SQL.rows(work.connection, "rules", rule_ids=known):
                if row["age_s"] < self._moves_s:
                    states[str(row["rule_id"])] = RuleProgress("moving")
                    continue
                files = await SQL.rows(work.connection, "files_to_copy", name=row["name"])
                copies = [(one["dataset"], one["lfn"], row["storage"]) for one in files]
                await self._inside.add_replicas(work.connection, copies)
                states[str(row["rule_id"])] = RuleProgress("done")
        return states

    async def cancel(self, rule_id: str) -> None:
        if rule_id.isdigit():
            async with self._database.begin(reason="rule cancelled") as work:
                await SQL.run(work.connection, "cancel_rule", rule_id=int(rule_id))

    async def _check_open(self, name: DataName) -> None:
        known = (await self.collections([name])).get(name)
        if known is None:
            raise CatalogueTrouble(f"{name} is not in the catalogue")
        if not known.is_open:
            raise CatalogueTrouble(f"{name} is closed")
