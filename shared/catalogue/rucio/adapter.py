"""Rucio as a source, a registrar and a mover: the port's words in Rucio's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from rucio.common.exception import (
    DataIdentifierAlreadyExists,
    DuplicateRule,
    RucioException,
    RuleNotFound,
)

from shared.catalogue.outside import (
    CatalogueLies,
    CatalogueTrouble,
    Collection,
    DataName,
    FileFacts,
    NewCollection,
    NewRule,
    RuleProgress,
)
from shared.catalogue.port import NewFile, Replica
from shared.catalogue.rucio.session import Session, told
from shared.catalogue.rucio.settings import RucioSettings

T = TypeVar("T")
#: Rucio's states of a rule and what they come to; one that it suspended brings nothing any more
OUTCOMES: Mapping[str, Literal["moving", "done", "stuck", "gone"]] = {
    "OK": "done",
    "REPLICATING": "moving",
    "INJECT": "moving",
    "STUCK": "stuck",
    "WAITING_APPROVAL": "stuck",
}
#: prefixes of checksums, and what Rucio calls them
CHECKSUMS = {"ad": "adler32", "md": "md5"}


class RucioCatalogue:
    """`shared.catalogue.outside.OutsideCatalogue` on a Rucio server."""

    def __init__(self, settings: RucioSettings) -> None:
        self._session = Session(settings)
        self.transfer_scope = settings.transfer_scope

    def shut_down(self) -> None:
        """Give the threads up."""
        self._session.close()

    async def collections(self, names: Sequence[DataName]) -> dict[DataName, Collection]:
        dids = [_did(name) for name in names]
        rows = await self._do(lambda client: list(client.get_metadata_bulk(dids))) if dids else []
        metadata = {DataName(row["scope"], row["name"]): row for row in rows}
        found = {}
        for name in names:
            if name in metadata and metadata[name]["did_type"] in ("DATASET", "CONTAINER"):
                found[name] = await self._collection(name, metadata[name])
        return found

    async def _collection(self, name: DataName, metadata: Mapping[str, Any]) -> Collection:
        if metadata["did_type"] == "CONTAINER":
            parts = await self._do(lambda client: list(client.list_content(name.scope, name.name)))
            constituents = tuple(DataName(one["scope"], one["name"]) for one in parts)
            return Collection(
                name, "container", bool(metadata["is_open"]), constituents=constituents, metadata=metadata
            )
        told_of = await self._do(lambda client: client.get_did(name.scope, name.name, dynamic_depth="FILE"))
        n_files, size_bytes = int(told_of["length"] or 0), int(told_of["bytes"] or 0)
        return Collection(name, "dataset", bool(metadata["is_open"]), n_files, size_bytes, metadata=metadata)

    async def matching(self, pattern: DataName, at_most: int) -> tuple[DataName, ...]:
        def some(client: Any) -> list[str]:
            found = client.list_dids(pattern.scope, [{"name": pattern.name}], did_type="dataset")
            return list(islice(found, at_most))

        return tuple(DataName(pattern.scope, name) for name in sorted(await self._do(some)))

    async def files(self, name: DataName) -> AsyncIterator[Sequence[FileFacts]]:
        async for some in self._slices(lambda client: client.list_files(name.scope, name.name, long=True)):
            yield [_file(row) for row in some]

    async def registered(self, names: Sequence[DataName]) -> dict[DataName, FileFacts]:
        dids = [_did(name) for name in names]
        rows = await self._do(lambda client: list(client.get_metadata_bulk(dids))) if dids else []
        return {DataName(row["scope"], row["name"]): _file(row) for row in rows}

    async def copies(self, name: DataName) -> tuple[Replica, ...]:
        rows = await self._do(lambda client: list(client.list_dataset_replicas(name.scope, name.name, deep=True)))
        here = [row for row in rows if row["available_length"]]
        return tuple(
            Replica(
                row["rse"],
                int(row["available_length"]),
                int(row["available_bytes"]),
                row["available_length"] == row["length"],
            )
            for row in sorted(here, key=lambda row: str(row["rse"]))
        )

    async def copies_of_files(self, names: Sequence[DataName]) -> AsyncIterator[Sequence[tuple[DataName, str]]]:
        dids = [_did(name) for name in names]
        async for some in self._slices(lambda client: client.list_replicas(dids)):
            yield [
                (DataName(row["scope"], row["name"]), storage)
                for row in some
                for storage, how in sorted(row["states"].items())
                if how == "AVAILABLE"
            ]

    async def create(self, new: Sequence[NewCollection]) -> None:
        containers = {one.container: NewCollection(one.container, "container") for one in new if one.container}
        for one in [*containers.values(), *new]:
            await self._do(partial(_create, new=one))

    async def add_files(self, dataset: DataName, files: Sequence[NewFile]) -> None:
        by_storage: dict[str, list[dict[str, Any]]] = {}
        for one in files:
            by_storage.setdefault(one.storage, []).append(_new_file(dataset.scope, one))
        attachments = [{**_did(dataset), "dids": some, "rse": storage} for storage, some in sorted(by_storage.items())]
        await self._do(lambda client: client.attach_dids_to_dids(attachments, ignore_duplicate=True))

    async def attach(self, dataset: DataName, files: Sequence[DataName]) -> None:
        attachment = {**_did(dataset), "dids": [_did(one) for one in files]}
        await self._do(lambda client: client.attach_dids_to_dids([attachment], ignore_duplicate=True))

    async def remove_files(self, dataset: DataName, files: Sequence[DataName]) -> None:
        def remove(client: Any) -> None:
            there = {row["name"] for row in client.list_content(dataset.scope, dataset.name)}
            wanted = [_did(one) for one in files if one.name in there]
            if wanted:
                client.detach_dids(dataset.scope, dataset.name, wanted)

        await self._do(remove)

    async def close(self, names: Sequence[DataName]) -> None:
        await self._set_open(names, wanted=False)

    async def reopen(self, names: Sequence[DataName]) -> None:
        await self._set_open(names, wanted=True)

    async def _set_open(self, names: Sequence[DataName], *, wanted: bool) -> None:
        def set_open(client: Any, name: DataName) -> None:
            # some accounts may not open, nor close what is closed: nothing is asked for that is so already
            if bool(client.get_did(name.scope, name.name)["open"]) != wanted:
                client.set_status(name.scope, name.name, open=wanted)

        for name in names:
            await self._do(partial(set_open, name=name))

    async def set_lifetime(self, name: DataName, lifetime_s: int | None) -> None:
        await self.describe(name, {"lifetime": lifetime_s})

    async def describe(self, name: DataName, metadata: Mapping[str, Any]) -> None:
        def describe(client: Any) -> None:
            for key, value in metadata.items():
                client.set_metadata(name.scope, name.name, key, value)

        await self._do(describe)

    async def create_rule(self, new: NewRule) -> str:
        return await self._do(lambda client: _create_rule(client, new, self._session.account))

    async def look_at(self, rule_ids: Sequence[str]) -> dict[str, RuleProgress]:
        return await self._do(lambda client: {rule_id: _look_at(client, rule_id) for rule_id in rule_ids})

    async def cancel(self, rule_id: str) -> None:
        def cancel(client: Any) -> None:
            with suppress(RuleNotFound):
                client.delete_replication_rule(rule_id)

        await self._do(cancel)

    async def _do(self, work: Callable[[Any], T]) -> T:
        try:
            return await self._session.call(work)
        except RucioException as error:
            raise CatalogueTrouble(told(error)) from None

    async def _slices(self, work: Callable[[Any], Iterator[T]]) -> AsyncIterator[list[T]]:
        try:
            async for some in self._session.slices(work):
                yield some
        except RucioException as error:
            raise CatalogueTrouble(told(error)) from None


def _did(name: DataName) -> dict[str, str]:
    return {"scope": name.scope, "name": name.name}


def _file(row: Mapping[str, Any]) -> FileFacts:
    checksum = next((f"{short}:{row[name]}" for short, name in CHECKSUMS.items() if row.get(name)), None)
    name = DataName(row["scope"], row["name"])
    if not isinstance(row["bytes"], int | float):
        raise CatalogueLies(f"file {name} has {row['bytes']!r} bytes")
    return FileFacts(name, int(row["bytes"]), row.get("events"), checksum, row.get("guid"), row.get("lumiblocknr"))


def _new_file(scope: str, one: NewFile) -> dict[str, Any]:
    """A file as Rucio takes it: its checksum under its own name, its guid without dashes."""
    meta = {"guid": (one.guid or "").replace("-", "").lower() or None, "events": one.n_events}
    row = {"scope": scope, "name": one.lfn, "bytes": one.size_bytes}
    kind, _, checksum = (one.checksum or "").rpartition(":")
    if checksum and kind in CHECKSUMS:
        row[CHECKSUMS[kind]] = checksum
    return {**row, "meta": {key: value for key, value in meta.items() if value is not None}}


def _create(client: Any, new: NewCollection) -> None:
    scope, name = new.name.scope, new.name.name
    add = client.add_container if new.kind == "container" else client.add_dataset
    with suppress(DataIdentifierAlreadyExists):
        add(scope, name, meta=dict(new.metadata) or None, lifetime=new.lifetime_s)
    if new.container is not None:
        attachment = {**_did(new.container), "dids": [_did(new.name)]}
        client.attach_dids_to_dids([attachment], ignore_duplicate=True)


def _create_rule(client: Any, new: NewRule, account: str) -> str:
    """A rule like it is found again: by collection, account and storage."""

    def found() -> str | None:
        rules = client.list_did_rules(new.name.scope, new.name.name)
        like = (one["id"] for one in rules if (one["account"], one["rse_expression"]) == (account, new.storage))
        return next(like, None)

    try:
        [rule_id] = client.add_replication_rule(
            [_did(new.name)],
            copies=1,
            rse_expression=new.storage,
            activity=new.activity,
            lifetime=new.lifetime_s,
            source_replica_expression=new.source,
            comment=new.comment or None,
            notify="Y",
        )
        return str(rule_id)
    except DuplicateRule:
        known = found()
        if known is None:
            raise
        return known


def _look_at(client: Any, rule_id: str) -> RuleProgress:
    try:
        rule = client.get_replication_rule(rule_id)
    except RuleNotFound:
        return RuleProgress("gone", "there is no such rule")
    outcome = OUTCOMES.get(rule["state"], "gone")
    reason = rule.get("error") or ("" if outcome in ("done", "moving") else f"the rule is {rule['state']}")
    return RuleProgress(outcome, reason)
