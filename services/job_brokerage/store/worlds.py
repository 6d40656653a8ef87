"""Writes the live world as a world file, for whoever asks; its parts are of one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import asyncpg

from services.job_brokerage.policy.told_world import told_world
from shared.auth import Caller
from shared.auth.reach import Reach
from shared.db.queries import Queries
from shared.model.link import EXPRESS, PRODUCTION_INPUT, PRODUCTION_OUTPUT, Link, links_of
from shared.model.world_file import FORMAT, WorldFile
from shared.snapshot import reader

SQL = Queries.beside(__file__)


async def save_world(connection: asyncpg.Connection, caller: Caller) -> WorldFile:
    """Read the world as it is in the database now.

    Of people of VOs that are not the caller's it has numbers alone. It is put together beside the event loop: the links
    of a whole grid take half a second.
    """
    reach = Reach.of(caller)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        parts = {
            **await _grid(connection),
            **await _counts(connection, reach),
            **await _usage(connection, reach),
        }
        links = [tuple(row) for row in await reader.SQL.rows(connection, "network_metrics")]
        people = None if reach.is_all else await _rows(SQL, connection, "people_of_world", **reach._asdict())
    world = await asyncio.to_thread(_put_together, parts, links)
    return world if people is None else told_world(world, {row["user_name"]: row["submits"] for row in people}, caller)


def _put_together(parts: dict[str, Any], links: list[tuple[Any, ...]]) -> WorldFile:
    return WorldFile.model_validate({**parts, "network_metrics": dump_of(links_of(links).values())})


async def _rows(queries: Queries, connection: asyncpg.Connection, name: str, **given: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in await queries.rows(connection, name, **given)]


async def _grid(connection: asyncpg.Connection) -> dict[str, Any]:
    version, now = await SQL.one(connection, "grid_version")
    shares = await _rows(SQL, connection, "shares_of_world")
    types = await _rows(SQL, connection, "resource_types_of_world")
    software = await _rows(reader.SQL, connection, "software_map")
    return {
        "format": FORMAT,
        "now": now,
        "version": version,
        "queues": {row["queue"]: row["data"] for row in await _rows(reader.SQL, connection, "queues")},
        "sites": {row["site"]: row["data"] for row in await _rows(reader.SQL, connection, "sites")},
        "storages": {row["storage"]: row["data"] for row in await _rows(reader.SQL, connection, "storages")},
        "software_map": {row["queue"]: row["data"] for row in software},
        "resource_types": types,
        "shares": [
            {key: value for key, value in row.items() if value is not None}
            | {"throttled": "NY"[row["throttled"]], "stretchable": "NY"[row["stretchable"]]}
            for row in shares
        ],
    }


async def _counts(connection: asyncpg.Connection, reach: Reach) -> dict[str, Any]:
    activity = await _rows(SQL, connection, "activity_of_world")
    signs = ("last_pilot_at", "last_job_start_at", "known_since", "mean_disk_io_kb_s_per_core")
    return {
        "statistics": await _rows(SQL, connection, "statistics_of_world"),
        "pilots": {row["queue"]: {name: row[name] for name in signs} for row in activity},
        "workers": {
            row["queue"]: {
                "running": row["running_workers"],
                "submitted": row["submitted_workers"],
                "n_slots": row["n_slots"],
                "slots_of_type": row["slots_of_type"],
            }
            for row in activity
        },
        "history": {
            "outcomes": await _rows(SQL, connection, "outcomes_of_world", **reach._asdict()),
            "waits": await _rows(SQL, connection, "waits_of_world"),
            "waiting_merge_jobs": await _rows(SQL, connection, "waiting_merge_jobs_of_world"),
        },
        "nucleus_remaining_work": await _rows(SQL, connection, "remaining_work_of_world"),
    }


async def _usage(connection: asyncpg.Connection, reach: Reach) -> dict[str, Any]:
    running: dict[str, float] = {}
    for row in await _rows(SQL, connection, "statistics_of_world"):
        if row["status"] == "running":
            running[row["gshare"]] = running.get(row["gshare"], 0.0) + row["n_cores"]
    users, groups = (
        await _rows(SQL, connection, "users_of_world"),
        await _rows(SQL, connection, "group_usage_of_world", **reach._asdict()),
    )
    return {
        "share_usage": running,
        "share_corrections": {
            row["gshare"]: row["correction_factor"]
            for row in await _rows(SQL, connection, "share_corrections_of_world")
        },
        "user_usage": {row["user_name"]: _disk_of(row) for row in users if not row["vo"]},
        "user_usage_of_vos": [row for row in users if row["vo"]],
        "group_usage_of_vos": groups,
        "user_groups": await _rows(SQL, connection, "user_groups_of_world"),
        "group_corrections": await _rows(SQL, connection, "group_corrections_of_world"),
        "task_queues": await _rows(SQL, connection, "task_queues_of_world"),
        "site_adverts": await _rows(SQL, connection, "adverts_of_world"),
        "parameters": await _rows(SQL, connection, "parameters_of_world"),
    }


def _disk_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("disk_quota_gb", "disk_used_gb")}


def dump_of(links: Iterable[Link]) -> dict[str, Any]:
    """Links in the form of the weather service's dump: what `link_from_dump` reads."""

    def at(time: datetime | None) -> dict[str, Any]:
        return {} if time is None else {"timestamp": time.isoformat()}

    def present(**values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}

    dump = {}
    for link in sorted(links, key=lambda one: (one.source, one.destination)):
        waiting = {
            PRODUCTION_OUTPUT: link.queued_output,
            EXPRESS: link.queued_express,
            PRODUCTION_INPUT: link.queued_input,
        }
        queued = {
            name: {"latest": number, **at(link.queued_at)} for name, number in waiting.items() if number is not None
        }
        if not queued and link.queued_at is not None:
            queued = {PRODUCTION_OUTPUT: at(link.queued_at)}
        done = {"1h": link.done_output_1h, "6h": link.done_output_6h}
        dump[f"{link.source}:{link.destination}"] = {
            "src": link.source, "dst": link.destination,
            "closeness": {**present(latest=link.closeness), **at(link.closeness_at)},
            "files": {"queued": queued, "done": {PRODUCTION_OUTPUT: present(**done)}},
            "mbps": {"dashb": {
                **present(**{"1h": link.mbps_1h, "1d": link.mbps_1d, "1w": link.mbps_1w}), **at(link.mbps_at),
            }},
        }  # fmt: skip
    return dump
