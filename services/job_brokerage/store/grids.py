"""A grid is loaded whole in one transaction, or not at all; no other module writes its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import asyncpg

from shared.auth import Caller
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.events import GridChanged
from shared.model.batches import batches
from shared.model.grid import Grid, records_of
from shared.model.link import metrics_of
from shared.model.problems import FieldProblem, InvalidGrid, Problem
from shared.model.share import Share, as_columns
from shared.model.storage import Storage
from shared.web.problems import WrongRequest
from shared.web.slices import given_back

SQL = Queries.beside(__file__)
#: how a queue was that left the grid is kept for so long: no job lives longer
ABSENT_KEPT_DAYS = 60
#: records that one statement writes: its arguments are made in one go, in which the loop does nothing else
WRITTEN_TOGETHER = 100


async def save_grid(work: UnitOfWork, grid: Grid, files: Mapping[str, Any]) -> int:
    """Replace the stored grid by `grid`, which was made of `files`; the new version.

    Announces `grid.changed`.
    """
    connection = work.connection
    version: int = await SQL.value(connection, "next_version", name="grid")
    await _save_sites_queues_and_storages(connection, grid, files)
    await _save_network(connection, grid, work.now)
    await SQL.run(connection, "forget_software_map")
    software = records_of(files, "software_map")
    for part in batches(list(software.items()), WRITTEN_TOGETHER):
        names, records = [name for name, _ in part], [record for _, record in part]
        await SQL.run(connection, "insert_software_map", names=names, records=records)
    await _save_resource_types(connection, grid)
    if grid.shares:
        await _save_shares(connection, grid.shares)
    work.emit(GridChanged(grid_version=version))
    return version


async def cordon(work: UnitOfWork, caller: Caller, queue: str, reason: str) -> None:
    """Close a queue for new work; announces `grid.changed`. Raises WrongRequest for an unknown queue."""
    # a version first, like a load: changes of the grid follow one another
    version: int = await SQL.value(work.connection, "next_version", name="grid")
    if not await SQL.rows(work.connection, "cordon", queue=queue, reason=reason, set_by=caller.name):
        raise _wrong_queue(queue, "is unknown", "a queue of the grid")
    await _changed(work, caller, version, queue, "cordon", {"reason": reason})


async def uncordon(work: UnitOfWork, caller: Caller, queue: str) -> None:
    """Open a queue again; announces `grid.changed`. Raises WrongRequest for one that is not cordoned."""
    version: int = await SQL.value(work.connection, "next_version", name="grid")
    if not await SQL.rows(work.connection, "uncordon", queue=queue):
        raise _wrong_queue(queue, "is not cordoned", "a cordoned queue")
    await _changed(work, caller, version, queue, "uncordon", {})


async def _changed(
    work: UnitOfWork, caller: Caller, version: int, queue: str, verb: str, details: dict[str, Any]
) -> None:
    await SQL.run(
        work.connection,
        "record_cordon",
        caller=caller.name,
        roles=sorted(caller.roles),
        verb=verb,
        queue=queue,
        details=details,
    )
    work.emit(GridChanged(grid_version=version, queues=(queue,)))


async def _save_sites_queues_and_storages(connection: asyncpg.Connection, grid: Grid, files: Mapping[str, Any]) -> None:
    """Update what stays, insert what is new, delete what is gone. Sites first and last: others point at them."""
    raw = {name: records_of(files, name) for name in ("sites", "queues", "storages")}
    for sites in batches(list(grid.sites.values()), WRITTEN_TOGETHER):
        await SQL.run(
            connection,
            "upsert_sites",
            names=[one.name for one in sites],
            states=[one.state for one in sites],
            roles=["nucleus" if one.is_nucleus else "satellite" for one in sites],
            tiers=[one.tier_level for one in sites],
            records=[raw["sites"][one.name] for one in sites],
        )
    for queues in batches(list(grid.queues.values()), WRITTEN_TOGETHER):
        await SQL.run(
            connection,
            "upsert_queues",
            names=[one.name for one in queues],
            sites=[one.site for one in queues],
            statuses=[one.status.value for one in queues],
            types=[one.type.value for one in queues],
            records=[raw["queues"][one.name] for one in queues],
        )
    for storages in batches(list(grid.storages.values()), WRITTEN_TOGETHER):
        await _save_storages(connection, storages, raw["storages"])
    await SQL.run(connection, "forget_queues", names=list(grid.queues))
    await SQL.run(connection, "forget_absent_queues", names=list(grid.queues), kept_days=ABSENT_KEPT_DAYS)
    await SQL.run(connection, "forget_storages", names=list(grid.storages))
    await SQL.run(connection, "forget_sites", names=list(grid.sites))


async def _save_storages(connection: asyncpg.Connection, storages: Sequence[Storage], raw: Mapping[str, Any]) -> None:
    await SQL.run(
        connection,
        "upsert_storages",
        names=[one.name for one in storages],
        sites=[one.site for one in storages],
        types=[one.type for one in storages],
        tapes=[one.is_tape for one in storages],
        totals=[one.space_total_gb for one in storages],
        frees=[one.space_free_gb for one in storages],
        useds=[one.space_used_gb for one in storages],
        expireds=[one.space_expired_gb for one in storages],
        min_frees=[one.space_min_free_gb for one in storages],
        unavailables=[one.space_unavailable_gb for one in storages],
        times=[one.space_at for one in storages],
        read_blacklisted=[one.blacklisted_read for one in storages],
        write_blacklisted=[one.blacklisted_write for one in storages],
        statuses=[dict(one.detailed_status or {}) for one in storages],
        records=[raw[one.name] for one in storages],
    )


async def _save_network(connection: asyncpg.Connection, grid: Grid, now: datetime) -> None:
    await SQL.run(connection, "forget_network_metrics")
    await connection.copy_records_to_table(
        "network_metrics",
        records=given_back(metrics_of(grid.links.values(), now)),
        columns=["source", "destination", "key", "value", "measured_at"],
    )


async def _save_resource_types(connection: asyncpg.Connection, grid: Grid) -> None:
    types = grid.resource_types
    await SQL.run(connection, "forget_resource_types")
    await SQL.run(
        connection,
        "insert_resource_types",
        names=[one.name for one in types],
        positions=list(range(1, len(types) + 1)),
        min_cores=[one.min_cores for one in types],
        max_cores=[one.max_cores for one in types],
        min_rams=[one.min_ram_per_core_mb for one in types],
        max_rams=[one.max_ram_per_core_mb for one in types],
    )


async def _save_shares(connection: asyncpg.Connection, shares: Sequence[Share]) -> None:
    """Store the shares. Refused if live tasks would lose theirs."""
    names = [one.name for one in shares]
    in_use = [
        Problem("shares.json", row["gshare"], "", f"is missing, but {row['n_tasks']} live tasks have it")
        for row in await SQL.rows(connection, "shares_in_use", names=names)
    ]
    if in_use:
        raise InvalidGrid(in_use)
    await SQL.run(connection, "upsert_shares", **as_columns(shares))
    await SQL.run(connection, "forget_shares", names=names)
    await SQL.value(connection, "next_version", name="shares")


async def record_load(work: UnitOfWork, caller: Caller, outcome: str, details: dict[str, Any]) -> None:
    """Record who loaded what."""
    await SQL.run(
        work.connection,
        "record_load",
        caller=caller.name,
        roles=sorted(caller.roles),
        outcome=outcome,
        details=details,
    )


@dataclass(frozen=True)
class Listed:
    """Which queues or sites are listed.

    With `part` in their texts, of one `site`, behind the name `after`.

    As it stands all of them. `most_in`: those first that have most jobs in this state, else by name. `records`: queues
    with all that was loaded of them.
    """

    part: str = ""
    site: str | None = None
    after: str | None = None
    at_most: int | None = None
    most_in: str | None = None
    records: bool = True


async def list_queues(connection: asyncpg.Connection, wanted: Listed) -> list[dict[str, Any]]:
    """Read queues with their jobs by state and activity."""
    return [dict(row) for row in await SQL.rows(connection, "list_queues", **asdict(wanted))]


async def list_sites(connection: asyncpg.Connection, wanted: Listed) -> list[dict[str, Any]]:
    """Read sites with their queues, storages and jobs by state."""
    key: dict[str, Any] = {"part": wanted.part, "site": wanted.site, "after": wanted.after, "at_most": wanted.at_most}
    return [dict(row) for row in await SQL.rows(connection, "list_sites", **key)]


async def grid_status(connection: asyncpg.Connection) -> dict[str, Any]:
    """Read the version of the grid and the age of the newest network metric."""
    version, network = await SQL.row(connection, "grid_version"), await SQL.one(connection, "network_age")
    return {**(dict(version) if version else {"version": 0, "changed_at": None}), "network": dict(network)}


async def queue_record(connection: asyncpg.Connection, queue: str) -> dict[str, Any] | None:
    """Read one queue as it was loaded; None where there is none."""
    record: dict[str, Any] | None = await SQL.value(connection, "queue_record", queue=queue)
    return record


async def queue_records(connection: asyncpg.Connection) -> dict[str, dict[str, Any]]:
    """Read all queues as they were loaded, by name."""
    return {row["queue"]: row["data"] for row in await SQL.rows(connection, "queue_records")}


async def storage_records(connection: asyncpg.Connection) -> dict[str, dict[str, Any]]:
    """Read all storages as they were loaded, by name."""
    return {row["storage"]: row["data"] for row in await SQL.rows(connection, "storage_records")}


async def grid_version(connection: asyncpg.Connection) -> int:
    """Read the version of the grid that is loaded; 0 where none is."""
    row = await SQL.row(connection, "grid_version")
    return int(row["version"]) if row is not None else 0


def _wrong_queue(queue: str, why: str, allowed: str) -> WrongRequest:
    said = f"queue: value {queue!r} {why}; allowed: {allowed}"
    return WrongRequest([FieldProblem("queue", queue, f"allowed: {allowed}", said)])
