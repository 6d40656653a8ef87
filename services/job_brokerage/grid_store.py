"""A grid is loaded whole in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import aiosql
import asyncpg

from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.events import GridChanged
from shared.model.grid import Grid, records_of
from shared.model.link import metrics_of
from shared.model.problems import InvalidGrid, Problem
from shared.model.share import Share

queries = aiosql.from_path(Path(__file__).with_name("grid.sql"), "asyncpg")


class GridStore:
    """Writes the grid's tables; the only writer they have."""

    async def save(self, work: UnitOfWork, grid: Grid, files: Mapping[str, Any]) -> int:
        """Replace the stored grid by `grid`, which was made of `files`; the new version. Announces `grid.changed`."""
        connection = work.connection
        version: int = await queries.next_version(connection, name="grid")
        await self._save_sites_queues_and_storages(connection, grid, files)
        await self._save_network(connection, grid, work.now)
        await queries.forget_software_map(connection)
        software = records_of(files, "software_map")
        await queries.insert_software_map(connection, names=list(software), records=list(software.values()))
        await self._save_resource_types(connection, grid)
        if grid.shares:
            await self._save_shares(connection, grid.shares)
        work.emit(GridChanged(grid_version=version))
        return version

    async def _save_sites_queues_and_storages(
        self, connection: asyncpg.Connection, grid: Grid, files: Mapping[str, Any]
    ) -> None:
        """Update what stays, insert what is new, delete what is gone. Sites first and last: others point at them."""
        sites, queues, storages = list(grid.sites.values()), list(grid.queues.values()), list(grid.storages.values())
        raw = {name: records_of(files, name) for name in ("sites", "queues", "storages")}
        await queries.upsert_sites(
            connection, names=[one.name for one in sites], states=[one.state for one in sites],
            roles=["nucleus" if one.is_nucleus else "satellite" for one in sites],
            tiers=[one.tier_level for one in sites], records=[raw["sites"][one.name] for one in sites],
        )  # fmt: skip
        await queries.upsert_queues(
            connection, names=[one.name for one in queues], sites=[one.site for one in queues],
            statuses=[one.status.value for one in queues], types=[one.type.value for one in queues],
            records=[raw["queues"][one.name] for one in queues],
        )  # fmt: skip
        await queries.upsert_storages(
            connection, names=[one.name for one in storages], sites=[one.site for one in storages],
            types=[one.type for one in storages], tapes=[one.is_tape for one in storages],
            totals=[one.space_total_gb for one in storages], frees=[one.space_free_gb for one in storages],
            useds=[one.space_used_gb for one in storages], expireds=[one.space_expired_gb for one in storages],
            min_frees=[one.space_min_free_gb for one in storages],
            unavailables=[one.space_unavailable_gb for one in storages], times=[one.space_at for one in storages],
            read_blacklisted=[one.blacklisted_read for one in storages],
            write_blacklisted=[one.blacklisted_write for one in storages],
            statuses=[dict(one.detailed_status or {}) for one in storages],
            records=[raw["storages"][one.name] for one in storages],
        )  # fmt: skip
        await queries.forget_queues(connection, names=list(grid.queues))
        await queries.forget_storages(connection, names=list(grid.storages))
        await queries.forget_sites(connection, names=list(grid.sites))

    async def _save_network(self, connection: asyncpg.Connection, grid: Grid, now: datetime) -> None:
        await queries.forget_network_metrics(connection)
        await connection.copy_records_to_table(
            "network_metrics",
            records=metrics_of(grid.links.values(), now),
            columns=["source", "destination", "key", "value", "measured_at"],
        )

    async def _save_resource_types(self, connection: asyncpg.Connection, grid: Grid) -> None:
        types = grid.resource_types
        await queries.forget_resource_types(connection)
        await queries.insert_resource_types(
            connection, names=[one.name for one in types], positions=list(range(1, len(types) + 1)),
            min_cores=[one.min_cores for one in types], max_cores=[one.max_cores for one in types],
            min_rams=[one.min_ram_per_core_mb for one in types], max_rams=[one.max_ram_per_core_mb for one in types],
        )  # fmt: skip

    async def _save_shares(self, connection: asyncpg.Connection, shares: Sequence[Share]) -> None:
        """Parents before children, because children point at them. Refused if live tasks would lose their share."""
        names = [one.name for one in shares]
        in_use = [
            Problem("shares.json", row["gshare"], "", f"is missing, but {row['n_tasks']} live tasks have it")
            async for row in queries.shares_in_use(connection, names=names)
        ]
        if in_use:
            raise InvalidGrid(in_use)
        place = {name: number for number, name in enumerate(names, start=1)}
        waiting, stored = list(shares), set[str]()
        while waiting:
            ready = [one for one in waiting if one.parent is None or one.parent in stored]
            for one in ready:
                await queries.upsert_share(
                    connection, gshare=one.name, value=one.value, parent=one.parent,
                    prod_source_label=one.prodsourcelabel, working_group=one.workinggroup, campaign=one.campaign,
                    processing_type=one.processingtype, trans_path=one.transpath, resource_type=one.rtype, vo=one.vo,
                    throttled=one.throttled, position=place[one.name],
                )  # fmt: skip
            stored |= {one.name for one in ready}
            waiting = [one for one in waiting if one.name not in stored]
        await queries.forget_shares(connection, names=names)
        await queries.next_version(connection, name="shares")

    async def record(self, work: UnitOfWork, caller: Caller, outcome: str, details: dict[str, Any]) -> None:
        """Who loaded what."""
        await queries.record_load(
            work.connection, caller=caller.name, roles=sorted(caller.roles), outcome=outcome, details=details
        )

    async def list_queues(self, connection: asyncpg.Connection) -> list[dict[str, Any]]:
        """Every queue with its jobs by state and signs of life."""
        return [dict(row) async for row in queries.list_queues(connection)]

    async def list_sites(self, connection: asyncpg.Connection) -> list[dict[str, Any]]:
        """Every site with its queues and storages."""
        return [dict(row) async for row in queries.list_sites(connection)]

    async def status(self, connection: asyncpg.Connection) -> dict[str, Any]:
        """Version of the grid and age of the newest network metric."""
        version, network = await queries.grid_version(connection), await queries.network_age(connection)
        return {**(dict(version) if version else {"version": 0, "changed_at": None}), "network": dict(network)}
