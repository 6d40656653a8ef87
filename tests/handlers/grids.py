"""A small grid in the database: two nuclei, four queues, links, written as a grid load writes it."""

from __future__ import annotations

import copy
from typing import Any

from services.job_brokerage.store.grids import save_grid
from shared.db import Database
from shared.model.grid import parse_grid


def a_record(name: str, site: str, **changes: Any) -> dict[str, Any]:
    """An online unified queue of eight cores with room for everything."""
    return {
        "siteid": name, "status": "online", "type": "unified", "atlas_site": site, "capability": "ucore",
        "corecount": 8, "corepower": 10.0, "maxtime": 345600, "maxrss": 32000, "maxwdir": 160000,
        "wnconnectivity": "full", "releases": ["ANY"],
        "astorages": {"read_lan": [f"{site}_DATADISK"], "write_lan": [f"{site}_DATADISK"]}, **changes,
    }  # fmt: skip


def a_disk(site: str, **changes: Any) -> dict[str, Any]:
    return {
        "ddm_endpoint_name": f"{site}_DATADISK", "site_name": site, "type": "DATADISK", "space_total": 102400,
        "space_free": 51200, **changes,
    }  # fmt: skip


def small_grid() -> dict[str, Any]:
    """Files of the grid: nuclei ALPHA and BETA, satellites GAMMA and DELTA; DELTA's queue is offline."""
    sites = {
        name: {"name": name, "state": "ACTIVE", "datapolicies": []} for name in ("ALPHA", "BETA", "GAMMA", "DELTA")
    }
    sites["ALPHA"]["datapolicies"] = sites["BETA"]["datapolicies"] = ["Nucleus"]
    queues = {f"Q_{site}": a_record(f"Q_{site}", site) for site in sites}
    queues["Q_DELTA"]["status"] = "offline"
    near = {"latest": 3, "timestamp": "2026-01-01T00:00:00"}
    links = {
        f"{source}:{destination}": {"src": source, "dst": destination, "closeness": near}
        for source in sites
        for destination in ("ALPHA", "BETA")
    }
    return copy.deepcopy(
        {
            "queues": queues,
            "sites": sites,
            "storages": {f"{site}_DATADISK": a_disk(site) for site in sites},
            "network_metrics": links,
        }
    )


async def load_grid(database: Database, files: dict[str, Any] | None = None) -> int:
    """Store a grid; its version."""
    content = small_grid() if files is None else files
    async with database.begin(reason="test grid") as work:
        return await save_grid(work, parse_grid(content, now=work.now), content)
